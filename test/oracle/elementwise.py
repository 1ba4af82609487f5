"""Functions that work element by element."""

import ctypes
import ctypes.util
import math
import os
import re

import numpy as np

from draw import CASES, Question, case, wide, work
from wire import ALL, BOOL, F32, F64, FLOATS, INTS, NUMBERS, Values

# ---- elementwise -----------------------------------------------------------------------------------------------------


def unary(name, dtypes, fn, to=None):
    """Exact, or rounded once: NumPy's function in the type that is computed in."""

    @case(name, dtypes=dtypes)
    def draw(r, d):
        x = r.array(d, r.shape())
        return Question([x], lambda: fn(work(x)), to)


def function(name, fn, tol, small=1.1, scale=None, of_f64=None):
    """An elementary function: tol in units of the last place, relative to |x| where scale says so; of_f64: for that, if
    another; small: of those of two bytes, where it is more than one step that rounds."""

    @case(name, dtypes=FLOATS)
    def draw(r, d):
        x = r.array(d, r.shape())
        units = (of_f64 or tol) if d is F64 else tol if d is F32 else small
        return Question([x], lambda: fn(wide(x)), tol=units * d.eps, scale=scale and (lambda: scale(wide(x))))


def same_if_whole(fn):
    return lambda x: fn(x) if x.dtype.kind == "f" else x


def of_doubles(fn):
    return lambda x: np.vectorize(fn, otypes=[np.float64])(x.astype(np.float64))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal(x):
    return of_doubles(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x)


for name, fn in (("abs", np.abs), ("sign", np.sign), ("neg", np.negative), ("square", np.square)):
    unary(name, NUMBERS, fn)
unary("relu", NUMBERS, lambda x: np.where(x <= 0, x.dtype.type(0), x))
for name, fn in (("floor", np.floor), ("ceil", np.ceil), ("round", np.rint), ("trunc", np.trunc)):
    unary(name, NUMBERS, same_if_whole(fn))
for name, fn in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
    unary(name, NUMBERS, fn, BOOL)
unary("sqrt", FLOATS, np.sqrt)
unary("recip", FLOATS, lambda x: x.dtype.type(1) / x)
unary("logical_not", ALL, np.logical_not, BOOL)
unary("bitwise_not", INTS + [BOOL], np.invert)
unary("contiguous", ALL, lambda x: x)
unary("detach", ALL, lambda x: x)
unary("zeros_like", ALL, np.zeros_like)
unary("ones_like", ALL, np.ones_like)

for name, fn, tol in (
    ("exp", np.exp, 1.5),
    ("exp2", np.exp2, 1.5),
    ("expm1", np.expm1, 2),
    ("log", np.log, 1.5),
    ("log2", np.log2, 1.5),
    ("log10", np.log10, 1.5),
    ("log1p", np.log1p, 2),
    ("sin", np.sin, 2),
    ("cos", np.cos, 2),
    ("tan", np.tan, 4),
    ("asin", np.arcsin, 3),
    ("acos", np.arccos, 3),
    ("atan", np.arctan, 3),
    ("sinh", np.sinh, 3),
    ("cosh", np.cosh, 3),
    ("tanh", np.tanh, 3),
    ("asinh", np.arcsinh, 3),
    ("acosh", np.arccosh, 3),
    ("atanh", np.arctanh, 3),
    ("erf", of_doubles(math.erf), 3),
    ("erfc", of_doubles(math.erfc), 3.5),
):
    function(name, fn, tol)
function("rsqrt", lambda x: 1 / np.sqrt(x), 2)
function("sigmoid", sigmoid, 4)
function("softplus", lambda x: np.logaddexp(0, x), 6)
for name, fn in (
    ("silu", lambda x: x * sigmoid(x)),
    ("gelu", lambda x: x * normal(x)),
    ("gelu_tanh", lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.longdouble(np.pi)) * (x + 0.044715 * x**3)))),
):
    function(name, fn, 6, scale=np.abs)


def binary(name, dtypes, fn, to=None, tol=0.0, kind="any", of_f64=None):
    @case(name, dtypes=dtypes)
    def draw(r, d):
        s, t = r.broadcasts()
        x, y = r.array(d, s, kind), r.array(d, t, kind)
        how = wide if tol else work
        units = (of_f64 or tol) if d is F64 else tol if d is F32 else 1.1
        return Question([x, y], lambda: fn(how(x), how(y)), to, tol=units * d.eps if tol else 0.0)


def by_kind(**fns):
    """Of booleans, integers or floats: b, i, f; else: f."""

    def fn(x, y):
        kind = {"u": "i"}.get(x.dtype.kind, x.dtype.kind)
        return fns.get(kind, fns.get("f"))(x, y)

    return fn


