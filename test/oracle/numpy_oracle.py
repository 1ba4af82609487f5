"""NumPy as an independent oracle: random shapes through server.c, against what NumPy says.

Exit 77: NumPy is missing (skipped)."""

import os
import subprocess
import sys
import warnings

try:
    import numpy as np
except ImportError:
    print("NumPy is missing: skipped")
    sys.exit(77)

DTYPES = [
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.float16,
    None,
    np.float32,
    np.float64,
]
CODE = {np.dtype(d): i for i, d in enumerate(DTYPES) if d is not None}
FAR = 2**63 - 1


class Result(int):
    """The number of a result: an operand of further questions."""


class Server:
    def __init__(self, path, device):
        self.p = subprocess.Popen([path, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0

    def send(self, line, data=b""):
        self.p.stdin.write(line.encode() + b"\n" + data)

    def put(self, x):
        x = np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)
        self.send(" ".join(map(str, ["in", CODE[x.dtype], x.ndim, *x.shape])), x.tobytes())
        self.n += 1
        return self.n - 1

    def ask(self, name, xs, ints=(), floats=(), word="-"):
        """The number of the result, for answers()."""
        at = [x if isinstance(x, Result) else self.put(x) for x in xs]
        self.send(" ".join(map(str, ["op", name, word, len(at), *at, len(ints), *ints, len(floats), *floats])))
        self.n += 1
        return Result(self.n - 1)

    def answers(self, numbers):
        """Arrays, or messages; all are computed at once."""
        self.send(" ".join(map(str, ["out", len(numbers), *numbers])))
        self.send("end")
        self.n = 0
        self.p.stdin.flush()
        return [self.answer() for _ in numbers]

    def answer(self):
        head = self.p.stdout.readline().decode()
        if not head:
            raise SystemExit("the server died")
        if head.startswith("error"):
            return head.strip()
        code, rank, *shape = map(int, head.split())
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(DTYPES[code]).itemsize
        data = b""
        while len(data) < size:
            data += self.p.stdout.read(size - len(data))
        return np.frombuffer(data, DTYPES[code]).reshape(shape)


rng = np.random.default_rng(2)
warnings.simplefilter("ignore")  # means of nothing
bad = 0
checks = []  # asked for: number, what, what it should be, tolerance and its scale


def values(dtype, shape, lo=-4, hi=4):
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(max(lo, np.iinfo(dtype).min) if dtype.kind == "i" else 0, hi + 1, shape).astype(dtype)
    return np.asarray(rng.uniform(lo, hi, shape)).astype(dtype)


def shape(rank=None, least=0, most=7):
    rank = rng.integers(0, 4) if rank is None else rank
    return tuple(int(v) for v in rng.choice([v for v in (1, 2, 3, 5, 7, 0, 33) if least <= v <= most], rank))


def check(server, name, xs, want, ints=(), floats=(), word="-", tol=0.0, scale=None):
    """tol: allowed difference, relative to scale (the sum of the terms' magnitudes, or |want|)."""
    operands = ["a result" if isinstance(x, Result) else (str(np.asarray(x).dtype), np.shape(x)) for x in xs]
    where = f"{name} {operands} {list(ints)} {list(floats)} {word}"
    checks.append((server.ask(name, xs, ints, floats, word), where, np.asarray(want), tol, scale))


def complaint(got, want, tol, scale):
    if isinstance(got, str):
        return got
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    with np.errstate(all="ignore"):
        same = (got == want) | ((got != got) & (want != want))
        if tol:
            size = np.abs(want.astype(np.float64)) if scale is None else scale
            same |= np.abs(got.astype(np.float64) - want.astype(np.float64)) <= tol * size + 1e-300
    if np.all(same):
        return None
    at = tuple(np.argwhere(~np.atleast_1d(same))[0])
    return f"at {at} {np.atleast_1d(got)[at]!r}, not {np.atleast_1d(want)[at]!r}"


def judge(server):
    """Answers to all checks so far: how many were wrong."""
    wrong = 0
    for got, (_, where, want, tol, scale) in zip(server.answers([c[0] for c in checks]), checks):
        why = complaint(got, want, tol, scale)
        if why:
            print(f"{where}: {why}")
            wrong += 1
    checks.clear()
    return wrong


def broadcasts(s):
    """Two shapes that broadcast to s."""

    def thin(t):
        return tuple(1 if rng.random() < 0.3 else v for v in t)[
            rng.integers(0, len(t) + 1) if rng.random() < 0.3 else 0 :
        ]

    return s, thin(s)


def exact_elementwise(sv):
    for d in (np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint32):
        s = shape()
        x = values(d, s)
        for name, fn in (("abs", np.abs), ("neg", np.negative), ("sign", np.sign), ("square", np.square)):
            check(sv, name, [x], fn(x))
        a, b = (values(d, t) for t in broadcasts(shape()))
        for name, fn in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("maximum", np.maximum),
            ("minimum", np.minimum),
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
        ):
            check(sv, name, [a, b], fn(a, b))
        if np.dtype(d).kind in "iu":
            with np.errstate(all="ignore"):
                check(sv, "floordiv", [a, b], np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(d))
                check(sv, "mod", [a, b], np.where(b == 0, a, a % np.where(b == 0, 1, b)).astype(d))
            for name, fn in (
                ("bitwise_and", np.bitwise_and),
                ("bitwise_or", np.bitwise_or),
                ("bitwise_xor", np.bitwise_xor),
            ):
                check(sv, name, [a, b], fn(a, b))
            check(sv, "bitwise_not", [x], np.invert(x))
            n = np.abs(b).astype(d)
            check(sv, "shl", [a, n], np.left_shift(a, n))
            check(sv, "shr", [a, n], np.right_shift(a, n))
        else:
            for name, fn in (
                ("floor", np.floor),
                ("ceil", np.ceil),
                ("round", np.rint),
                ("trunc", np.trunc),
                ("isnan", np.isnan),
                ("isinf", np.isinf),
            ):
                check(sv, name, [x], fn(x))
            check(sv, "div", [a, b], np.divide(a, b))
            check(sv, "fmod", [a, b], np.fmod(a, b))
            check(sv, "sqrt", [np.abs(x)], np.sqrt(np.abs(x)))
    p, q = values(np.bool_, (3, 4)), values(np.bool_, (4,))
    for name, fn in (
        ("bitwise_and", np.logical_and),
        ("bitwise_or", np.logical_or),
        ("bitwise_xor", np.logical_xor),
        ("eq", np.equal),
    ):
        check(sv, name, [p, q], fn(p, q))
    check(sv, "logical_not", [p], ~p)
    x, y = values(np.float32, (3, 4)), values(np.float32, (3, 1))
    check(sv, "where", [p, x, y], np.where(p, x, y))
    check(sv, "clamp", [x], np.clip(x, -1, 2).astype(np.float32), floats=(-1, 2))


