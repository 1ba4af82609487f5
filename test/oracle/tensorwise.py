"""Functions of whole tensors: reductions, shapes, indexing, contractions, compositions, creation."""

import numpy as np

from draw import REFUSED, Question, case, wide, work
from wire import ALL, BF16, BOOL, F16, F32, FAR, FLOATS, I32, I64, INTS, NUMBERS, U64, Values

# ---- reductions ------------------------------------------------------------------------------------------------------


def over(r, rank):
    """Some axes, from the front or from the end, in any order; none stands for all."""
    if not rank or r.chance(0.2):
        return (), tuple(range(rank))
    axes = tuple(int(a) for a in r.g.permutation(rank)[: 1 + r.below(rank)])
    return tuple(a - rank if r.chance(0.4) else a for a in axes), axes


def reduced(name, dtypes, fn, to=None, kind="any", tol=None, least=0):
    """fn(x, axis=, keepdims=); tol(d, n, x, kw): how far off the result may be."""

    @case(name, dtypes=dtypes)
    def draw(r, d):
        s = r.shape(least=least)
        named, axes = over(r, len(s))
        keep = r.below(2)
        x, kw = r.array(d, s, kind), {"axis": axes, "keepdims": bool(keep)}
        n = int(np.prod([s[a] for a in axes]))
        if n == 0 and name in ("max", "min"):
            return Question([x], REFUSED, ints=(keep, *named))
        float_ = d.kind == "float"
        off = (lambda: tol(d, n, wide(x), kw)) if tol and float_ else None
        how = wide if float_ and tol else work
        return Question([x], lambda: fn(how(x), **kw), to(d) if to else d, (keep, *named), tol=off and 1.0, scale=off)


def widened(d):
    return d if d.kind == "float" else U64 if d.native.kind == "u" else I64


def steps(d):
    return F32.eps if d in (F16, BF16) else d.eps


def sum_error(d, n, x, kw):
    return (n + 1) * steps(d) * np.abs(x).sum(**kw) + d.eps * np.abs(x.sum(**kw))


def whole(fn):
    """Integers and truth values in 64 bits."""

    def of(x, **kw):
        return fn(x, **kw) if x.dtype.kind == "f" else fn(x, dtype="u8" if x.dtype.kind == "u" else "i8", **kw)

    return of


reduced("sum", ALL, whole(np.sum), widened, tol=sum_error)
reduced("prod", ALL, whole(np.prod), widened, "plain", lambda d, n, x, kw: (n + 2) * d.eps * np.abs(x.prod(**kw)))
reduced("max", ALL, np.max)
reduced("min", ALL, np.min)
reduced("mean", FLOATS, np.mean, tol=lambda d, n, x, kw: 2 * sum_error(d, n, x, kw) / max(n, 1))
reduced("any", ALL, lambda x, **kw: (x != 0).any(**kw), lambda d: BOOL)
reduced("all", ALL, lambda x, **kw: (x != 0).all(**kw), lambda d: BOOL)


def log_sum(x, axis, keepdims):
    if any(x.shape[a] == 0 for a in axis):
        return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    out = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return out if keepdims else out.squeeze(axis)


reduced(
    "logsumexp", FLOATS, log_sum, kind="plain",
    tol=lambda d, n, x, kw: (n + 20) * steps(d) * 8 + d.eps * np.abs(log_sum(x, **kw)),
)  # fmt: skip


@case("var", "std", dtypes=FLOATS)
def _(r, d, name):
    s = r.shape()
    named, axes = over(r, len(s))
    keep, ddof, x = r.below(2), r.below(2), r.array(d, s, "plain")
    n = int(np.prod([s[a] for a in axes]))
    fn = np.var if name == "var" else np.std
    tol = (4 * n + 12) * steps(d) + (2 * d.eps if d in (F16, BF16) else 0)
    # the mean is rounded to the type
    off = lambda: 16.0 if name == "var" else 4.0  # noqa: E731
    return Question([x], lambda: fn(wide(x), axis=axes, keepdims=bool(keep), ddof=ddof), None, (keep, *named), (ddof,),
                    tol=tol, scale=off)  # fmt: skip


