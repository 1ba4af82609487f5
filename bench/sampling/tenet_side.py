"""Tenet by its public C functions: operators for draws, and programs that run them.

Prototypes are read from the public headers.  What Tenet has no function for is composed of what it has; where that is
impossible the draw has failed, and says which function is missing.
"""
import ctypes
import glob
import os
import re
import time

import numpy as np

from classes import normal
from draws import Missing, forward, stored, view
from numbers_of import NUMPY, widened

DTYPES = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
SIMPLE = {"int": ctypes.c_int, "double": ctypes.c_double, "bool": ctypes.c_bool, "int64_t": ctypes.c_int64,
          "tn_dim": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t, "void": None,
          "tn_dtype": ctypes.c_int, "tn_status": ctypes.c_int, "tn_mode": ctypes.c_int}
EPS = 1e-5
MOST_POOLED = 4 << 30  # bytes that a context may keep for later, on a device that peers use, too


class Failed(Exception):
    """Tenet's error."""


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char_p), ("op", ctypes.c_char_p)]


class Info(ctypes.Structure):
    _fields_ = [("kernels", ctypes.c_int), ("library_calls", ctypes.c_int), ("intermediate", ctypes.c_size_t),
                ("arena", ctypes.c_size_t)]


class Stats(ctypes.Structure):
    _fields_ = [(f"count{i}", ctypes.c_uint64) for i in range(8)] + [
        (n, ctypes.c_size_t) for n in ("heap", "peak", "buffers", "pool")]


def type_of(text):
    """The ctypes type of a C type, with or without a name behind it."""
    words = re.sub(r"\bconst\b|\[\]", " ", text).replace("*", " * ").split()
    if "*" in words or "[]" in text:  # what is not const is to be given back, so not made a Python string
        given = words[0] == "char" and words.count("*") == 1 and "const" in text
        return ctypes.c_char_p if given else ctypes.c_void_p
    return SIMPLE.get(words[0], ctypes.c_void_p)


def prototypes(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "tenet", "*.h")):
        with open(path) as f:
            text = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
        for result, name, arguments in re.findall(r"TN_API ([\w\s*]+?)(\btn_\w+)\(([^()]*)\);", text):
            found[name] = type_of(result), [type_of(a) for a in arguments.split(",") if a.strip() != "void"]
    return found


class Library:
    def __init__(self, path, headers):
        self.c, self.types, self.known = ctypes.CDLL(path), prototypes(headers), {}

    def __getattr__(self, name):
        if name not in self.known:
            if name not in self.types or not hasattr(self.c, name):
                raise Missing(f"no {name}")
            f = getattr(self.c, name)
            f.restype, f.argtypes = self.types[name]
            self.known[name] = f
        return self.known[name]


def ints(values):
    return (ctypes.c_int * len(values))(*values)


def dims(values):
    return (ctypes.c_int64 * len(values))(*values)


class Conv2d(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64 * 2) for n in ("stride", "padding", "dilation")] + [("groups", ctypes.c_int64)]


class Handle:
    """A tn_tensor."""

    def __init__(self, pointer):
        self._as_parameter_ = pointer