def int_pow(x, y):
    def power(a, n):
        if n >= 0:
            return pow(int(a), int(n), 1 << 64)
        return 0 if a == 0 or abs(int(a)) > 1 else int(a) ** (int(n) % 2 or 2)

    out = np.vectorize(power, otypes=[object])(x, y)
    return np.array([v % (1 << 64) for v in out.ravel()], np.uint64).reshape(out.shape).astype(x.dtype)


def shifted(left):
    """Counts are unsigned; those beyond the width give zeros, or the sign."""

    def fn(x, n):
        width = 8 * x.dtype.itemsize
        x, n = np.broadcast_arrays(x, n)
        n = n.astype(n.dtype.str.replace("i", "u"))
        far = n >= width
        near = np.where(far, 0, n).astype(x.dtype)
        if left:
            return np.where(far, 0, np.left_shift(x, near)).astype(x.dtype)
        return np.where(far, np.where(x < 0, -1, 0).astype(x.dtype), np.right_shift(x, near))

    return fn


def safe(fn, otherwise):
    """Of integers: what it gives where the divisor is 0."""
    return lambda x, y: np.where(y == 0, otherwise(x), fn(x, np.where(y == 0, 1, y).astype(y.dtype))).astype(x.dtype)


def c_remainder(x, y):
    return np.where((x == np.iinfo(x.dtype).min) & (y.astype(np.int64) == -1), 0, np.fmod(x, y))


ARITHMETIC = {
    "add": by_kind(b=np.logical_or, f=np.add, i=np.add),
    "sub": np.subtract,
    "mul": by_kind(b=np.logical_and, f=np.multiply, i=np.multiply),
    "maximum": by_kind(b=np.logical_or, f=np.maximum, i=np.maximum),
    "minimum": by_kind(b=np.logical_and, f=np.minimum, i=np.minimum),
    "div": np.divide,
    "floordiv": by_kind(i=safe(np.floor_divide, np.zeros_like), f=np.floor_divide),
    "mod": by_kind(i=safe(np.mod, lambda x: x), f=np.mod),
    "fmod": by_kind(i=safe(c_remainder, np.zeros_like), f=np.fmod),
}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
COMPARISONS["ge"] = np.greater_equal
LATTICE = {"add", "mul", "maximum", "minimum"}  # that truth values have
for name, fn in ARITHMETIC.items():
    binary(name, ALL if name in LATTICE else FLOATS if name == "div" else NUMBERS, fn)
for name, fn in COMPARISONS.items():
    binary(name, ALL, fn, BOOL)
for name, fn in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
    binary("logical_" + name, ALL, fn, BOOL)
for name, fn in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    binary("bitwise_" + name, INTS + [BOOL], fn)
binary("shl", INTS, shifted(True))
binary("shr", INTS, shifted(False))
binary("atan2", FLOATS, np.arctan2, tol=3)
binary("hypot", FLOATS, np.hypot, tol=2)
binary("copysign", FLOATS, np.copysign)


@case("pow", dtypes=NUMBERS)
def _(r, d):
    s, t = r.broadcasts()
    x, y = r.array(d, s), r.array(d, t, "plain")
    if d.kind == "int":
        return Question([x, y], lambda: int_pow(x.a, y.a))
    return Question([x, y], lambda: np.power(wide(x), wide(y)), tol=2 * d.eps if d in (F32, F64) else 1.1 * d.eps)


def with_number(name, dtypes, fn, to=None, nonzero=False, tol=0.0):
    @case(name, dtypes=dtypes)
    def draw(r, d):
        x, s = r.array(d, r.shape()), r.number(d)
        if nonzero and not s:
            s = 1
        how = wide if tol else work
        return Question([x], lambda: fn(how(x), how(Values(d, d.round(s)))), to, floats=[s], tol=tol * d.eps)


for name in ("add", "mul", "maximum", "minimum"):
    with_number(name + "_scalar", ALL, ARITHMETIC[name])
with_number("sub_scalar", NUMBERS, np.subtract)
with_number("rsub_scalar", NUMBERS, lambda x, s: s - x)
with_number("div_scalar", FLOATS, np.divide, nonzero=True)
with_number("rdiv_scalar", FLOATS, lambda x, s: s / x)
with_number("floordiv_scalar", NUMBERS, ARITHMETIC["floordiv"])
with_number("mod_scalar", NUMBERS, ARITHMETIC["mod"])
for name, fn in COMPARISONS.items():
    with_number(name + "_scalar", ALL, fn, BOOL)