@case("argmax", "argmin", dtypes=ALL)
def _(r, d, name):
    s = r.shape(r.one_of([1, 2, 3, 4]), least=1)
    x, axis, keep = r.array(d, s, r.one_of(["any", "whole"])), r.axis(len(s)), r.below(2)
    return Question([x], lambda: getattr(np, name)(work(x), axis, keepdims=bool(keep)), I64, (axis, keep))


def ordered(x, axis, down):
    """The places of the sorted elements; NumPy's order is that of tn_sort, too: NaN last, equal ones as they stood."""
    x = work(x)
    if not down:
        return np.argsort(x, axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


@case("sort", "argsort", "topk", dtypes=ALL)
def _(r, d, name):
    s = r.shape(r.one_of([1, 2, 3]), limit=400)
    x, axis, down, places = r.array(d, s, r.one_of(["any", "whole"])), r.axis(len(s)), r.below(2), r.below(2)
    k = r.below(s[axis] + 1) if name == "topk" else s[axis]

    def want():
        at = np.take(ordered(x, axis, down), np.arange(k), axis)
        return at if name == "argsort" or (name == "topk" and places) else np.take_along_axis(x.a, at, axis)

    ints = (k, axis, down, places) if name == "topk" else (axis, down)
    return Question([x], want, I64 if name == "argsort" or (name == "topk" and places) else None, ints)


@case("cumsum", "cumprod", dtypes=ALL)
def _(r, d, name):
    s = r.shape(r.one_of([1, 2, 3]), limit=400)
    x, axis = r.array(d, s, "plain" if d.kind == "float" else "any"), r.axis(len(s))
    run, n = getattr(np, name), s[axis]
    if d.kind == "float":
        return Question([x], lambda: run(wide(x), axis), None, (axis,), tol=1.0,
                        scale=lambda: (n + 2) * d.eps * run(np.abs(wide(x)), axis))  # fmt: skip
    wide_ = np.uint64 if d.native.kind == "u" else np.int64
    to = U64 if d.native.kind == "u" else I64
    return Question([x], lambda: run(x.a, axis, dtype=wide_), to, (axis,))


@case("searchsorted", dtypes=ALL)
def _(r, d):
    x, v, right = r.array(d, (r.below(40),), "whole"), r.array(d, r.shape(r.below(3), limit=40), "whole"), r.below(2)
    x.a[:] = x.a[np.argsort(work(x), kind="stable")]
    return Question([x, v], lambda: np.searchsorted(work(x), work(v), "right" if right else "left"), I64, (right,))


@case("bincount", dtypes=INTS)
def _(r, d):
    x, classes = r.array(d, (r.below(60),), "whole"), r.below(90)

    def want():
        at = x.a.astype(object)
        return np.array([int(np.sum(at == k)) for k in range(classes)], np.int64)

    return Question([x], want, I64, (classes,))


def runs(x):
    """The distinct elements, each as it first stands; which of them each is; how often each stands there."""
    _, first, number, often = np.unique(work(x), True, True, True, equal_nan=True)
    return x.a.ravel()[first], number.reshape(x.a.shape), often


def padded(a, most, fill):
    """The first `most` rows, or all and then such ones."""
    a = a[:most]
    return np.concatenate([a, np.full((most - len(a), *a.shape[1:]), fill, a.dtype)])


def some(r, d):
    return r.array(d, r.shape(limit=60), r.one_of(["any", "whole"]))


@case("unique", dtypes=ALL)
def _(r, d):
    x, most, fill, which = some(r, d), r.one_of([0, 1, 3, 8, 70]), r.number(d), r.below(4)

    def want():
        value, number, often = runs(x)
        return [padded(value, most, d.round(fill)), np.int64(len(value)), number, padded(often, most, 0)][which]

    return Question([x], want, I64 if which else d, (most, which), (fill,))


@case("unique_now", dtypes=ALL)
def _(r, d):
    x, which = some(r, d), r.below(3)
    return Question([x], lambda: runs(x)[which], I64 if which else d, (which,))


def at_nonzero(x):
    return np.argwhere(x.a != 0) if x.a.ndim else np.zeros((int(x.a != 0), 0), np.int64)


@case("nonzero", dtypes=ALL)
def _(r, d):
    x, most, fill, count = some(r, d), r.one_of([0, 1, 3, 8, 70]), r.one_of([-1, 0, 7, -FAR - 1]), r.chance(0.2)
    want = (lambda: np.int64(len(at_nonzero(x)))) if count else lambda: padded(at_nonzero(x), most, fill)
    return Question([x], want, I64, (most, int(count), fill))


@case("nonzero_now", dtypes=ALL)
def _(r, d):
    x = some(r, d)
    return Question([x], lambda: at_nonzero(x), I64)


# ---- shape -----------------------------------------------------------------------------------------------------------


def factors(r, n, rank):
    s = []
    for _ in range(rank - 1):
        f = r.one_of([k for k in range(1, n + 1) if n % k == 0]) if n else r.below(4)
        s.append(f)
        n = n // f if n else n
    return [*s, n]


@case("reshape", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape())
    s = factors(r, x.a.size, 1 + r.below(5))
    shape = list(s)
    if x.a.size and r.chance(0.5):
        shape[r.below(len(s))] = -1
    return Question([x], lambda: x.a.reshape(s), None, shape)


@case("flatten", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(5)))
    n = x.a.ndim
    first, last = sorted((r.below(n), r.below(n)))
    s = x.a.shape
    flat = s[:first] + (int(np.prod(s[first : last + 1])),) + s[last + 1 :]
    return Question([x], lambda: x.a.reshape(flat), None, (first, r.one_of([last, last - n])))


