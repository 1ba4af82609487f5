"""What a draw is, and how its sizes, dtypes, layouts and neighbours are drawn.

A draw is a dictionary that JSON can hold: {"class", "seed", "draw", "inputs", "own", "p", "out", "dtype", "flops",
"length", "pre", "post", "wrt", "tf32", "rate", "bytes"}.  It depends on the seed, its number and the limits only.
classes.py holds the classes; this file knows nothing of any of them.

Each input: {"shape", "dtype", "values", "layout"}.  Values: "spread" (-2 to 2), "positive" (1/2 to 2), "signs" (1 and
-1), "small" (spread, divided by the root of `over`), "below N" (integers from 0), "integers" (-9 to 9, or 0 to 9),
"truth", "sorted".  Layouts: a list of movements that lead from what lies in memory, row by row, to the input (see
stored()).
"""
import math
import random

BIG_BYTES, BIG_FLOPS = 16e6, 1e9
TRIES = 3000
SIZE_OF = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "i32": 4, "i64": 8, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
FLOATS = ["f32"] * 10 + ["bf16"] * 6 + ["f16"] * 3 + ["f64"]
CLASSES = {}
OTHERS, APART = "all others", "attention, convolution, products"


class Refused(Exception):
    """These sizes do not fit: the next try is drawn."""


class Missing(Exception):
    """This side has no function for what a draw needs."""


class Kind:
    """A class of workloads.  draw(d) declares inputs, parameters and the output on a Draw; build(o, p, *inputs) makes
    the outputs, of which the first is the one that neighbours and gradients belong to."""
    name = ""
    group = OTHERS
    statistics = False  # of outputs only their mean, deviation and extremes are compared

    def checked(self, p, inputs, outputs):
        """What is compared, from NumPy arrays, where outputs themselves may rightly differ."""
        return outputs


def kind(name, **fields):
    def register(made):
        made.name = name
        for field, value in fields.items():
            setattr(made, field, value)
        CLASSES[name] = made()
        return made
    return register


def count(shape):
    return math.prod(shape)


def is_float(dtype):
    return dtype in ("f32", "bf16", "f16", "f64")