with_number("full_like", ALL, lambda x, s: np.full(x.shape, s))
with_number("leaky_relu", FLOATS, lambda x, s: np.where(x > 0, x, s * x))
with_number("elu", FLOATS, lambda x, s: np.where(x > 0, x, s * np.expm1(x)), tol=4)


@case("pow_scalar", dtypes=NUMBERS)
def _(r, d):
    x, s = r.array(d, r.shape()), r.number(d)
    if d.kind == "int":
        return Question([x], lambda: int_pow(x.a, np.array(s, d.native)), floats=[s])
    s = r.one_of([s, 0, 1, 2, 3, -1, 0.5])
    return Question([x], lambda: np.power(wide(x), np.longdouble(s)), floats=[s], tol=3 * d.eps)


@case("where", dtypes=ALL)
def _(r, d):
    s, t = r.broadcasts()
    p, x, y = r.array(BOOL, r.one_of([s, t])), r.array(d, s), r.array(d, t)
    return Question([p, x, y], lambda: np.where(p.a, x.a, y.a), d)


@case("where_scalar", "rwhere_scalar", dtypes=ALL)
def _(r, d, name):
    s, t = r.broadcasts()
    p, x, v = r.array(BOOL, s), r.array(d, t), r.number(d)
    first = name == "where_scalar"
    return Question([p, x], lambda: np.where(p.a, *((x.a, d.round(v)) if first else (d.round(v), x.a))), d,
                    floats=[v])  # fmt: skip


@case("where_scalars", dtypes=ALL)
def _(r, d):
    p, v, w = r.array(BOOL, r.shape()), r.number(d), r.number(d)
    return Question([p], lambda: np.where(p.a, v, w), d, (d.code,), (v, w))


@case("clamp", dtypes=NUMBERS)
def _(r, d):
    x, (lo, hi) = r.array(d, r.shape()), sorted((r.number(d), r.number(d)))
    if d.kind == "float" and r.chance(0.3):
        hi = np.inf
    return Question([x], lambda: np.clip(work(x), x.d.work.type(lo), x.d.work.type(hi)), floats=(lo, hi))


@case("cast", dtypes=ALL)
def _(r, d):
    x, to = r.array(d, r.shape()), r.one_of(ALL)

    def saturated():
        lo, hi = int(np.iinfo(to.native).min), int(np.iinfo(to.native).max)
        v = [0 if v != v else lo if v <= lo else hi if v >= hi else int(v) for v in x.a.astype(np.float64).ravel()]
        return np.array(v, to.native).reshape(x.a.shape)

    def want():
        if to is BOOL:
            return x.a != 0
        if to.kind == "float":
            return x.a if d.kind == "float" else x.a.astype(np.longdouble)
        return saturated() if d.kind == "float" else x.a.astype(to.native)

    return Question([x], want, to, (to.code,))


@case("bitcast", dtypes=NUMBERS)
def _(r, d):
    x, to = r.array(d, r.shape(), "plain"), r.one_of([t for t in NUMBERS if t.bits == d.bits])
    return Question([x], lambda: to.unpack(d.pack(x.a)).reshape(x.a.shape), to, (to.code,))


# ---- functions of floats that are one op and are not named here: NumPy's of that name, else the C library's ----------


def source(name):
    return open(os.path.join(os.path.dirname(__file__), "../..", name)).read()


def by_name(name):
    if hasattr(np, name):
        return getattr(np, name)
    fn = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name, None)
    if fn is None:
        return None  # a public function without a case: numpy_oracle.py says so
    fn.restype = ctypes.c_double

    def of_numbers(*x):
        one = np.vectorize(lambda *v: fn(*map(ctypes.c_double, v)), otypes=[np.float64])
        return one(*(np.asarray(v).astype(np.float64) for v in x))

    return of_numbers


BOUNDS = dict(re.findall(r"FN\(\w+, (\w+), ([\d.]+)\)", source("src/ir/math.inc")))  # of those that err
LIBRARIES = dict(re.findall(r'_OP\(\w+, "(\w+)".*LIBRARY\(([^)]*)\)', source("src/ir/ops.def")))
ROW = r"^(ONE|TWO)\((\w+), (?:PROMOTE, )?FLOAT, (?:NULL, )?O[12]\("
for operands, name in re.findall(ROW, source("src/tensor/elementwise.def"), re.M):
    fn = None if name in CASES else by_name(name)
    if fn is None:
        continue
    tol = float(BOUNDS[name]) + 1 if name in BOUNDS else 0.0
    library = tol and max(map(float, LIBRARIES[name].split(","))) + 1
    if operands == "TWO":
        binary(name, FLOATS, fn, tol=tol, of_f64=library)
    elif tol:
        function(name, fn, tol, of_f64=library)
    else:
        unary(name, FLOATS, fn)