@case("squeeze", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape())
    ones = [a for a, v in enumerate(x.a.shape) if v == 1]
    if not ones or r.chance(0.3):
        return Question([x], lambda: x.a.squeeze())
    axes = ones[: 1 + r.below(len(ones))]
    return Question([x], lambda: x.a.squeeze(tuple(axes)), None, axes)


@case("unsqueeze", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape())
    axis = r.axis(x.a.ndim + 1)
    return Question([x], lambda: np.expand_dims(x.a, axis), None, (axis,))


@case("permute", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(6)))
    axes = [int(v) for v in r.g.permutation(x.a.ndim)]
    return Question([x], lambda: x.a.transpose(axes), None, axes)


@case("transpose", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(5)))
    a, b = r.axis(x.a.ndim), r.axis(x.a.ndim)
    return Question([x], lambda: np.swapaxes(x.a, a, b), None, (a, b))


@case("expand", dtypes=ALL)
def _(r, d):
    s = r.shape()
    x = r.array(d, tuple(1 if r.chance(0.5) else v for v in s)[r.below(2) if len(s) else 0 :])
    lead = len(s) - x.a.ndim
    to = [-1 if k >= lead and r.chance(0.3) else v for k, v in enumerate(s)]
    full = tuple(x.a.shape[k - lead] if v == -1 else v for k, v in enumerate(to))
    return Question([x], lambda: np.broadcast_to(x.a, full), None, to)


@case("pad", dtypes=ALL)
def _(r, d):
    x, v = r.array(d, r.shape(limit=60)), r.number(d)
    by = [(r.below(3), r.below(3)) for _ in x.a.shape]
    fill = d.round(v)
    return Question([x], lambda: np.pad(x.a, by, constant_values=fill) if by else x.a, None, [k for p in by for k in p],
                    (v,))  # fmt: skip


@case("shrink", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape())
    begin = [r.below(n + 1) for n in x.a.shape]
    size = [r.below(n - b + 1) for n, b in zip(x.a.shape, begin)]
    box = tuple(slice(b, b + n) for b, n in zip(begin, size))
    return Question([x], lambda: x.a[box], None, begin + size)


@case("flip", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape())
    named, axes = over(r, x.a.ndim)
    return Question([x], lambda: np.flip(x.a, axes), None, named)


@case("slice", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(4)))
    axis, step = r.axis(x.a.ndim), r.one_of([1, 2, 3, -1, -2, -5])
    start, stop = (None if r.chance(0.3) else r.below(13) - 6 for _ in range(2))
    near, far = (-FAR - 1, FAR) if step > 0 else (FAR, -FAR - 1)
    cut = [slice(None)] * x.a.ndim
    cut[axis] = slice(start, stop, step)
    ends = (near if start is None else start, far if stop is None else stop)
    return Question([x], lambda: x.a[tuple(cut)], None, (axis, *ends, step))