def near_elementwise(sv):
    for d, eps in ((np.float32, 2e-7), (np.float64, 4e-16)):
        x = values(d, (4, 33))
        up = np.abs(x) + d(0.1)
        wide = x.astype(np.longdouble)
        for name, fn, arg in (
            ("exp", np.exp, x),
            ("exp2", np.exp2, x),
            ("expm1", np.expm1, x),
            ("log", np.log, up),
            ("log2", np.log2, up),
            ("log1p", np.log1p, up),
            ("sin", np.sin, x),
            ("cos", np.cos, x),
            ("tan", np.tan, x),
            ("tanh", np.tanh, x),
            ("log10", np.log10, up),
            ("asin", np.arcsin, np.clip(x, -1, 1)),
            ("acos", np.arccos, np.clip(x, -1, 1)),
            ("atan", np.arctan, x),
            ("sinh", np.sinh, x),
            ("cosh", np.cosh, x),
            ("asinh", np.arcsinh, x),
            ("acosh", np.arccosh, up + d(1)),
            ("atanh", np.arctanh, np.clip(x, -1, 1)),
            ("recip", np.reciprocal, up),
        ):
            check(sv, name, [arg], fn(arg.astype(np.longdouble)).astype(d), tol=3 * eps)
        check(sv, "sigmoid", [x], (1 / (1 + np.exp(-wide))).astype(d), tol=6 * eps)
        check(sv, "softplus", [x], np.log1p(np.exp(wide)).astype(d), tol=6 * eps)
        y = values(d, (33,))
        check(sv, "atan2", [x, y], np.arctan2(wide, y.astype(np.longdouble)).astype(d), tol=4 * eps)
        check(sv, "hypot", [x, y], np.hypot(wide, y.astype(np.longdouble)).astype(d), tol=3 * eps)
        check(sv, "copysign", [x, y], np.copysign(x, y))
        check(sv, "pow", [up, y], np.power(up.astype(np.longdouble), y.astype(np.longdouble)).astype(d), tol=8 * eps)