def prime_near(n):
    n = max(2, n)
    while any(n % i == 0 for i in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def stored(spec):
    """The shape in memory of an input."""
    shape = list(spec["shape"])
    for name, *a in reversed(spec["layout"]):
        if name == "permute":
            shape = [shape[a[0].index(i)] for i in range(len(shape))]
        elif name == "slice":  # axis, start, stop, step, size before
            shape[a[0]] = a[4]
        elif name == "expand":
            shape[a[0]] = 1
    return shape


class Draw:
    """Draws one workload of a class, of about `amount` (0 to 1, on the logarithmic scale between least and most)."""

    def __init__(self, rng, big, limits):
        self.rng, self.big, self.limits = rng, big, limits
        low, high = (BIG_BYTES / 8, limits["bytes"]) if big else (8, BIG_BYTES)
        self.wanted_bytes = self.log_uniform(low, max(high, low))
        low, high = (BIG_FLOPS, limits["flops"]) if big else (8, BIG_FLOPS)
        self.wanted_flops = self.log_uniform(low, max(high, low))
        self.inputs, self.p, self.out, self.wrt = [], {}, None, []
        self.flops, self.length, self.pre, self.post, self.tf32, self.rate = 0, 1, [], [], False, None
        self.dtype = "f32"

    # ---- numbers ----

    def log_uniform(self, low, high):
        return math.exp(self.rng.uniform(math.log(low), math.log(high)))

    def integer(self, low, high):
        return self.rng.randint(low, high)

    def chance(self, p):
        return self.rng.random() < p

    def choose(self, values):
        return self.rng.choice(values)

    def size(self, about):
        """A size of about that: round, prime, a power of 2 or beside one."""
        n = max(1, round(about))
        power = 1 << round(math.log2(n))
        n = self.choose([n, n, n, power, power, power, power + self.choose([-1, 1]), prime_near(n),
                         round(n, -2) if n > 150 else round(n, -1)])
        n = max(1, n)
        return min(n, self.limits["size"]) if self.limits["size"] else n

    def log_size(self, low, high):
        return self.size(self.log_uniform(low, high))

    def sizes(self, total, n):
        """n sizes whose product is about total."""
        shares = [self.rng.expovariate(1) + 0.05 for _ in range(n)]
        return [self.size(total ** (s / sum(shares))) for s in shares]

    def elements(self, arrays=2):
        """How many elements each of so many arrays has, of the dtype."""
        return max(1, self.wanted_bytes / arrays / SIZE_OF[self.dtype])

    def shape(self, low, high, arrays=2):
        shape = self.sizes(self.elements(arrays), self.integer(low, high))
        if len(shape) > 1 and self.chance(0.1):
            shape[self.integer(0, len(shape) - 1)] = 1
        return shape

    def axis(self, shape):
        return self.integer(0, len(shape) - 1)

    def axes(self, shape):
        """A set of axes that is not empty, in order."""
        n = self.integer(1, len(shape))
        return sorted(self.rng.sample(range(len(shape)), n))

    # ---- declarations ----

    def floats(self):
        self.dtype = self.choose(FLOATS)
        return self.dtype

    def input(self, shape, dtype=None, values="spread", layout=True, over=1):
        spec = {"shape": list(shape), "dtype": dtype or self.dtype, "values": values, "layout": []}
        if over != 1:
            spec["over"] = over
        if layout and shape and self.chance(0.2):
            spec["layout"] = self.layout(shape)
        self.inputs.append(spec)
        return len(self.inputs) - 1

    def layout(self, shape):
        rank, how = len(shape), self.choose(["permute", "slice", "slice", "step", "expand"])
        axis = self.integer(0, rank - 1)
        if how == "permute" and rank > 1:
            order = list(range(rank))
            self.rng.shuffle(order)
            return [["permute", order]] if order != sorted(order) else []
        if how == "slice":
            start = self.integer(0, 3)
            stop = start + shape[axis]
            return [["slice", axis, start, stop, 1, stop + self.integer(0, 5)]]
        if how == "step":
            return [["slice", axis, 0, 2 * shape[axis], 2, 2 * shape[axis]]]
        if how == "expand" and rank > 1:
            return [["expand", axis, shape[axis]]]
        return []

    def let(self, **p):
        self.p.update(p)

    def output(self, shape, dtype=None, flops=0, length=1):
        """After all inputs.  flops: multiplications and additions; length: how many numbers an element adds up."""
        self.own = len(self.inputs)
        self.out, self.flops, self.length = list(shape), flops, max(1, length)
        self.out_dtype = dtype or self.dtype

    def gradients(self, *wrt, p=0.35):
        """Sometimes gradients are wanted with respect to these inputs."""
        if is_float(self.dtype) and self.chance(p):
            self.wrt = list(wrt)

    def neighbours(self, pre=True, post=True):
        """Elementwise functions before the first input and behind the output, fused or not."""
        if pre and is_float(self.dtype) and self.inputs[0]["shape"]:
            self.pre = self.chain(self.inputs[0]["shape"], self.dtype, 0.3, ["scale", "bias", "gelu", "relu", "tanh"])
            if self.chance(0.1) and self.dtype != "f64":  # stored in another dtype
                self.inputs[0]["dtype"] = self.choose([t for t in ("f32", "bf16", "f16") if t != self.dtype])
                self.pre.insert(0, ["cast", self.dtype])
        if post and is_float(self.out_dtype):
            self.post = self.chain(self.out, self.out_dtype, 0.35,
                                   ["scale", "bias", "gelu_tanh", "relu", "residual", "silu"])
            if self.chance(0.1) and self.out_dtype != "f64":
                self.out_dtype = self.choose([t for t in ("f32", "bf16", "f16") if t != self.out_dtype])
                self.post.append(["cast", self.out_dtype])

    def chain(self, shape, dtype, p, names):
        steps = []
        while len(steps) < 3 and self.chance(p):
            name = self.choose(names)
            if name == "bias" and shape:
                steps.append(["bias", self.input(shape[-1:], dtype, layout=False)])
            elif name == "residual":
                steps.append(["residual", self.input(shape, dtype)])
            elif name != "bias":
                steps.append([name])
        return steps

    def products(self):
        """Of f32 by tf32, sometimes."""
        self.tf32 = self.dtype == "f32" and self.chance(0.3)

    # ---- the whole ----

    def finished(self):
        if self.wrt and self.out and not self.rate:  # what the output is multiplied with before its sum
            self.input(self.out, self.out_dtype, layout=False)
        moved = sum(count(i["shape"]) * SIZE_OF[i["dtype"]] for i in self.inputs)
        moved += count(self.out) * SIZE_OF[self.out_dtype]
        moved += sum(count(self.inputs[i]["shape"]) * SIZE_OF[self.inputs[i]["dtype"]] for i in self.wrt)
        held = moved + sum(count(stored(i)) * SIZE_OF[i["dtype"]] for i in self.inputs if i["layout"])
        flops = self.flops * (3 if self.wrt else 1)
        if held > self.limits["bytes"] or flops > self.limits["flops"] or any(n < 1 for n in self.out):
            raise Refused
        if (moved > BIG_BYTES or flops > BIG_FLOPS) != self.big and not self.limits["size"]:
            raise Refused
        return {"inputs": self.inputs, "own": self.own, "p": self.p, "out": self.out, "dtype": self.dtype,
                "flops": flops, "length": self.length, "pre": self.pre, "post": self.post, "wrt": self.wrt,
                "tf32": self.tf32, "rate": self.rate, "bytes": moved}


def class_of(seed, number):
    """Classes come equally often: each in every round, in an order of its own."""
    names = sorted(CLASSES)
    random.Random(f"{seed}/round/{number // len(names)}").shuffle(names)
    return names[number % len(names)]


def draw(seed, number, limits):
    """Number `number` of the draws of a seed."""
    rng, name = random.Random(f"{seed}/{number}"), class_of(seed, number)
    big = rng.random() < 0.5 and not limits["size"]
    for _ in range(TRIES):
        d = Draw(rng, big, limits)
        try:
            CLASSES[name].draw(d)
            return {"class": name, "seed": seed, "draw": number, **d.finished()}
        except Refused:
            continue
    raise RuntimeError(f"draw {number} of {name}: no sizes fit")


def in_words(d):
    """A draw as one line."""
    def one(spec):
        how = " ".join(f"{name}{a}".replace(" ", "") for name, *a in spec["layout"])
        values = "" if spec["values"] in ("spread", "small") else f" {spec['values']}"
        return f"{spec['dtype']}[{','.join(map(str, spec['shape']))}]{values}{' ' + how if how else ''}"

    words = [d["class"], " ".join(f"{k}={v}".replace(" ", "") for k, v in d["p"].items()),
             ", ".join(map(one, d["inputs"]))]
    for part in ("pre", "post"):
        if d[part]:
            words.append(part + "=" + ",".join(":".join(map(str, s)) for s in d[part]))
    if d["wrt"]:
        words.append(f"gradients of {','.join(map(str, d['wrt']))}")
    if d["tf32"]:
        words.append("tf32")
    return "  ".join(w for w in words if w)


# ---- what all classes have around them, on a set of operators o ----

def view(o, x, layout):
    """An input from what lies in memory."""
    for name, *a in layout:
        if name == "permute":
            x = o.permute(x, a[0])
        elif name == "slice":
            x = o.slice(x, *a[:4])
        elif name == "expand":
            shape = list(o.shape(x))
            shape[a[0]] = a[1]
            x = o.expand(x, shape)
    return x


STEPS = {"scale": lambda o, x: o.map("mul", x, 0.5), "bias": lambda o, x, b: o.map("add", x, b),
         "residual": lambda o, x, r: o.map("add", x, r)}


def apply(o, steps, x, inputs):
    for name, *a in steps:
        if name == "cast":
            x = o.cast(x, a[0])
        elif name in STEPS:
            x = STEPS[name](o, x, *(inputs[i] for i in a))
        else:
            x = o.map(name, x)
    return x


def forward(o, d):
    """The function of all inputs that a draw stands for: a list of outputs."""
    made, pre, post, p, own = CLASSES[d["class"]], d["pre"], d["post"], d["p"], d["own"]

    def outputs(*inputs):
        given = list(inputs[:own])
        if pre:
            given[0] = apply(o, pre, given[0], inputs)
        result = made.build(o, p, *given)
        result = list(result) if isinstance(result, (list, tuple)) else [result]
        result[0] = apply(o, post, result[0], inputs)
        return result

    return outputs