class Operators:
    """The operators of classes.py on handles of one context."""

    def __init__(self, library, ctx):
        self.c, self.ctx = library, ctx

    def call(self, name, *a):
        return self.made(getattr(self.c, name)(*a))

    def made(self, pointer):
        return Handle(pointer or self.fail())

    def fail(self):
        error = ctypes.cast(self.c.tn_last_error(self.ctx), ctypes.POINTER(Error)).contents
        raise Failed((error.text or b"failed without an error").decode())

    def good(self, status):
        return self.fail() if status else None

    def shape(self, t):
        out = dims([0] * self.c.tn_rank(t))
        self.c.tn_shape(t, out)
        return list(out)

    def dtype(self, t):
        return DTYPES[self.c.tn_dtype_of(t)]

    # ---- elements ----

    def map(self, name, *a):
        if name == "elu":
            return self.call("tn_elu", a[0], 1.0)
        if len(a) == 2 and not isinstance(a[1], Handle):
            return self.call(f"tn_{name}_scalar", a[0], float(a[1]))
        return self.call(f"tn_{name}", *a)

    def where(self, condition, a, b):
        return self.call("tn_where", condition, a, b)

    def cast(self, x, dtype):
        return self.call("tn_cast", x, DTYPES.index(dtype))

    # ---- reductions ----

    def reduce(self, name, x, axes, keep):
        correction = [1.0] if name in ("var", "std") else []
        return self.call(f"tn_{name}", x, ints(axes), len(axes), *correction, keep)

    def argmax(self, x, axis, keep):
        return self.call("tn_argmax", x, axis, keep)

    def argmin(self, x, axis, keep):
        return self.call("tn_argmin", x, axis, keep)

    def softmax(self, x, axis):
        return self.call("tn_softmax", x, axis)

    def log_softmax(self, x, axis):
        return self.call("tn_log_softmax", x, axis)

    def layer_norm(self, x, n, gamma=None, beta=None):
        return self.call("tn_layer_norm", x, n, gamma, beta, EPS)

    def rms_norm(self, x, n, gamma=None):
        return self.call("tn_rms_norm", x, n, gamma, EPS)

    def batch_norm(self, x, gamma=None, beta=None):
        return normal(self, x, [i for i in range(len(self.shape(x))) if i != 1], gamma, beta)

    def group_norm(self, x, groups, gamma=None, beta=None):
        shape = self.shape(x)
        parts = self.reshape(x, [shape[0], groups, -1])
        y = self.reshape(normal(self, parts, [2]), shape)
        return y if gamma is None else self.map("add", self.map("mul", y, gamma), beta)

    def cross_entropy(self, logits, labels):
        return self.call("tn_cross_entropy", logits, labels)

    # ---- scans, sorts, searches ----

    def cumsum(self, x, axis):
        return self.call("tn_cumsum", x, axis)

    def cumprod(self, x, axis):
        return self.call("tn_cumprod", x, axis)

    def sort(self, x, axis, down):
        return self.call("tn_sort", x, axis, down)

    def argsort(self, x, axis, down):
        return self.call("tn_argsort", x, axis, down)

    def topk(self, x, k, axis, down):
        both = ctypes.c_void_p(), ctypes.c_void_p()
        self.good(self.c.tn_topk(x, k, axis, down, *map(ctypes.byref, both)))
        return [self.made(t.value) for t in both]

    def bincount(self, x, classes):
        return self.call("tn_bincount", x, classes)

    def searchsorted(self, x, values, right):
        return self.call("tn_searchsorted", x, values, right)

    def unique(self, x, most, more):
        """The values; with which of them each element is, and how often each is there."""
        out = [ctypes.c_void_p() for _ in range(3 if more else 1)]
        values, *others = map(ctypes.byref, out)
        self.good(self.c.tn_unique(x, most, 0.0, values, None, *(others or [None, None])))
        return [self.made(t.value) for t in out]

    def nonzero(self, x, most):
        places = ctypes.c_void_p()
        self.good(self.c.tn_nonzero(x, most, -1, ctypes.byref(places), None))
        return self.made(places.value)

    # ---- movements ----

    def permute(self, x, order):
        return self.call("tn_permute", x, ints(order), len(order))

    def transpose(self, x, a, b):
        return self.call("tn_transpose", x, a, b)

    def reshape(self, x, shape):
        return self.call("tn_reshape", x, dims(shape), len(shape))

    def expand(self, x, shape):
        return self.call("tn_expand", x, dims(shape), len(shape))

    def contiguous(self, x):
        return self.call("tn_contiguous", x)  # outputs need not be

    def slice(self, x, axis, start, stop, step):
        return self.call("tn_slice", x, axis, start, stop, step)

    def flip(self, x, axes):
        """Into memory of its own, as peers flip."""
        return self.contiguous(self.call("tn_flip", x, ints(axes), len(axes)))

    def pad(self, x, around, value):
        return self.call("tn_pad", x, dims([n for pair in around for n in pair]), float(value))

    def roll(self, x, way, axis):
        n = self.shape(x)[axis]
        parts = [self.slice(x, axis, n - way % n, n, 1), self.slice(x, axis, 0, n - way % n, 1)]
        return self.concatenate(parts, axis)

    def handles(self, x):
        return (ctypes.c_void_p * len(x))(*(t._as_parameter_ for t in x))

    def concatenate(self, x, axis):
        return self.call("tn_concatenate", self.handles(x), len(x), axis)

    def stack(self, x, axis):
        return self.call("tn_stack", self.handles(x), len(x), axis)

    def take(self, x, places, axis):
        return self.call("tn_take", x, places, axis)

    def take_along(self, x, places, axis):
        return self.call("tn_take_along_axis", x, places, axis)

    def scatter_add(self, base, axis, places, updates):
        return self.call("tn_scatter_add", base, axis, places, updates)

    def index_add(self, base, axis, places, updates):
        return self.call("tn_index_add", base, axis, places, updates)

    # ---- windows ----

    def flat_window(self, n, *lists):
        """Windows of one axis as those of two, the first of size 1."""
        return [[fill] * (2 - n) + values for fill, values in lists]

    def unfold_first(self, x, window, stride, padding, dilation, fill):
        """Depth by windows: [N, C, D, ...] becomes [N, places, C, window, ...]."""
        around = [[0, 0], [0, 0], [padding, padding]] + [[0, 0]] * (len(self.shape(x)) - 3)
        x = self.pad(x, around, fill)
        parts = self.call("tn_unfold", x, 2, window, stride, dilation)
        return self.permute(parts, [0, 2, 1, *range(3, len(self.shape(parts)))])

    def pool(self, x, name, window, stride, padding):
        shape, n = self.shape(x), len(window)
        if n == 3:  # the depth's windows apart
            fill = -float("inf") if name == "max" else 0
            parts = self.unfold_first(x, window[0], stride[0], padding[0], 1, fill)
            x = self.reduce("max" if name == "max" else "mean", parts, [3], False)
            places = self.shape(x)
            flat = self.reshape(x, [places[0] * places[1], places[2], *places[3:]])
            flat = self.pool(flat, name, window[1:], stride[1:], padding[1:])
            return self.permute(self.reshape(flat, [*places[:2], *self.shape(flat)[1:]]), [0, 2, 1, 3, 4])
        window, stride, padding = self.flat_window(n, (1, window), (1, stride), (0, padding))
        options = Conv2d((ctypes.c_int64 * 2)(*stride), (ctypes.c_int64 * 2)(*padding), (ctypes.c_int64 * 2)(1, 1))
        if n == 1:
            x = self.reshape(x, [*shape[:2], 1, shape[2]])
        y = self.call(f"tn_{name}_pool2d", x, *window, ctypes.byref(options))
        return self.reshape(y, [*shape[:2], self.shape(y)[3]]) if n == 1 else y

    def conv(self, x, w, b, stride, padding, dilation, groups):
        shape, weights, n = self.shape(x), self.shape(w), len(stride)
        if n == 3:  # the depth's windows are channels
            parts = self.unfold_first(x, weights[2], stride[0], padding[0], dilation[0], 0)
            places = self.shape(parts)
            parts = self.reshape(parts, [places[0] * places[1], places[2] * places[3], *places[4:]])
            w = self.reshape(w, [weights[0], weights[1] * weights[2], *weights[3:]])
            y = self.conv(parts, w, b, stride[1:], padding[1:], dilation[1:], groups)
            return self.permute(self.reshape(y, [*places[:2], *self.shape(y)[1:]]), [0, 2, 1, 3, 4])
        if n == 1:
            x, w = self.reshape(x, [*shape[:2], 1, shape[2]]), self.reshape(w, [*weights[:2], 1, weights[2]])
        lists = self.flat_window(n, (1, stride), (0, padding), (1, dilation))
        options = Conv2d(*((ctypes.c_int64 * 2)(*v) for v in lists), groups)
        y = self.call("tn_conv2d", x, w, b, ctypes.byref(options))
        made = self.shape(y)
        return self.reshape(y, [made[0], made[1], made[3]]) if n == 1 else y

    def conv_transpose(self, x, w, b, stride, padding, dilation, groups):
        """The convolution of x with zeros between its elements, by the weights turned round."""
        weights = self.shape(w)
        for axis, step in enumerate(stride, 2):
            if step > 1:
                shape = self.shape(x)
                x = self.reshape(x, [*shape[:axis + 1], 1, *shape[axis + 1:]])
                x = self.pad(x, [[0, step - 1] if i == axis + 1 else [0, 0] for i in range(len(shape) + 1)], 0)
                x = self.reshape(x, [*shape[:axis], shape[axis] * step, *shape[axis + 1:]])
                x = self.slice(x, axis, 0, shape[axis] * step - step + 1, 1)
        w = self.call("tn_flip", w, ints(range(2, len(weights))), len(weights) - 2)
        w = self.reshape(w, [groups, weights[0] // groups, *weights[1:]])
        w = self.reshape(self.transpose(w, 1, 2), [groups * weights[1], weights[0] // groups, *weights[2:]])
        outside = [t * (n - 1) - q for n, q, t in zip(weights[2:], padding, dilation)]
        return self.conv(x, w, b, [1] * len(stride), outside, dilation, groups)

    # ---- products ----

    def matmul(self, a, b):
        return self.call("tn_matmul", a, b)

    def linear(self, x, w, b):
        return self.call("tn_linear", x, w, b)

    def einsum(self, spec, *x):
        return self.call("tn_einsum", spec.encode(), self.handles(x), len(x))

    def attention(self, q, k, v, mask, causal, shared):
        batch, heads, queries, size = self.shape(q)
        keys = self.shape(k)[2]
        if shared > 1:
            q = self.reshape(q, [batch, heads // shared, shared * queries, size])
        scores = self.map("mul", self.matmul(q, self.transpose(k, 2, 3)), size ** -0.5)
        scores = self.reshape(scores, [batch, heads, queries, keys])
        if mask is not None:
            scores = self.map("add", scores, mask)
        if causal:
            ones = self.call("tn_full", self.ctx, DTYPES.index("bool"), dims([queries, keys]), 2, 1.0)
            scores = self.call("tn_where_scalar", self.call("tn_tril", ones, 0), scores, -float("inf"))
        weights = self.softmax(scores, 3)
        if shared > 1:
            weights = self.reshape(weights, [batch, heads // shared, shared * queries, keys])
        return self.reshape(self.matmul(weights, v), [batch, heads, queries, size])

    def cdist(self, a, b, power):
        apart = self.map("sub", self.call("tn_unsqueeze", a, -2), self.call("tn_unsqueeze", b, -3))
        if power == 1:
            return self.reduce("sum", self.map("abs", apart), [-1], False)
        return self.map("sqrt", self.reduce("sum", self.map("square", apart), [-1], False))

    # ---- random numbers ----

    def random(self, name, shape, dtype):
        a = [self.ctx] + ([] if name == "bernoulli" else [DTYPES.index(dtype)]) + [dims(shape), len(shape)]
        return self.call(f"tn_{name}", *a, *([0.3] if name == "bernoulli" else [0.0, 1.0]))

    def dropout(self, x, p):
        return self.call("tn_dropout", x, p, True)

    # ---- gradients ----

    def gradients(self, y, wrt, cotangent):
        """Of the sum of y times the cotangent; of y itself, where it is a loss."""
        loss = y
        if cotangent is not None:
            wide = "f64" if self.dtype(y) == "f64" else "f32"
            loss = self.map("mul", self.cast(y, wide), self.cast(cotangent, wide))
        if self.shape(loss):
            loss = self.reduce("sum", loss, list(range(len(self.shape(loss)))), False)
        out = (ctypes.c_void_p * len(wrt))()
        self.good(self.c.tn_grad(loss, len(wrt), self.handles(wrt), out))
        return [self.made(t) for t in out]


class Side:
    """Programs of draws.  A context for tf32 and one without are kept."""

    def __init__(self, options):
        self.c, self.device = Library(options.library, options.headers), options.device
        self.contexts, self.programs = {}, []
        self.context(False)
        self.version = f"Tenet {self.c.tn_version().decode()}"

    def context(self, tf32):
        if tf32 not in self.contexts:
            os.environ["TENET_TF32"] = "on" if tf32 else "off"
            os.environ["TENET_DEVICE"] = self.device
            ctx = self.c.tn_ctx_open_sized(None, 0)
            if not ctx:
                raise Failed(f"no context on {self.device}")
            self.contexts[tf32] = ctx
        return self.contexts[tf32]

    def forget(self):
        for program in self.programs:
            self.c.tn_program_close(program)
        self.programs = []
        for tf32, ctx in list(self.contexts.items()):
            while self.c.tn_scope_end(ctx) == 0:
                pass
            self.c.tn_clear_error(ctx)
            stats = Stats()
            self.c.tn_ctx_stats_sized(ctx, ctypes.byref(stats), ctypes.sizeof(stats))
            if stats.pool > MOST_POOLED:
                self.c.tn_ctx_close(self.contexts.pop(tf32))

    def bind(self, d, variant, operands):
        """A call that runs the draw, one that waits, one that gives the outputs, and what is to be told of it."""
        ctx = self.context(d["tf32"])
        o = Operators(self.c, ctx)
        self.c.tn_scope_begin(ctx)
        given = []
        for spec, array in zip(d["inputs"], operands):
            given.append(o.call("tn_from", ctx, DTYPES.index(spec["dtype"]), dims(array.shape), array.ndim,
                                array.ctypes.data))
        if given:
            o.good(self.c.tn_realize(o.handles(given), len(given)))
        o.good(self.c.tn_device_sync(ctx, None))
        start = time.perf_counter()
        program = self.c.tn_program_begin(ctx) or o.fail()
        self.programs.append(program)
        try:
            outputs = self.record(o, d, program)
        finally:
            ended = self.c.tn_program_end(program)
        o.good(ended)
        for i, t in enumerate(given):
            o.good(self.c.tn_program_bind(program, f"x{i}".encode(), t))
        o.good(self.c.tn_program_run(program))
        o.good(self.c.tn_device_sync(ctx, None))
        info = Info()
        self.c.tn_program_get_info(program, ctypes.byref(info))
        facts = {"compile_ms": (time.perf_counter() - start) * 1e3, "kernels": info.kernels + info.library_calls}
        run, sync = self.c.tn_program_run, self.c.tn_device_sync

        def wait(_):
            o.good(sync(ctx, None))

        def results():
            for i, (shape, dtype) in enumerate(outputs):
                array = np.empty(shape, NUMPY[dtype])
                o.good(self.c.tn_program_read(program, f"y{i}".encode(), array.ctypes.data, array.nbytes))
                yield widened(array, dtype), dtype

        return lambda: run(program), wait, results, facts

    def explain(self, d):
        """What Tenet says of the draw's program, compiled and not run: no memory is taken for what it reads."""
        ctx = self.context(d["tf32"])
        o = Operators(self.c, ctx)
        self.c.tn_scope_begin(ctx)
        program = self.c.tn_program_begin(ctx) or o.fail()
        self.programs.append(program)
        try:
            self.record(o, d, program)
        finally:
            ended = self.c.tn_program_end(program)
        o.good(ended)
        text = self.c.tn_program_explain_string(program) or o.fail()
        said = ctypes.string_at(text).decode()
        self.c.tn_string_free(text)
        return said

    def record(self, o, d, program):
        inputs = []
        for i, spec in enumerate(d["inputs"]):
            shape = stored(spec)
            x = o.call("tn_program_input", program, f"x{i}".encode(), DTYPES.index(spec["dtype"]), dims(shape),
                       len(shape))
            inputs.append(view(o, x, spec["layout"]))
        outputs = forward(o, d)(*inputs)
        if d["wrt"]:
            wrt = [inputs[i] for i in d["wrt"]]
            made = o.gradients(outputs[0], wrt, None if d["rate"] or not d["out"] else inputs[-1])
            if d["class"] == "flip":
                made = [o.contiguous(g) for g in made]  # peers flip these, too
            outputs += [o.map("sub", w, o.map("mul", g, d["rate"])) for w, g in zip(wrt, made)] if d["rate"] else made
        for i, t in enumerate(outputs):
            o.good(o.c.tn_program_output(program, f"y{i}".encode(), t))
        return [(o.shape(t), o.dtype(t)) for t in outputs]