def reductions(sv):
    for _ in range(6):
        s = shape(rng.integers(1, 4), 1)
        axes = tuple(int(a) for a in rng.permutation(len(s))[: rng.integers(1, len(s) + 1)])
        keep = bool(rng.integers(0, 2))
        ints = (int(keep), *axes)
        n = int(np.prod([s[a] for a in axes]))
        kw = {"axis": axes, "keepdims": keep}
        for d, eps in ((np.float32, 1.2e-7), (np.float64, 2.3e-16)):
            x = values(d, s)
            wide = x.astype(np.longdouble)
            size = np.abs(wide).sum(**kw).astype(np.float64)
            check(sv, "sum", [x], wide.sum(**kw).astype(d), ints, tol=(n + 1) * eps, scale=size)
            check(sv, "mean", [x], wide.mean(**kw).astype(d), ints, tol=(n + 2) * eps, scale=size / n)
            check(sv, "max", [x], x.max(**kw), ints)
            check(sv, "min", [x], x.min(**kw), ints)
            check(sv, "prod", [x], wide.prod(**kw).astype(d), ints, tol=(n + 1) * eps)
            check(sv, "logsumexp", [x], np.log(np.exp(wide).sum(**kw)).astype(d), ints, tol=(n + 20) * eps, scale=8.0)
            if n > 1:
                check(sv, "var", [x], wide.var(ddof=1, **kw).astype(d), ints, (1,), tol=(4 * n + 8) * eps)
        for d in (np.int8, np.int32, np.uint8, np.int64):
            x = values(d, s)
            out = np.uint64 if np.dtype(d).kind == "u" else np.int64
            check(sv, "sum", [x], x.sum(dtype=out, **kw), ints)
            check(sv, "prod", [x], x.prod(dtype=out, **kw), ints)
            check(sv, "max", [x], x.max(**kw), ints)
            check(sv, "any", [x], x.astype(bool).any(**kw), ints)
            check(sv, "all", [x], x.astype(bool).all(**kw), ints)
    for axis in (0, 1, -1):
        x = rng.integers(0, 3, (5, 7)).astype(np.float32)  # ties
        check(sv, "argmax", [x], x.argmax(axis), (axis, 0))
        check(sv, "argmin", [x], x.argmin(axis), (axis, 0))
        x[2, 3] = x[4, 3] = np.nan
        check(sv, "argmax", [x], np.expand_dims(x.argmax(axis), axis), (axis, 1))
        check(sv, "max", [x], x.max(axis), (0, axis))
    empty = np.zeros((3, 0), np.float32)
    check(sv, "sum", [empty], empty.sum(1), (0, 1))
    check(sv, "prod", [empty], empty.prod(1), (0, 1))
    check(sv, "any", [empty], empty.astype(bool).any(1), (0, 1))
    check(sv, "all", [empty], empty.astype(bool).all(1), (0, 1))


def moves(sv):
    for d in (np.float32, np.int64, np.uint8, np.bool_, np.float16):
        x = values(d, (2, 3, 7))
        check(sv, "reshape", [x], x.reshape(7, 6), (7, -1))
        check(sv, "permute", [x], x.transpose(2, 0, 1), (2, 0, 1))
        check(sv, "flip", [x], x[::-1, :, ::-1], (0, 2))
        check(sv, "pad", [x], np.pad(x, ((0, 1), (2, 0), (1, 3))), (0, 1, 2, 0, 1, 3), (0,))
        check(sv, "expand", [x[:, :1]], np.broadcast_to(x[:, :1], (4, 2, 3, 7)), (4, 2, 3, 7))
        check(sv, "tile", [x], np.tile(x, (2, 1, 3)), (2, 1, 3))
        check(sv, "repeat", [x], np.repeat(x, 3, 1), (1, 3))
        check(sv, "concatenate", [x, x[:1], x], np.concatenate([x, x[:1], x]), (0,))
        check(sv, "stack", [x, x], np.stack([x, x], -1), (-1,))
        for start, stop, step in (
            (1, 5, 2),
            (-3, FAR, 1),
            (FAR, -FAR - 1, -1),
            (5, 0, -2),
            (-1, -FAR - 1, -3),
            (4, 2, 1),
            (0, 100, 3),
            (-100, 3, 1),
        ):
            py = slice(None if abs(start) > 2**62 else start, None if abs(stop) > 2**62 else stop, step)
            check(sv, "slice", [x], x[:, :, py], (2, start, stop, step))
        check(sv, "unfold", [x], np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2], (2, 3, 2, 1))
        check(sv, "unfold", [x], np.lib.stride_tricks.sliding_window_view(x, 5, 2)[:, :, :, ::2], (2, 3, 1, 2))
        check(sv, "tril", [x], np.tril(x, 1), (1,))
        check(sv, "triu", [x], np.triu(x, -1), (-1,))