@case("select", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(4), least=1))
    axis = r.axis(x.a.ndim)
    at = r.axis(x.a.shape[axis])
    return Question([x], lambda: np.take(x.a, at, axis), None, (axis, at))


@case("concatenate", dtypes=ALL)
def _(r, d):
    s = r.shape(1 + r.below(4))
    axis = r.axis(len(s))
    parts = []
    for _ in range(1 + r.below(5)):
        t = list(s)
        t[axis] = r.below(5)
        parts.append(r.array(d, tuple(t)))
    return Question(parts, lambda: np.concatenate([p.a for p in parts], axis), None, (axis,))


@case("stack", dtypes=ALL)
def _(r, d):
    s = r.shape(limit=100)
    parts = [r.array(d, s) for _ in range(1 + r.below(4))]
    axis = r.axis(len(s) + 1)
    return Question(parts, lambda: np.stack([p.a for p in parts], axis), None, (axis,))


@case("split", dtypes=ALL)
def _(r, d):
    s, parts = list(r.shape(1 + r.below(3), limit=60)), 1 + r.below(4)
    axis = r.axis(len(s))
    s[axis] *= parts
    x, which = r.array(d, tuple(s)), r.below(parts)
    return Question([x], lambda: np.split(x.a, parts, axis)[which], None, (parts, axis, which))


@case("tile", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(limit=40))
    reps = [r.below(3) + (not r.chance(0.1)) for _ in range(r.below(x.a.ndim + 2))]
    return Question([x], lambda: np.tile(x.a, reps), None, reps)


@case("repeat", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(4), limit=100))
    axis, times = r.axis(x.a.ndim), r.below(4)
    return Question([x], lambda: np.repeat(x.a, times, axis), None, (axis, times))


@case("unfold", dtypes=ALL)
def _(r, d):
    size, stride, dilation = 1 + r.below(3), 1 + r.below(3), 1 + r.below(2)
    s = list(r.shape(1 + r.below(3), least=1, limit=60))
    axis = r.axis(len(s))
    s[axis] += (size - 1) * dilation
    x = r.array(d, tuple(s))
    at = axis % len(s)

    def want():
        w = np.lib.stride_tricks.sliding_window_view(x.a, (size - 1) * dilation + 1, at)[..., ::dilation]
        w = w[(slice(None),) * at + (slice(None, None, stride),)]
        return np.moveaxis(w, -1, at + 1)

    return Question([x], want, None, (axis, size, stride, dilation))


@case("tril", "triu", dtypes=ALL)
def _(r, d, name):
    x, k = r.array(d, r.shape(2 + r.below(3))), r.below(9) - 4
    return Question([x], lambda: getattr(np, name)(x.a, k), None, (k,))


# ---- indexing by tensors ---------------------------------------------------------------------------------------------


