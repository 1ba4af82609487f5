"""Whether two runners computed the same, by the summaries of their outputs."""
import math

EPSILON = {"f32": 2.0**-23, "tf32": 2.0**-10, "f64": 2.0**-52, "f16": 2.0**-10, "bf16": 2.0**-7}
STEP = {"f16": 2.0**-24}  # between subnormal numbers: each rounding may be a half of it off, however small they are
ROUNDINGS = 8   # of the coarsest dtype, between input and output
CHANCE = 8      # deviations that a sum of random signs, or a mean of random numbers, may be off
CANCEL = {"gelu", "gelu_tanh", "silu"}  # small differences of numbers of size 1, where they are small


def tolerance(draw, dtype):
    """The error that an output may have, relative to its size."""
    if dtype not in EPSILON:
        return 0
    dtypes = [dtype, draw["dtype"], *(s["dtype"] for s in draw["inputs"]), *(["tf32"] if draw["tf32"] else [])]
    dtypes += [a for name, *a in draw["pre"] + draw["post"] if name == "cast" for a in a]
    sums = max([draw["length"]] + ([math.prod(draw["out"])] if draw["wrt"] else []))
    adding = EPSILON["f64" if draw["dtype"] == "f64" else "f32"]
    return ROUNDINGS * max(EPSILON[t] for t in dtypes if t in EPSILON) + adding * math.sqrt(sums)


def close(a, b, room):
    return a == b if isinstance(a, str) or isinstance(b, str) else abs(a - b) <= room


def apart(draw, statistics, ours, theirs):
    """Why the outputs differ; None: they do not."""
    if len(ours) != len(theirs):
        return f"{len(ours)} outputs, not {len(theirs)}"
    cancels = draw["class"] == "elementwise" or any(name in CANCEL for name, *_ in draw["post"])
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a["shape"] != b["shape"]:
            return f"output {i} has shape {a['shape']}, not {b['shape']}"
        if a["dtype"] != b["dtype"] and {a["dtype"], b["dtype"]} & set(EPSILON):
            return f"output {i} is {a['dtype']}, not {b['dtype']}"
        n, error = max(math.prod(a["shape"]), 1), tolerance(draw, a["dtype"])
        scale = max(b["rms"], 1) if cancels else b["rms"]
        step = 2 * STEP.get(a["dtype"], 0)
        if statistics:
            error += CHANCE / math.sqrt(n)
        rooms = {"size": error * scale, "rms": error * scale}
        for what, room in rooms.items():
            if not close(a[what], b[what], room):
                return f"output {i}: {what} {a[what]:.6g}, not {b[what]:.6g}"
        if statistics:
            continue
        if a["strange"] != b["strange"]:
            return f"output {i}: {a['strange']} NaN or infinite, not {b['strange']}"
        for x, y in zip(a["some"], b["some"]):
            if not close(x, y, 0 if isinstance(y, str) else error * (abs(y) + scale) + step):
                return f"output {i}: an element is {x}, not {y}"
        for x, y in zip(a["sums"], b["sums"]):
            if not close(x, y, (CHANCE * error * scale + step) * math.sqrt(n)):
                return f"output {i}: a signed sum is {x:.6g}, not {y:.6g}"
    return None