def indexing(sv):
    x = values(np.float32, (5, 4))
    idx = np.array([[0, 4, 2], [3, 3, 1]], np.int32)
    check(sv, "take", [x, idx], np.take(x, idx, 0), (0,))
    check(sv, "take", [x, idx % 4], np.take(x, idx % 4, 1), (1,))
    out = np.array([0, -1, 7], np.int64)  # outside reads 0
    check(sv, "take", [x, out], np.stack([x[0], 0 * x[0], 0 * x[0]]), (0,))
    along = rng.integers(0, 5, (3, 4)).astype(np.int64)
    check(sv, "take_along_axis", [x, along], np.take_along_axis(x, along, 0), (0,))
    base, upd = np.round(values(np.float32, (5, 4))), np.round(values(np.float32, (3, 4)))
    want = base.copy()
    np.add.at(want, (along, np.arange(4)[None, :]), upd)
    check(sv, "scatter_add", [base, along, upd], want, (0,))
    rows, upd = np.array([1, 1, 4, -1, 9], np.int32), np.round(values(np.float32, (5, 4)))
    want = base.copy()
    np.add.at(want, rows[:3], upd[:3])
    check(sv, "index_add", [base, rows, upd], want, (0,))


def contractions(sv):
    for a, b in (
        ((5, 7), (7, 3)),
        ((7,), (7,)),
        ((2, 5, 7), (7, 3)),
        ((2, 1, 5, 7), (3, 7, 4)),
        ((7,), (7, 3)),
        ((5, 7), (7,)),
        ((3, 0), (0, 4)),
        ((33, 65), (65, 17)),
    ):
        for d, eps in ((np.float32, 1.2e-7), (np.float64, 2.3e-16)):
            x, y = values(d, a), values(d, b)
            wide = np.matmul(x.astype(np.longdouble), y.astype(np.longdouble))
            check(
                sv,
                "matmul",
                [x, y],
                wide.astype(d),
                tol=(a[-1] + 2) * eps,
                scale=np.asarray(np.matmul(np.abs(x), np.abs(y)), np.float64),
            )
        x, y = values(np.int32, a), values(np.int32, b)
        check(sv, "matmul", [x, y], np.matmul(x, y))
    for spec, *shapes in (
        ("ij,jk->ik", (3, 4), (4, 5)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("ii->i", (4, 4)),
        ("ii", (4, 4)),
        ("ij->ji", (3, 4)),
        ("i,j", (3,), (4,)),
        ("ijk,k,j->i", (2, 3, 4), (4,), (3,)),
        ("ba,cab->c", (2, 3), (4, 3, 2)),
        ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ):
        xs = [values(np.int64, s) for s in shapes]
        check(sv, "einsum", xs, np.einsum(spec, *xs), word=spec)


def compositions(sv):
    for s in ((5, 7), (3, 33), (2, 3, 65), (1, 1)):
        for d, eps in ((np.float32, 1.2e-7), (np.float64, 2.3e-16)):
            x = values(d, s)
            wide = x.astype(np.longdouble)
            n = s[-1]
            e = np.exp(wide - wide.max(-1, keepdims=True))
            soft = e / e.sum(-1, keepdims=True)
            check(sv, "softmax", [x], soft.astype(d), (-1,), tol=(n + 20) * eps)
            check(sv, "log_softmax", [x], np.log(soft).astype(d), (-1,), tol=(n + 30) * eps, scale=10.0)
            g, b = values(d, (n,)), values(d, (n,))
            norm = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * g + b
            check(sv, "layer_norm", [x, g, b], norm.astype(d), (1,), (1e-5,), tol=(8 * n + 40) * eps, scale=20.0)
            if len(s) == 2:
                labels = rng.integers(0, n, s[0]).astype(np.int32)
                loss = -np.log(soft)[np.arange(s[0]), labels].mean()
                check(sv, "cross_entropy", [x, labels], loss.astype(d), tol=(n + 30) * eps, scale=10.0)
    x = np.array([[-np.inf, -np.inf], [0, -np.inf], [np.inf, 0], [1000, -1000]], np.float32)
    check(sv, "softmax", [x[:2]], np.array([[0, 0], [1, 0]], np.float32), (-1,))
    check(sv, "softmax", [x[3:]], np.array([[1, 0]], np.float32), (-1,))
    check(sv, "logsumexp", [x], np.array([-np.inf, 0, np.inf, 1000], np.float32), (0, 1))


SPECIAL = [0.0, -0.0, 1, -1, 0.5, -2.5, 3, 1e-5, 6e-8, 65504, np.inf, -np.inf, np.nan]


def special_values(sv):
    """NaN, infinities and zeros of both signs through what has an exact answer, by itself and along an axis."""
    for d in (np.float16, np.float32, np.float64):
        x = np.array(SPECIAL, d)
        a, b = x[:, None], x[None, :]
        for name, fn in (
            ("add", np.add),
            ("sub", np.subtract),
            ("mul", np.multiply),
            ("div", np.divide),
            ("maximum", np.maximum),
            ("minimum", np.minimum),
            ("eq", np.equal),
            ("ne", np.not_equal),
            ("lt", np.less),
            ("le", np.less_equal),
            ("gt", np.greater),
            ("ge", np.greater_equal),
            ("mod", np.mod),
            ("fmod", np.fmod),
            ("floordiv", np.floor_divide),
            ("copysign", np.copysign),
            ("logical_and", np.logical_and),
            ("logical_or", np.logical_or),
            ("logical_xor", np.logical_xor),
        ):
            check(sv, name, [a, b], fn(a, b))
        for name, fn in (
            ("abs", np.abs),
            ("neg", np.negative),
            ("sign", np.sign),
            ("square", np.square),
            ("floor", np.floor),
            ("ceil", np.ceil),
            ("round", np.rint),
            ("trunc", np.trunc),
            ("isnan", np.isnan),
            ("isinf", np.isinf),
            ("isfinite", np.isfinite),
            ("sqrt", np.sqrt),
            ("logical_not", np.logical_not),
            ("relu", lambda v: np.where(v <= 0, v.dtype.type(0), v)),
        ):
            check(sv, name, [x], fn(x))
        check(sv, "clamp", [x], np.clip(x, d(-1), d(2)), floats=(-1, 2))
        check(sv, "where", [np.isnan(x), np.zeros_like(x), x], np.where(np.isnan(x), d(0), x))
        for name, fn in (("max", np.max), ("min", np.min), ("any", np.any), ("all", np.all)):
            check(sv, name, [a * np.ones((1, 3), d)], fn(a * np.ones((1, 3), d), axis=0), (0, 0))
            check(sv, name, [x[:10].reshape(2, 5)], fn(x[:10].reshape(2, 5), axis=-1), (0, -1))
        check(sv, "argmax", [x], np.argmax(x), (0, 0))
        check(sv, "argmin", [x], np.argmin(x), (-1, 0))
        check(sv, "argmin", [x[:12]], np.argmin(x[:12]), (-1, 0))
        for to in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_):
            i = None if to == np.bool_ else np.iinfo(to)
            whole = [
                int(v) if np.isfinite(v) else 0 if v != v else 2**65 * (1 if v > 0 else -1)
                for v in x.astype(np.float64)
            ]
            check(
                sv,
                "cast",
                [x],
                x != 0 if i is None else np.array([min(max(v, i.min), i.max) for v in whole], to),
                (CODE[np.dtype(to)],),
            )