def places(r, n, s):
    """Of any integer type, often the same ones; some outside."""
    d = r.one_of(INTS)
    hi = min(n + (n + 2 if r.chance(0.3) else 0), np.iinfo(d.native).max)
    lo = -2 if d.signed and r.chance(0.3) else 0
    few = r.g.integers(lo, max(hi, 1), s)
    return Values(d, (few // 2 if r.chance(0.3) else few).astype(d.native))


def valid(at, n):
    return np.vectorize(lambda v: 0 <= int(v) < n, otypes=[bool])(at) if at.size else np.zeros(at.shape, bool)


def clear(at, good):
    return np.where(good, at, np.zeros((), at.dtype)).astype(np.int64)


def taken(x, at, axis):
    """NumPy's take, and 0 for what is outside."""
    n, good = x.shape[axis], valid(at, x.shape[axis])
    if n == 0:
        x = np.zeros(x.shape[: axis % x.ndim] + (1,) + x.shape[axis % x.ndim + 1 :], x.dtype)
    out = np.take(x, clear(at, good), axis)
    mask = good.reshape((1,) * (axis % x.ndim) + good.shape + (1,) * (x.ndim - axis % x.ndim - 1))
    return np.where(mask, out, np.zeros((), x.dtype))


@case("take", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(4), limit=100))
    axis = r.axis(x.a.ndim)
    at = places(r, x.a.shape[axis], r.shape(r.below(3), limit=12))
    return Question([x, at], lambda: taken(x.a, at.a, axis), None, (axis,))


@case("embedding", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(2, limit=100))
    at = places(r, x.a.shape[0], r.shape(r.below(3), limit=12))
    return Question([x, at], lambda: taken(x.a, at.a, 0))


def along(r, s, axis):
    t = list(s)
    t[axis] = r.below(6)
    return tuple(t)


def grid(at, axis):
    """For each element of `at` its place in the tensor that it points into."""
    g = list(np.indices(at.shape))
    g[axis] = at
    return g


@case("take_along_axis", dtypes=ALL)
def _(r, d):
    x = r.array(d, r.shape(1 + r.below(4), limit=100))
    axis = r.axis(x.a.ndim)
    at = places(r, x.a.shape[axis], along(r, x.a.shape, axis))

    def want():
        n = x.a.shape[axis]
        good = valid(at.a, n)
        if n == 0:
            return np.zeros(at.a.shape, x.a.dtype)
        got = np.take_along_axis(x.a, clear(at.a, good), axis)
        return np.where(good, got, np.zeros((), x.a.dtype))

    return Question([x, at], want, None, (axis,))


def added(d, base, key, good, upd):
    """The sums, and those of the magnitudes."""
    out = base.a.astype(np.longdouble if d.kind == "float" else d.native)
    size = np.abs(out).astype(np.float64) if d.kind == "float" else None
    key = tuple(np.asarray(k)[good].astype(np.int64) for k in key)
    upd = np.asarray(upd)[good]
    np.add.at(out, key, upd.astype(out.dtype))
    if size is not None:
        np.add.at(size, key, np.abs(upd).astype(np.float64))
    return out, size


def addition(r, d, base, axis, at, upd, key, good):
    n = 1 + at.a.size
    off = (lambda: n * d.eps * added(d, base, key(), good(), upd())[1]) if d.kind == "float" else None
    return lambda: added(d, base, key(), good(), upd())[0], off


@case("scatter_add", dtypes=NUMBERS)
def _(r, d):
    base = r.array(d, r.shape(1 + r.below(4), limit=100), "plain")
    axis = r.axis(base.a.ndim)
    s = along(r, base.a.shape, axis)
    at, upd = places(r, base.a.shape[axis], s), r.array(d, s, "whole")
    want, off = addition(
        r, d, base, axis, at, lambda: upd.a, lambda: grid(at.a, axis), lambda: valid(at.a, base.a.shape[axis])
    )
    return Question([base, at, upd], want, d, (axis,), tol=off and 1.0, scale=off)


@case("index_add", dtypes=NUMBERS)
def _(r, d):
    base = r.array(d, r.shape(1 + r.below(4), limit=100), "plain")
    axis = r.axis(base.a.ndim)
    k = axis % base.a.ndim
    s = base.a.shape
    at = places(r, s[k], r.shape(r.below(3), limit=12))
    upd = r.array(d, s[:k] + at.a.shape + s[k + 1 :], "whole")
    flat = s[:k] + (at.a.size,) + s[k + 1 :]

    def spread():
        return np.broadcast_to(at.a.ravel().reshape((-1,) + (1,) * (len(s) - k - 1)), flat)

    want, off = addition(
        r, d, base, axis, at, lambda: upd.a.reshape(flat), lambda: grid(spread(), k), lambda: valid(spread(), s[k])
    )
    return Question([base, at, upd], want, d, (axis,), tol=off and 1.0, scale=off)


@case("one_hot", dtypes=ALL)
def _(r, d):
    n = r.below(6)
    at = places(r, n, r.shape(limit=40))
    return Question([at], lambda: (at.a[..., None] == np.arange(n)) & valid(at.a, n)[..., None], d, (d.code, n))


# ---- contractions ----------------------------------------------------------------------------------------------------


def product(fn, d, xs, n, **kw):
    """Sums of n products: exact for integers; floats as far off as their terms allow."""
    if d.kind == "int":
        return Question(xs, lambda: fn(*(x.a for x in xs)), **kw)
    error = (n + 2) * steps(d)
    return Question(
        xs,
        lambda: fn(*map(wide, xs)),
        tol=1.0,
        scale=lambda: error * fn(*(np.abs(wide(x)) for x in xs)) + d.eps * np.abs(fn(*map(wide, xs))),
        **kw,
    )


@case("matmul", dtypes=NUMBERS)
def _(r, d):
    m, n, k = (r.one_of([0, 1, 2, 3, 5, 17, 33] if r.chance(0.2) else [1, 2, 3, 5, 17, 33]) for _ in range(3))
    s, t = r.broadcasts(limit=8)
    a, b = (*s, m, k), (*t, k, n)
    how = r.below(8)
    a, b = (k,) if how == 0 else a, (k,) if how == 1 else b
    return product(np.matmul, d, [r.array(d, a, "plain"), r.array(d, b, "plain")], k)


@case("dot", dtypes=NUMBERS)
def _(r, d):
    n = r.shape(1)
    return product(np.dot, d, [r.array(d, n, "plain"), r.array(d, n, "plain")], n[0])


@case("outer", dtypes=NUMBERS)
def _(r, d):
    x, y = r.array(d, r.shape(1)), r.array(d, r.shape(1))
    return Question([x, y], lambda: np.multiply.outer(work(x), work(y)))


@case("einsum", dtypes=NUMBERS)
def _(r, d):
    sizes = {c: r.one_of([1, 2, 3, 5]) for c in "abcd"} | {r.one_of("abcd"): r.one_of([1, 33])}
    terms = ["".join(r.one_of("abcd") for _ in range(r.below(4))) for _ in range(1 + r.below(3))]
    if r.chance(0.3):  # what one operand alone has is summed before the product, and is not to be rounded there
        sizes["a"], terms = 33, r.one_of([["abc", "ad"], ["a", "cab"], ["da", "ba"]])
    used = sorted(set("".join(terms)))
    out = "".join(c for c in r.g.permutation(used) if r.chance(0.5)) if used else ""
    spec = ",".join(terms) + "->" + out
    kind = "whole" if len(terms) > 2 else "plain"  # the product of two of three is rounded
    xs = [r.array(d, tuple(sizes[c] for c in t), kind) for t in terms]
    n = int(np.prod([sizes[c] for c in used]))
    if all(terms):
        return product(lambda *a: np.einsum(spec, *a), d, xs, n, word=spec)
    x = r.array(d, (2, 3), "whole")
    return product(lambda a: np.einsum("ij->ji", a), d, [x], 1, word="ij->ji")


# ---- compositions: NumPy's formulas ----------------------------------------------------------------------------------


@case("softmax", "log_softmax", dtypes=FLOATS)
def _(r, d, name):
    x = r.array(d, r.shape(1 + r.below(4), least=1), "plain")
    axis = r.axis(x.a.ndim)
    if r.chance(0.4):
        x = Values(d, np.where(r.g.random(x.a.shape) < 0.3, d.round(-np.inf), x.a).astype(d.native))
    n = x.a.shape[axis]

    def want():
        v = wide(x)
        top = v.max(axis, keepdims=True)
        e = np.exp(v - np.where(np.isfinite(top), top, 0))
        total = e.sum(axis, keepdims=True)
        if name == "softmax":
            return e / np.where(total == 0, 1, total)
        return np.where(total == 0, v, v - np.where(np.isfinite(top), top, 0) - np.log(np.where(total == 0, 1, total)))

    return Question([x], want, None, (axis,), tol=1.0, scale=lambda: (n + 30) * steps(d) * 10 + 10 * d.eps)


@case("layer_norm", "rms_norm", dtypes=FLOATS)
def _(r, d, name):
    s = r.shape(1 + r.below(3), least=1)
    axes = 1 + r.below(len(s))
    x = r.array(d, s, "plain")
    g, b = r.array(d, s[len(s) - axes :], "plain"), r.array(d, s[len(s) - axes :], "plain")
    over_ = tuple(range(len(s) - axes, len(s)))
    n = int(np.prod(s[len(s) - axes :]))

    def want():
        v, kw = wide(x), {"axis": over_, "keepdims": True}
        if name == "rms_norm":
            return v / np.sqrt((v * v).mean(**kw) + 0.125) * wide(g)
        return (v - v.mean(**kw)) / np.sqrt(v.var(**kw) + 0.125) * wide(g) + wide(b)

    return Question([x, g] if name == "rms_norm" else [x, g, b], want, None, (axes,), (0.125,), tol=1.0,
                    scale=lambda: 20 * ((8 * n + 40) * steps(d) + 4 * d.eps))  # fmt: skip


def losses(r, d):
    n, c = 1 + r.below(5), 1 + r.below(6)
    more = tuple(1 + r.below(3) for _ in range(r.below(2)))
    x = r.array(d, (n, c, *more), "plain")
    at = Values(I32, r.g.integers(0, c, (n, *more)).astype(np.int32))
    return x, at, n * c * int(np.prod(more))


def chosen(v, at):
    return -np.take_along_axis(v, np.expand_dims(at, 1), 1).mean()


@case("cross_entropy", "nll_loss", dtypes=FLOATS)
def _(r, d, name):
    x, at, n = losses(r, d)

    def want():
        v = wide(x)
        return chosen(v - log_sum(v, (1,), True) if name == "cross_entropy" else v, at.a.astype(np.int64))

    return Question([x, at], want, None, tol=1.0, scale=lambda: 10 * (n + 30) * steps(d) + 10 * d.eps)


@case("mse_loss", "binary_cross_entropy_with_logits", dtypes=FLOATS)
def _(r, d, name):
    s = r.shape(least=1)
    x = r.array(d, s, "plain")
    y = r.array(d, s, "plain") if name == "mse_loss" else Values(d, d.round(r.g.uniform(0, 1, s)))

    def want():
        v, w = wide(x), wide(y)
        return ((v - w) ** 2).mean() if name == "mse_loss" else (np.logaddexp(0, v) - v * w).mean()

    return Question([x, y], want, None, tol=1.0, scale=lambda: 64 * ((x.a.size + 20) * steps(d) + 2 * d.eps))


# ---- creation and state ----------------------------------------------------------------------------------------------


@case("zeros", "ones", dtypes=ALL)
def _(r, d, name):
    s = r.shape()
    return Question([], lambda: getattr(np, name)(s), d, (d.code, *s))


@case("full", dtypes=ALL)
def _(r, d):
    s, v = r.shape(), r.number(d)
    return Question([], lambda: np.full(s, v), d, (d.code, *s), (v,))


@case("full_i64", dtypes=ALL)
def _(r, d):
    s = r.shape()
    v = r.number(d) if d.kind != "int" else int(r.array(d, (), "any").a)
    v = int(v) - (1 << 64 if v >= 1 << 63 else 0)
    return Question([], lambda: np.full(s, v).astype(d.native if d.kind == "int" else float), d, (d.code, v, *s))


@case("scalar", "const", dtypes=ALL)
def _(r, d, name):
    v = r.number(d)
    return Question([], lambda: np.asarray(v), d, (d.code,), (v,))


@case("arange", dtypes=NUMBERS)
def _(r, d):
    start, step, n = r.number(d), r.one_of([1, 2, 3]), r.below(20)
    if d.kind == "float" and r.chance(0.5):
        step = r.one_of([0.5, -0.25, -2, 0.125])
    n = min(n, 12)
    stop = start + n * step
    return Question([], lambda: start + np.arange(n) * np.float64(step), d, (d.code,), (start, stop, step))


@case("linspace", dtypes=FLOATS)
def _(r, d):
    start, stop, n = float(r.below(9) - 4), float(r.below(9) - 4), 2 + r.below(12)
    ints, floats = (d.code, n), (start, stop)
    return Question([], lambda: np.linspace(start, stop, n), d, ints, floats, tol=d.eps, scale=lambda: 4.0)


@case("eye", dtypes=ALL)
def _(r, d):
    n, m = r.below(7), r.below(7)
    return Question([], lambda: np.eye(n, m), d, (d.code, n, m))


@case("assign", dtypes=ALL)
def _(r, d):
    s = r.shape()
    x = r.array(d, s)
    y = r.array(d, tuple(1 if r.chance(0.3) else v for v in s))
    return Question([x, y], lambda: np.broadcast_to(y.a, s))
