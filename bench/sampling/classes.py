"""The classes of workloads, each in one place: how its parameters are drawn, and what it computes.

To add a class, add it here; draws.py says what a class is.  build() uses the operators that tenet_side.py,
torch_side.py and jax_side.py have: a new operator is a method of the three.
"""
from draws import APART, Kind, Refused, count, is_float, kind

INTEGERS = ["i32", "i32", "i64", "u8", "i8", "i16"]


# ---- elements ----

TAME = ["tanh", "sigmoid", "sin", "cos", "erf", "gelu", "gelu_tanh", "silu", "relu", "abs", "neg", "softplus", "atan",
        "asinh", "elu", "sign"]
WILD = ["exp", "square", "sinh", "cosh", "expm1", "exp2"]  # of what is small only
POSITIVE = ["log", "sqrt", "rsqrt", "log1p", "log2", "recip", "cbrt"]
PAIRS = ["add", "sub", "mul", "maximum", "minimum", "atan2", "hypot", "add", "mul"]
WHOLE = ["add", "sub", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"]


@kind("elementwise")
class Elementwise(Kind):
    def draw(self, d):
        whole = d.chance(0.15)
        d.dtype = d.choose(INTEGERS) if whole else d.floats()
        operands = d.integer(1, 3)
        shape = d.shape(1, 6, operands + 1)
        positive = not whole and d.chance(0.3)
        d.input(shape, values="integers" if whole else "positive" if positive else "spread")
        for _ in range(operands - 1):  # broadcasts
            other = [1 if d.chance(0.25) else n for n in shape][d.integer(0, len(shape)) if d.chance(0.3) else 0:]
            d.input(other, values="integers" if whole else "positive" if d.chance(0.5) else "spread")
        steps = []
        if not whole:
            steps += [[d.choose(POSITIVE if positive else WILD)]] if d.chance(0.6) else []
            steps += [[d.choose(TAME)] for _ in range(d.integer(0, 3))]
        for i in range(1, operands):
            steps.insert(d.integer(0, len(steps)) if not whole else len(steps), [d.choose(WHOLE if whole else PAIRS), i]
                         if not d.chance(0.2) else ["where", i])
        if not whole and d.chance(0.1):
            steps = [["tanh"]] + steps
        if positive:  # what needs a positive operand comes first
            steps.sort(key=lambda s: s[0] not in POSITIVE)
        else:
            steps.sort(key=lambda s: s[0] not in WILD)
        d.let(steps=steps or [["neg"]])
        d.output(shape, flops=0, length=1 + len(steps))
        d.gradients(*range(operands))

    def build(self, o, p, *x):
        y = x[0]
        for name, *a in p["steps"]:
            if name == "where":
                y = o.where(o.map("gt", x[a[0]], 0), y, x[a[0]])
            else:
                y = o.map(name, y, *(x[i] for i in a))
        return y


# ---- reductions and what rests on them ----

@kind("reduction")
class Reduction(Kind):
    def draw(self, d):
        name = d.choose(["sum", "sum", "mean", "max", "min", "prod", "var", "std", "logsumexp", "any", "all"])
        values = {"prod": "signs", "any": "truth", "all": "truth"}.get(name, "spread")
        if name in ("any", "all"):
            d.dtype = "bool"
        elif name in ("sum", "max", "min") and d.chance(0.15):
            d.dtype, values = d.choose(INTEGERS), "integers"
        else:
            d.floats()
        shape = d.shape(1, 6, 1)
        axes, keep = d.axes(shape), d.chance(0.3)
        if name in ("var", "std") and count(shape[a] for a in axes) < 2:
            raise Refused
        d.input(shape, values=values)
        d.let(name=name, axes=axes, keep=keep)
        out = [1 if i in axes else n for i, n in enumerate(shape) if keep or i not in axes]
        d.output(out, length=count(shape[a] for a in axes))
        if name != "prod":
            d.gradients(0)
            d.neighbours()

    def build(self, o, p, x):
        return o.reduce(p["name"], x, p["axes"], p["keep"])


@kind("softmax")
class Softmax(Kind):
    def draw(self, d):
        d.floats()
        shape = d.shape(1, 5)
        axis = d.axis(shape)
        d.input(shape)
        d.let(name=d.choose(["softmax", "softmax", "log_softmax"]), axis=axis)
        d.output(shape, length=shape[axis])
        d.gradients(0)
        d.neighbours()

    def build(self, o, p, x):
        return o.softmax(x, p["axis"]) if p["name"] == "softmax" else o.log_softmax(x, p["axis"])


@kind("norm")
class Norm(Kind):
    def draw(self, d):
        d.floats()
        shape = d.shape(2, 5)
        name = d.choose(["layer", "layer", "rms", "batch", "group", "axis", "length"])
        rank, trailing = len(shape), d.integer(1, max(1, len(shape) - 1))
        axes = {"layer": range(rank - trailing, rank), "rms": range(rank - trailing, rank),
                "batch": [i for i in range(rank) if i != 1], "group": range(2, rank + 1)}.get(name, [d.axis(shape)])
        d.let(name=name, axes=list(axes))
        if name == "group":
            groups = d.choose([g for g in (1, 2, 4, 8, 16, 32) if shape[1] % g == 0])
            d.let(groups=groups)
            length = count(shape[1:]) // groups
        else:
            length = count(shape[a] for a in axes)
        if length < 8:  # of few numbers, gradients are what rounding leaves of nothing
            raise Refused
        d.input(shape)
        if name in ("layer", "rms"):
            weights = shape[rank - trailing:]
        else:
            weights = [n if i == 1 else 1 for i, n in enumerate(shape)]
        n = 0 if name == "length" or d.chance(0.15) else 1 if name == "rms" else 2
        for _ in range(n):
            d.input(weights, values="positive", layout=False)
        d.output(shape, length=length)
        d.gradients(*range(1 + n))
        d.neighbours()

    def build(self, o, p, x, *weights):
        name, axes = p["name"], p["axes"]
        if name == "layer":
            return o.layer_norm(x, len(axes), *weights)
        if name == "rms":
            return o.rms_norm(x, len(axes), *weights)
        if name == "batch":
            return o.batch_norm(x, *weights)
        if name == "group":
            return o.group_norm(x, p["groups"], *weights)
        if name == "length":
            return o.map("div", x, o.map("sqrt", o.map("add", o.reduce("sum", o.map("square", x), axes, True), 1e-3)))
        return normal(o, x, axes, *weights)


def normal(o, x, axes, gamma=None, beta=None):
    """Of mean 0 and deviation 1 over these axes."""
    centred = o.map("sub", x, o.reduce("mean", x, axes, True))
    scale = o.map("rsqrt", o.map("add", o.reduce("mean", o.map("square", centred), axes, True), 1e-5))
    y = o.map("mul", centred, scale)
    return y if gamma is None else o.map("add", o.map("mul", y, gamma), beta)


@kind("argmax")
class Argmax(Kind):
    def draw(self, d):
        d.dtype = d.choose(INTEGERS) if d.chance(0.15) else d.floats()
        shape = d.shape(1, 5, 1)
        axis, keep = d.axis(shape), d.chance(0.3)
        d.input(shape, values="spread" if is_float(d.dtype) else "integers")
        d.let(name=d.choose(["argmax", "argmin"]), axis=axis, keep=keep)
        d.output([1 if i == axis else n for i, n in enumerate(shape) if keep or i != axis], "i64")

    def build(self, o, p, x):
        return o.argmax(x, p["axis"], p["keep"]) if p["name"] == "argmax" else o.argmin(x, p["axis"], p["keep"])

    def checked(self, p, inputs, outputs):
        """The extremes: of equal ones each may be found."""
        place = outputs[0] if p["keep"] else outputs[0][(*[slice(None)] * p["axis"], None)]
        return [at_places(inputs[0], place, p["axis"])]


def at_places(x, places, axis):
    """x[.., places[.., i, ..], ..] of NumPy arrays; other axes are as long as those of places."""
    import numpy as np

    grid = list(np.ix_(*(np.arange(n) for n in places.shape)))
    grid[axis] = places
    return x[tuple(grid)]


# ---- scans, sorts, searches ----

@kind("scan")
class Scan(Kind):
    def draw(self, d):
        d.floats()
        name = d.choose(["cumsum", "cumsum", "cumprod"])
        shape = d.shape(1, 4)
        axis = d.axis(shape)
        d.input(shape, values="signs" if name == "cumprod" else "spread")
        d.let(name=name, axis=axis)
        d.output(shape, length=shape[axis])
        if name == "cumsum":
            d.gradients(0)
            d.neighbours()

    def build(self, o, p, x):
        return o.cumsum(x, p["axis"]) if p["name"] == "cumsum" else o.cumprod(x, p["axis"])


@kind("sort")
class Sort(Kind):
    def draw(self, d):
        d.dtype = d.choose(["i32", "i64", "u8", "i16"]) if d.chance(0.25) else d.floats()
        shape = d.shape(1, 3)
        axis, name = d.axis(shape), d.choose(["sort", "argsort", "topk"])
        d.input(shape, values="spread" if is_float(d.dtype) else f"below {d.log_size(2, 30000)}"
                if d.dtype in ("i32", "i64", "i16") else "integers")
        d.let(name=name, axis=axis, down=d.chance(0.4))
        if name == "topk":
            k = min(shape[axis], d.log_size(1, 64))
            d.let(k=k)
            d.output([k if i == axis else n for i, n in enumerate(shape)])
        else:
            d.output(shape, "i64" if name == "argsort" else d.dtype)
        if name == "sort":
            if d.dtype not in ("f16", "bf16"):  # many of those are equal: which of them has a gradient is open
                d.gradients(0, p=0.2)
            d.neighbours()

    def build(self, o, p, x):
        if p["name"] == "sort":
            return o.sort(x, p["axis"], p["down"])
        if p["name"] == "argsort":
            return o.argsort(x, p["axis"], p["down"])
        return o.topk(x, p["k"], p["axis"], p["down"])

    def checked(self, p, inputs, outputs):
        """Of the greatest, equal ones may stand in any order."""
        if p["name"] == "topk":
            return [outputs[0], at_places(inputs[0], outputs[1], p["axis"])]
        return outputs


@kind("search")
class Search(Kind):
    def draw(self, d):
        name = d.choose(["searchsorted", "bincount", "unique", "nonzero"])
        if name == "bincount":
            d.dtype = d.choose(["i32", "i64"])
            n, classes = d.size(d.elements(1)), d.log_size(1, 1e6)
            d.input([n], values=f"below {classes}")
            d.let(name=name, classes=classes)
            d.output([classes], "i64")
        elif name == "unique":  # room for all, or for those that there can be
            d.dtype = d.choose(["i32", "i64", "f32"])
            n, classes = d.size(d.elements(1)), d.log_size(2, 30000)
            d.input([n], values="spread" if is_float(d.dtype) else f"below {classes}")
            most = n if is_float(d.dtype) else min(n, classes)
            d.let(name=name, most=most, more=d.chance(0.3))
            d.output([most])
        elif name == "nonzero":
            d.dtype, shape = d.choose(["i32", "i64"]), d.shape(1, 3)
            d.input(shape, values=f"below {d.choose([2, 3, 50])}")
            d.let(name=name, most=count(shape))
            d.output([count(shape), len(shape)], "i64")
        else:
            d.dtype = d.choose(["f32", "f32", "f64"])
            n, m = d.sizes(d.elements(1) ** 1.3, 2)
            d.input([n], values="sorted", layout=False)
            d.input([m])
            d.let(name=name, right=d.chance(0.5))
            d.output([m], "i64")

    def build(self, o, p, x, *values):
        if p["name"] == "unique":
            return o.unique(x, p["most"], p["more"])
        if p["name"] == "nonzero":
            return o.nonzero(x, p["most"])
        return o.bincount(x, p["classes"]) if p["name"] == "bincount" else o.searchsorted(x, *values, p["right"])


# ---- movements ----

def any_dtype(d):
    d.dtype = d.choose(["i32", "i64", "u8", "i16"]) if d.chance(0.15) else d.floats()
    return "spread" if is_float(d.dtype) else "integers"


@kind("transpose")
class Transpose(Kind):
    def draw(self, d):
        values, shape = any_dtype(d), d.shape(2, 6)
        order = list(range(len(shape)))
        while order == sorted(order):
            d.rng.shuffle(order)
        d.input(shape, values=values)
        d.let(order=order)
        d.output([shape[i] for i in order])
        d.gradients(0, p=0.2)
        d.neighbours()

    def build(self, o, p, x):
        return o.contiguous(o.permute(x, p["order"]))


@kind("gather")
class Gather(Kind):
    def draw(self, d):
        values, name = any_dtype(d), d.choose(["take", "embedding", "along"])
        if name == "along":
            shape = d.shape(1, 4, 4)
            axis = d.axis(shape)
            places = [d.log_size(1, 2 * n + 2) if i == axis else n for i, n in enumerate(shape)]
            out, n = places, shape[axis]
        else:
            shape = d.shape(1 if name == "take" else 2, 3, 2)
            axis = d.axis(shape) if name == "take" else 0
            n = shape[axis]
            places = d.sizes(d.log_uniform(1, 4 * n + 4), d.integer(1, 2))
            out = shape[:axis] + places + shape[axis + 1:]
        d.input(shape, values=values)
        d.input(places, "i64", f"below {n}")
        d.let(name=name, axis=axis)
        d.output(out, length=max(1, count(places) // n))
        d.gradients(0)
        d.neighbours()

    def build(self, o, p, x, places):
        return o.take_along(x, places, p["axis"]) if p["name"] == "along" else o.take(x, places, p["axis"])


@kind("scatter_add")
class ScatterAdd(Kind):
    def draw(self, d):
        d.floats()
        name = d.choose(["along", "rows", "rows"])
        shape = d.shape(1, 3, 4)
        axis = d.axis(shape) if name == "along" else 0
        n = d.log_size(1, 4 * shape[axis] + 4)
        updates = [n if i == axis else m for i, m in enumerate(shape)]
        d.input(shape)
        d.input(updates if name == "along" else [n], "i64", f"below {shape[axis]}")
        d.input(updates)
        d.let(name=name, axis=axis)
        d.output(shape, length=1 + n // shape[axis])
        d.gradients(0, 2)
        d.neighbours()

    def build(self, o, p, base, places, updates):
        return (o.scatter_add if p["name"] == "along" else o.index_add)(base, p["axis"], places, updates)


@kind("concatenate")
class Concatenate(Kind):
    def draw(self, d):
        values, parts = any_dtype(d), d.integer(2, 6)
        shape = d.shape(1, 5, 2 * parts)
        axis, stack = d.axis(shape), d.chance(0.3)
        lengths = [shape[axis] if stack else d.log_size(1, 2 * shape[axis]) for _ in range(parts)]
        for n in lengths:
            d.input([n if i == axis else m for i, m in enumerate(shape)], values=values)
        d.let(axis=axis, stack=stack)
        d.output(shape[:axis] + ([parts, shape[axis]] if stack else [sum(lengths)]) + shape[axis + 1:])
        d.gradients(*range(parts))
        d.neighbours()

    def build(self, o, p, *x):
        return o.stack(x, p["axis"]) if p["stack"] else o.concatenate(x, p["axis"])


@kind("pad")
class Pad(Kind):
    def draw(self, d):
        values, shape = any_dtype(d), d.shape(1, 5)
        around = [[0, 0] if d.chance(0.4) else [d.log_size(1, 1 + n / 4) - d.integer(0, 1), d.integer(0, 9)]
                  for n in shape]
        d.input(shape, values=values)
        d.let(around=around, value=d.choose([0, 0, 1]))
        d.output([n + a + b for n, (a, b) in zip(shape, around)])
        d.gradients(0)
        d.neighbours()

    def build(self, o, p, x):
        return o.pad(x, p["around"], p["value"])


@kind("slice")
class Slice(Kind):
    def draw(self, d):
        values, shape = any_dtype(d), d.shape(1, 5)
        boxes = []
        for axis, n in enumerate(shape):
            if n > 1 and d.chance(0.6):
                start, step = d.integer(0, n // 2), d.choose([1, 1, 1, 2, 3])
                boxes.append([axis, start, d.integer(start + 1, n), step])
        d.input(shape, values=values)
        d.let(boxes=boxes)
        out = list(shape)
        for axis, start, stop, step in boxes:
            out[axis] = (stop - start + step - 1) // step
        d.output(out)
        d.gradients(0)
        d.neighbours()

    def build(self, o, p, x):
        for box in p["boxes"]:
            x = o.slice(x, *box)
        return o.contiguous(x)


@kind("flip")
class Flip(Kind):
    def draw(self, d):
        values, shape = any_dtype(d), d.shape(1, 5)
        d.input(shape, values=values)
        d.let(axes=d.axes(shape))
        d.output(shape)
        d.gradients(0, p=0.2)
        d.neighbours()

    def build(self, o, p, x):
        return o.flip(x, p["axes"])


# ---- windows ----

@kind("pooling")
class Pooling(Kind):
    def draw(self, d):
        d.floats()
        n = d.choose([1, 2, 2, 2, 3])
        shape = d.sizes(d.elements(1.5), n + 2)
        window = [min(d.choose([2, 2, 3, 3, 5, 7]), s) for s in shape[2:]]
        stride = [d.choose([1, 2, w, w]) for w in window]
        padding = [d.integer(0, w // 2) for w in window] if d.chance(0.4) else [0] * n
        name = d.choose(["max", "max", "avg"])
        d.input(shape, layout=name == "avg")  # without equal maxima: who gets their gradient is no one's promise
        d.let(name=name, window=window, stride=stride, padding=padding)
        d.output(shape[:2] + [(s + 2 * q - w) // t + 1 for s, w, t, q in zip(shape[2:], window, stride, padding)],
                 length=count(window))
        if name == "avg" or d.dtype in ("f32", "f64"):
            d.gradients(0)
            d.neighbours(pre=name == "avg")

    def build(self, o, p, x):
        return o.pool(x, p["name"], p["window"], p["stride"], p["padding"])


@kind("convolution", group=APART)
class Convolution(Kind):
    def draw(self, d):
        d.floats()
        n, turned = d.choose([1, 2, 2, 2, 3]), d.chance(0.2)
        window = [d.choose([1, 3, 3, 3, 5, 7]) for _ in range(n)]
        if d.chance(0.7):
            window = window[:1] * n
        how = d.choose(["dense", "dense", "dense", "groups", "each"])
        share = d.wanted_flops / 2 / count(window)  # batch x places x inputs x outputs / groups
        batch, inputs, outputs, *side = d.sizes(share, 3 + n)
        if d.chance(0.7):
            side = side[:1] * n
        groups = 1
        if how == "each":
            inputs = outputs = groups = max(2, outputs)
        elif how == "groups":
            groups = d.choose([2, 4, 8])
            inputs, outputs = (groups * max(1, c // groups) for c in (inputs, outputs))
        stride = [d.choose([1, 1, 2])] * n
        dilation = [d.choose([1, 1, 1, 2])] * n
        padding = [w // 2 * t if d.chance(0.8) else 0 for w, t in zip(window, dilation)]
        reach = [t * (w - 1) + 1 for w, t in zip(window, dilation)]
        if turned:
            out = [(s - 1) * t - 2 * q + r for s, t, q, r in zip(side, stride, padding, reach)]
        else:
            out = [(s + 2 * q - r) // t + 1 for s, t, q, r in zip(side, stride, padding, reach)]
        if min(out) < 1 or min(s + 2 * q - r for s, q, r in zip(side, padding, reach)) < 0:
            raise Refused
        places = count(side if turned else out)
        length = inputs // groups * count(window)
        weights = [inputs, outputs // groups] if turned else [outputs, inputs // groups]
        d.input([batch, inputs] + side)
        d.input(weights + window, values="small", over=length, layout=False)
        bias = d.chance(0.5)
        if bias:
            d.input([outputs], layout=False)
        d.let(stride=stride, padding=padding, dilation=dilation, groups=groups, turned=turned)
        d.output([batch, outputs] + out, flops=2 * batch * places * outputs * inputs // groups * count(window),
                 length=length)
        d.gradients(*range(3 if bias else 2))
        d.neighbours()
        d.products()

    def build(self, o, p, x, w, b=None):
        convolve = o.conv_transpose if p["turned"] else o.conv
        return convolve(x, w, b, p["stride"], p["padding"], p["dilation"], p["groups"])


# ---- products ----

SUMS = ["ij,kj->ik", "ij,j->i", "bij,bjk->bik", "bij,kj->bik", "bhid,bhjd->bhij", "bihd,bjhd->bhij", "ijk,jl->ilk",
        "bi,bj->ij", "ij,ij->i", "bik,bjk->ij", "abc,cd->abd", "i,j->ij"]


@kind("product", group=APART)
class Product(Kind):
    def draw(self, d):
        whole = d.chance(0.05)
        d.dtype = d.choose(["i32", "i64"]) if whole else d.floats()
        values = "integers" if whole else "spread"
        name = d.choose(["matmul", "matmul", "batched", "vector", "linear", "linear", "einsum"])
        flops = d.wanted_flops / 2
        if whole:
            flops = min(flops, 5e9)
        if name == "einsum":
            spec = d.choose(SUMS)
            (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
            letters = sorted(set(left + right))
            length = dict(zip(letters, d.sizes(flops, len(letters))))
            total, summed = count(length.values()), count(length[c] for c in letters if c not in out)
            d.input([length[c] for c in left], values=values)
            d.input([length[c] for c in right], values=values if whole else "small", over=summed)
            d.let(name=name, spec=spec)
            d.output([length[c] for c in out], flops=2 * total, length=summed)
        else:
            m, n, k = d.sizes(flops, 3) if name != "batched" else (0, 0, 0)
            batch = []
            if name == "batched":
                m, n, k, *batch = d.sizes(flops, 3 + d.integer(1, 2))
            if name == "vector":
                m, k = d.sizes(min(flops, d.elements(1)), 2)
                n = 1
            small = dict(values=values if whole else "small", over=k)
            bias = False
            if name == "linear":
                rows = [d.integer(1, max(1, min(m, 32))), m] if d.chance(0.3) else [m]
                rows = [rows[0], max(1, m // rows[0])] if len(rows) > 1 else rows
                bias = d.chance(0.7)
                d.input(rows + [k], values=values)
                d.input([n, k], **small)
                if bias:
                    d.input([n], values=values, layout=False)
                out = rows + [n]
            elif name == "vector" and d.chance(0.5):
                d.input([k], values=values)
                d.input([k, m], **small)
                out = [m]
            else:
                d.input(([1] * len(batch) if batch and d.chance(0.1) else batch) + [m, k], values=values)
                d.input((batch[1:] if d.chance(0.2) else batch) + ([k] if name == "vector" else [k, n]), **small)
                out = d.inputs[0]["shape"][:len(batch)]
                out = (batch if out and d.inputs[1]["shape"][:-2] == batch else out) + [m] + ([] if name == "vector"
                    else [n])
            d.let(name=name)
            d.output(out, flops=2 * count(out) * k, length=k)
        d.gradients(0, 1)
        d.neighbours()
        d.products()

    def build(self, o, p, a, b, bias=None):
        if p["name"] == "einsum":
            return o.einsum(p["spec"], a, b)
        return o.linear(a, b, bias) if p["name"] == "linear" else o.matmul(a, b)


@kind("attention", group=APART)
class Attention(Kind):
    def draw(self, d):
        d.dtype = d.choose(["bf16", "bf16", "f16", "f32"])
        size = d.choose([16, 32, 64, 64, 64, 80, 96, 128, 128, 256])
        share = d.wanted_flops / 4 / size  # batch x heads x queries x keys
        heads, batch = d.log_size(1, 64), d.log_size(1, 256)
        queries = 1 if d.chance(0.1) else d.size(max(1, (share / heads / batch) ** 0.5))
        keys = queries if d.chance(0.7) else d.size(d.log_uniform(1, 4 * queries + 4))
        shared = d.choose([n for n in (1, 1, 2, 4, 8) if heads % n == 0])
        causal = keys == queries and d.chance(0.4)
        mask = not causal and d.chance(0.25)
        d.input([batch, heads, queries, size])
        d.input([batch, heads // shared, keys, size])
        d.input([batch, heads // shared, keys, size])
        if mask:
            d.input([queries, keys] if d.chance(0.5) else [batch, 1, queries, keys], layout=False)
        d.let(causal=causal, shared=shared)
        d.output([batch, heads, queries, size], flops=4 * batch * heads * queries * keys * size, length=keys)
        if keys > 1:  # of one key nothing depends on the query
            d.gradients(0, 1, 2)
        d.neighbours()
        d.products()

    def build(self, o, p, q, k, v, mask=None):
        return o.attention(q, k, v, mask, p["causal"], p["shared"])


@kind("cross_entropy")
class CrossEntropy(Kind):
    def draw(self, d):
        d.dtype = d.choose(["f32", "f32", "bf16", "f16"])
        classes = min(250000, d.log_size(2, 250000))
        rows = d.size(d.elements(1) / classes)
        shape = [rows, classes]
        if d.chance(0.2):
            shape += d.sizes(rows, 2)
            shape[0] = d.integer(1, 4)
        d.input(shape)
        d.input(shape[:1] + shape[2:], "i64", f"below {classes}", layout=False)
        d.output([], length=count(shape))
        d.gradients(0, p=0.6)
        d.neighbours(post=False)

    def build(self, o, p, logits, labels):
        return o.cross_entropy(logits, labels)


@kind("distance")
class Distance(Kind):
    def draw(self, d):
        d.dtype = d.choose(["f32", "f32", "f32", "f64"])
        name = d.choose(["euclid", "sum", "square", "cosine"])
        m, n, k = d.sizes(d.wanted_flops / 3, 3)
        batch = [d.integer(1, 8)] if d.chance(0.3) else []
        d.input(batch + [m, k])
        d.input(batch + [n, k])
        d.let(name=name)
        d.output(batch + [m, n], flops=3 * count(batch) * m * n * k, length=k)
        d.gradients(0, 1, p=0.2)

    def build(self, o, p, a, b):
        name = p["name"]
        if name == "euclid":
            return o.cdist(a, b, 2)
        if name == "sum":
            return o.cdist(a, b, 1)
        other = o.transpose(b, -1, -2)
        products = o.matmul(a, other)
        squares = o.reduce("sum", o.map("square", a), [-1], True), o.reduce("sum", o.map("square", other), [-2], True)
        if name == "square":
            return o.map("sub", o.map("add", *squares), o.map("mul", products, 2))
        return o.map("mul", products, o.map("rsqrt", o.map("add", o.map("mul", *squares), 1e-6)))


@kind("stencil")
class Stencil(Kind):
    def draw(self, d):
        d.dtype = d.choose(["f32", "f32", "f64", "bf16"])
        n = d.choose([1, 2, 2, 3])
        shape = d.sizes(d.elements(2), n)
        if min(shape) < 3:
            raise Refused
        d.input(shape)
        d.let(times=d.choose([1, 1, 2, 4]), around=d.choose(["zero", "ring"]))
        d.output(shape, length=2 * n + 1)
        d.gradients(0, p=0.25)
        d.neighbours()

    def build(self, o, p, x):
        """Steps of the heat equation."""
        rank = len(o.shape(x))
        for _ in range(p["times"]):
            if p["around"] == "zero":
                wide = o.pad(x, [[1, 1]] * rank, 0)
            total = o.map("mul", x, 1 - 0.2 * rank)
            for axis, n in enumerate(o.shape(x)):
                for way in (-1, 1):
                    if p["around"] == "zero":
                        beside = wide
                        for a, m in enumerate(o.shape(x)):
                            start = 1 + (way if a == axis else 0)
                            beside = o.slice(beside, a, start, start + m, 1)
                    else:
                        beside = o.roll(x, way, axis)
                    total = o.map("add", total, o.map("mul", beside, 0.1))
            x = total
        return x


@kind("random", statistics=True)
class Random(Kind):
    def draw(self, d):
        name = d.choose(["uniform", "uniform", "normal", "normal", "bernoulli", "dropout"])
        d.floats()
        if name == "bernoulli":
            d.dtype = "bool"
        shape = d.shape(1, 4, 1 if name != "dropout" else 2)
        d.let(name=name, shape=shape, dtype=d.dtype)
        if name == "dropout":
            d.input(shape, values="positive")
        d.output(shape)
        if name == "dropout":
            d.neighbours()

    def build(self, o, p, x=None):
        return o.dropout(x, 0.3) if p["name"] == "dropout" else o.random(p["name"], p["shape"], p["dtype"])


# ---- whole networks ----

RATE = 0.01


@kind("network")
class Network(Kind):
    """The loss of a small network, and its parameters after a step of gradient descent."""

    def draw(self, d):
        name = d.choose(["mlp", "cnn", "transformer", "lstm"])
        d.dtype = d.choose(["f32", "f32", "bf16"])
        batch = d.log_size(1, 512)
        self.count = 0
        getattr(self, "draw_" + name)(d, batch)
        d.let(name=name)
        d.rate, d.wrt = RATE, [i for i, spec in enumerate(d.inputs) if spec.get("parameter")]
        d.output([], flops=self.count, length=max(1, batch))
        d.products()

    def weights(self, d, *shape, over, times):
        """A parameter with which each of `times` rows is multiplied."""
        i = d.input(shape, values="small", over=over, layout=False)
        d.inputs[i]["parameter"] = True
        self.count += 2 * count(shape) * times

    def draw_mlp(self, d, batch):
        width = [d.log_size(1, 2048) for _ in range(d.integer(2, 5))]
        d.input([batch, width[0]], layout=False)
        d.input([batch], "i64", f"below {width[-1]}", layout=False)
        for n, m in zip(width, width[1:]):
            self.weights(d, m, n, over=n, times=batch)
            self.weights(d, m, over=n, times=1)

    def build_mlp(self, o, p, x, labels, *w):
        for i in range(0, len(w), 2):
            x = o.linear(x, w[i], w[i + 1])
            x = o.map("relu", x) if i + 2 < len(w) else x
        return o.cross_entropy(x, labels)

    def draw_cnn(self, d, batch):
        side, channels, classes = d.integer(8, 64), [d.choose([1, 3]), d.log_size(4, 64), d.log_size(4, 128)], 10
        d.input([batch, channels[0], side, side], layout=False)
        d.input([batch], "i64", f"below {classes}", layout=False)
        for n, m in zip(channels, channels[1:]):
            self.weights(d, m, n, 3, 3, over=9 * n, times=batch * side * side)
            self.weights(d, m, over=n, times=1)
            side //= 2
        self.weights(d, classes, channels[-1] * side * side, over=channels[-1] * side * side, times=batch)
        self.weights(d, classes, over=channels[-1], times=1)

    def build_cnn(self, o, p, x, labels, *w):
        for i in (0, 2):
            x = o.map("relu", o.conv(x, w[i], w[i + 1], [1, 1], [1, 1], [1, 1], 1))
            x = o.pool(x, "avg", [2, 2], [2, 2], [0, 0])
        shape = o.shape(x)
        x = o.reshape(x, [shape[0], shape[1] * shape[2] * shape[3]])
        return o.cross_entropy(o.linear(x, w[4], w[5]), labels)

    def draw_transformer(self, d, batch):
        heads, size, time = d.choose([1, 2, 4, 8, 12]), d.choose([16, 32, 64]), d.log_size(4, 512)
        batch, width = max(1, batch // 16), heads * size
        d.input([batch, time, width], layout=False)
        d.let(heads=heads)
        for shape in ([3 * width, width], [width, width], [4 * width, width], [width, 4 * width]):
            self.weights(d, *shape, over=shape[1], times=batch * time)
        for _ in range(2):
            self.weights(d, width, over=1, times=1)
            self.weights(d, width, over=width, times=1)
        self.count += 4 * batch * time * time * width

    def build_transformer(self, o, p, x, qkv, out, up, down, g1, b1, g2, b2):
        batch, time, width = o.shape(x)
        heads = p["heads"]
        h = o.linear(o.layer_norm(x, 1, g1, b1), qkv, None)
        h = o.permute(o.reshape(h, [batch, time, 3, heads, width // heads]), [2, 0, 3, 1, 4])
        q, k, v = (o.reshape(o.slice(h, 0, i, i + 1, 1), [batch, heads, time, width // heads]) for i in range(3))
        h = o.attention(q, k, v, None, True, 1)
        h = o.reshape(o.permute(h, [0, 2, 1, 3]), [batch, time, width])
        x = o.map("add", x, o.linear(h, out, None))
        h = o.map("gelu_tanh", o.linear(o.layer_norm(x, 1, g2, b2), up, None))
        x = o.map("add", x, o.linear(h, down, None))
        return o.reduce("mean", o.map("square", o.cast(x, "f32")), [0, 1, 2], False)

    def draw_lstm(self, d, batch):
        inputs, width, time = d.log_size(1, 512), d.log_size(1, 512), d.integer(2, 8)
        d.input([time, batch, inputs], layout=False)
        self.weights(d, 4 * width, inputs, over=inputs, times=batch * time)
        self.weights(d, 4 * width, width, over=width, times=batch * time)
        self.weights(d, 4 * width, over=width, times=1)

    def build_lstm(self, o, p, x, w, u, b):
        time, batch, inputs = o.shape(x)
        width = o.shape(u)[1]
        h = c = None
        for t in range(time):
            z = o.linear(o.reshape(o.slice(x, 0, t, t + 1, 1), [batch, inputs]), w, b)
            z = z if h is None else o.map("add", z, o.linear(h, u, None))
            i, f, g, a = (o.slice(z, 1, n * width, (n + 1) * width, 1) for n in range(4))
            new = o.map("mul", o.map("sigmoid", i), o.map("tanh", g))
            c = new if c is None else o.map("add", o.map("mul", o.map("sigmoid", f), c), new)
            h = o.map("mul", o.map("sigmoid", a), o.map("tanh", c))
        return o.reduce("mean", o.map("square", o.cast(h, "f32")), [0, 1], False)

    def build(self, o, p, *inputs):
        return getattr(self, "build_" + p["name"])(o, p, *inputs)