def nothing_and_one(sv):
    """Axes of size 0 and 1, in every place."""
    for d in (np.float32, np.int32):
        out = np.int64 if d == np.int32 else d
        for s in ((0,), (0, 3), (3, 0), (2, 0, 3), (1,), (1, 1), (3, 1), (1, 0)):
            x = values(d, s)
            for axis in range(-len(s), len(s)):
                check(sv, "sum", [x], x.sum(axis, dtype=out), (0, axis))
                check(sv, "prod", [x], x.prod(axis, dtype=out, keepdims=True), (1, axis))
                check(sv, "any", [x], x.astype(bool).any(axis), (0, axis))
                check(sv, "concatenate", [x, x], np.concatenate([x, x], axis), (axis,))
                check(sv, "stack", [x, x, x], np.stack([x, x, x], axis), (axis,))
                check(sv, "flip", [x], np.flip(x, axis), (axis,))
                check(sv, "repeat", [x], np.repeat(x, 2, axis), (axis, 2))
                check(sv, "slice", [x], np.flip(x, axis), (axis, FAR, -FAR - 1, -1))
                check(sv, "take", [x, np.zeros((0, 2), np.int32)], np.take(x, np.zeros((0, 2), int), axis), (axis,))
                if x.shape[axis]:
                    check(sv, "max", [x], x.max(axis), (0, axis))
                    check(sv, "argmax", [x], x.argmax(axis), (axis, 0))
                    check(sv, "take", [x, np.zeros((1, 2), np.int32)], np.take(x, np.zeros((1, 2), int), axis), (axis,))
                else:
                    check(
                        sv,
                        "take",
                        [x, np.zeros((2,), np.int32)],
                        np.zeros(x.shape[: axis % len(s)] + (2,) + x.shape[axis % len(s) + 1 :], d),
                        (axis,),
                    )
                if d == np.float32:
                    check(sv, "mean", [x], x.mean(axis), (0, axis), tol=1e-6)
                    check(sv, "var", [x], x.var(axis, ddof=0), (0, axis), (0,), tol=1e-5)
                    if x.shape[axis] < 2:
                        check(sv, "softmax", [x], np.ones_like(x), (axis,))
            check(sv, "sum", [x], x.sum(dtype=out), (0,))
            check(sv, "pad", [x], np.pad(x, [(1, 2)] * x.ndim, constant_values=7), (1, 2) * x.ndim, (7,))
            check(sv, "add", [x, np.ones((1,), d)], x + np.ones((1,), d))
        for a, b in (
            ((0, 3), (3, 2)),
            ((2, 3), (3, 0)),
            ((2, 0), (0, 2)),
            ((0, 2, 3), (3, 2)),
            ((1, 2, 3), (0, 3, 2)),
            ((1, 1), (1, 1)),
            ((0,), (0,)),
            ((0,), (0, 3)),
            ((2, 0), (0,)),
        ):
            x, y = values(d, a), values(d, b)
            check(sv, "matmul", [x, y], np.matmul(x, y))
        x, y = values(d, (0, 3)), values(d, (3, 4))
        check(sv, "einsum", [x, y], np.einsum("ij,jk->k", x, y), word="ij,jk->k")
        check(sv, "einsum", [x], np.einsum("ij->j", x), word="ij->j")


def views(sv):
    """Operands that are views: transposed, reversed, cut with a step, spread."""
    for d in (np.float32, np.int64):
        x, y = values(d, (5, 7)), values(d, (7, 5))
        for name, fn in (("add", np.add), ("maximum", np.maximum), ("matmul", None)):
            flipped, turned = sv.ask("flip", [x], (0,)), sv.ask("permute", [y], (1, 0))
            a, b = x[::-1], y.T
            if fn:
                check(sv, name, [flipped, turned], fn(a, b))
                continue
            cut = sv.ask("slice", [sv.ask("permute", [x], (1, 0))], (0, FAR, -FAR - 1, -2))
            check(sv, "matmul", [cut, x], x.T[::-2] @ x, tol=1e-6, scale=100.0)
        wide = sv.ask("expand", [x[:, :1]], (3, 5, 7))
        check(
            sv,
            "sum",
            [wide],
            np.broadcast_to(x[:, :1], (3, 5, 7)).sum((0, 2), dtype=d),
            (0, 0, 2),
            tol=1e-6,
            scale=100.0,
        )
        check(sv, "reshape", [sv.ask("permute", [x], (1, 0))], x.T.reshape(5, 7), (5, -1))
        check(sv, "take", [sv.ask("flip", [x], (1,)), np.array([4, 0], np.int32)], x[:, ::-1][[4, 0]], (0,))
        check(
            sv,
            "concatenate",
            [sv.ask("slice", [x], (-1, 1, 6, 2)), sv.ask("flip", [sv.ask("slice", [x], (-1, 0, 2, 1))], (-1,))],
            np.concatenate([x[:, 1:6:2], x[:, :2][:, ::-1]], -1),
            (-1,),
        )


for device in sys.argv[2:] or os.environ.get("TENET_DEVICE", "ref cpu").split():
    sv = Server(sys.argv[1], device)
    count = 0
    with np.errstate(all="ignore"):
        for part in (
            exact_elementwise,
            near_elementwise,
            reductions,
            moves,
            indexing,
            contractions,
            compositions,
            special_values,
            nothing_and_one,
            views,
        ):
            part(sv)
            count += len(checks)
            bad += judge(sv)
    sv.p.stdin.close()
    if sv.p.wait() != 0:
        print(f"the server on {device} ended with {sv.p.returncode}")
        bad += 1
    print(f"{device}: {count} checks")
print(f"{bad} bad")
sys.exit(1 if bad else 0)
