"""JAX's operators for draws."""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from classes import normal
from draws import forward, view

DTYPES = {"f32": jnp.float32, "f64": jnp.float64, "f16": jnp.float16, "bf16": jnp.bfloat16, "i32": jnp.int32,
          "i64": jnp.int64, "i16": jnp.int16, "i8": jnp.int8, "u8": jnp.uint8, "bool": jnp.bool_}
NAMES = {np.dtype(t).name: name for name, t in DTYPES.items()}
FUNCTIONS = {"gelu": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": jax.nn.gelu, "silu": jax.nn.silu,
             "elu": jax.nn.elu, "softplus": jax.nn.softplus, "relu": jax.nn.relu, "sigmoid": jax.nn.sigmoid,
             "recip": jnp.reciprocal, "rsqrt": lax.rsqrt, "erf": lax.erf, "neg": jnp.negative, "add": jnp.add,
             "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "gt": jnp.greater, "asinh": jnp.arcsinh,
             "atan": jnp.arctan, "atan2": jnp.arctan2}
EPS = 1e-5


class Operators:
    key = None  # of random numbers: an argument of the program

    def shape(self, x):
        return list(x.shape)

    def map(self, name, *a):
        return (FUNCTIONS.get(name) or getattr(jnp, name))(*a)

    def where(self, condition, a, b):
        return jnp.where(condition, a, b)

    def cast(self, x, dtype):
        return x.astype(DTYPES[dtype])

    def reduce(self, name, x, axes, keep):
        if name == "logsumexp":
            return jax.nn.logsumexp(x, tuple(axes), keepdims=keep)
        extra = {"ddof": 1} if name in ("var", "std") else {}
        return getattr(jnp, name)(x, tuple(axes), keepdims=keep, **extra)

    def argmax(self, x, axis, keep):
        return jnp.argmax(x, axis, keepdims=keep)

    def argmin(self, x, axis, keep):
        return jnp.argmin(x, axis, keepdims=keep)

    def softmax(self, x, axis):
        return jax.nn.softmax(x, axis)

    def log_softmax(self, x, axis):
        return jax.nn.log_softmax(x, axis)

    def wide(self, x):
        return x.astype(jnp.float32) if x.dtype in (jnp.bfloat16, jnp.float16) else x

    def layer_norm(self, x, n, gamma=None, beta=None):
        return normal(self, self.wide(x), list(range(-n, 0)), gamma, beta).astype(x.dtype)

    def rms_norm(self, x, n, gamma=None):
        w = self.wide(x)
        y = w * lax.rsqrt((w * w).mean(tuple(range(-n, 0)), keepdims=True) + EPS)
        return (y if gamma is None else y * gamma).astype(x.dtype)

    def batch_norm(self, x, gamma=None, beta=None):
        return normal(self, self.wide(x), [i for i in range(x.ndim) if i != 1], gamma, beta).astype(x.dtype)

    def group_norm(self, x, groups, gamma=None, beta=None):
        y = normal(self, self.wide(x).reshape(x.shape[0], groups, -1), [2]).reshape(x.shape)
        return (y if gamma is None else y * gamma + beta).astype(x.dtype)

    def cross_entropy(self, logits, labels):
        losses = jax.nn.log_softmax(self.wide(logits), 1)
        return -jnp.take_along_axis(losses, labels[:, None], 1).mean().astype(logits.dtype)

    def cumsum(self, x, axis):
        return jnp.cumsum(x, axis)

    def cumprod(self, x, axis):
        return jnp.cumprod(x, axis)

    def sort(self, x, axis, down):
        return jnp.sort(x, axis, descending=down)

    def argsort(self, x, axis, down):
        return jnp.argsort(x, axis, descending=down)

    def topk(self, x, k, axis, down):
        moved = jnp.moveaxis(x, axis, -1)
        found, places = lax.top_k(moved if down else -moved, k)
        return [jnp.moveaxis(found if down else -found, -1, axis), jnp.moveaxis(places, -1, axis)]

    def bincount(self, x, classes):
        return jnp.bincount(x, length=classes)

    def searchsorted(self, x, values, right):
        return jnp.searchsorted(x, values, side="right" if right else "left", method="scan_unrolled")

    def unique(self, x, most, more):
        if not more:
            return [jnp.unique(x, size=most, fill_value=0)]
        return list(jnp.unique(x, size=most, fill_value=0, return_inverse=True, return_counts=True))

    def nonzero(self, x, most):
        return jnp.stack(jnp.nonzero(x, size=most, fill_value=-1), 1)

    def permute(self, x, order):
        return jnp.transpose(x, order)

    def transpose(self, x, a, b):
        return jnp.swapaxes(x, a, b)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def expand(self, x, shape):
        return jnp.broadcast_to(x, shape)

    def contiguous(self, x):
        return x

    def slice(self, x, axis, start, stop, step):
        return lax.slice_in_dim(x, start, stop, step, axis)

    def flip(self, x, axes):
        return jnp.flip(x, axes)

    def pad(self, x, around, value):
        return jnp.pad(x, around, constant_values=value)

    def roll(self, x, way, axis):
        return jnp.roll(x, way, axis)

    def concatenate(self, x, axis):
        return jnp.concatenate(x, axis)

    def stack(self, x, axis):
        return jnp.stack(x, axis)

    def take(self, x, places, axis):
        return jnp.take(x, places, axis, mode="clip")

    def take_along(self, x, places, axis):
        return jnp.take_along_axis(x, places, axis, mode="clip")

    def scatter_add(self, base, axis, places, updates):
        grid = list(jnp.ogrid[tuple(slice(n) for n in places.shape)]) if places.ndim > 1 else [places]
        grid[axis] = places
        return base.at[tuple(grid)].add(updates)

    def index_add(self, base, axis, places, updates):
        return base.at[(*[slice(None)] * axis, places)].add(updates)

    def pool(self, x, name, window, stride, padding):
        outside = [(0, 0), (0, 0)] + [(n, n) for n in padding]
        start, function = (-jnp.inf, lax.max) if name == "max" else (0, lax.add)
        total = lax.reduce_window(self.wide(x) if name == "avg" else x, np.array(start, x.dtype) if name == "max" else
                                  0.0, function, (1, 1, *window), (1, 1, *stride), outside)
        return total if name == "max" else (total / np.prod(window)).astype(x.dtype)

    def conv(self, x, w, b, stride, padding, dilation, groups):
        y = lax.conv_general_dilated(x, w, stride, [(n, n) for n in padding], rhs_dilation=dilation,
                                     feature_group_count=groups)
        return y if b is None else y + b.reshape(-1, *[1] * len(stride))

    def conv_transpose(self, x, w, b, stride, padding, dilation, groups):
        n = len(stride)
        w = jnp.flip(w, range(2, 2 + n)).reshape(groups, w.shape[0] // groups, *w.shape[1:])
        w = jnp.swapaxes(w, 1, 2).reshape(-1, w.shape[1], *w.shape[3:])
        outside = [t * (k - 1) - q for k, q, t in zip(w.shape[2:], padding, dilation)]
        y = lax.conv_general_dilated(x, w, [1] * n, [(q, q) for q in outside], lhs_dilation=stride,
                                     rhs_dilation=dilation, feature_group_count=groups)
        return y if b is None else y + b.reshape(-1, *[1] * n)

    def matmul(self, a, b):
        return jnp.matmul(a, b)

    def linear(self, x, w, b):
        y = x @ w.T
        return y if b is None else y + b

    def einsum(self, spec, *x):
        return jnp.einsum(spec, *x)

    def attention(self, q, k, v, mask, causal, shared):
        if mask is not None:
            mask = mask.reshape((1, 1) + mask.shape) if mask.ndim == 2 else mask
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, mask, is_causal=causal).swapaxes(1, 2)

    def cdist(self, a, b, power):
        apart = a[..., :, None, :] - b[..., None, :, :]
        return jnp.abs(apart).sum(-1) if power == 1 else jnp.sqrt((apart * apart).sum(-1))

    def random(self, name, shape, dtype):
        if name == "bernoulli":
            return jax.random.bernoulli(self.key, 0.3, shape)
        return getattr(jax.random, name)(self.key, shape, DTYPES[dtype])

    def dropout(self, x, p):
        kept = jax.random.bernoulli(self.key, 1 - p, x.shape)
        return jnp.where(kept, x / np.array(1 - p, x.dtype), 0)


class Side:
    def __init__(self, options):
        if options.cache:
            jax.config.update("jax_compilation_cache_dir", os.path.join(options.cache, "jax"))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        self.on_gpu = options.device != "cpu"
        jax.block_until_ready(jnp.zeros(1))
        self.version = f"jax {jax.__version__} on {jax.devices()[0].device_kind}"

    def forget(self):
        jax.clear_caches()

    def bind(self, d, variant, operands):
        # 64 bits where results have them; elsewhere i32 is how JAX holds indices.
        wide = {"f64", "i64"} & {d["dtype"]} or any(s["dtype"] == "f64" for s in d["inputs"])
        jax.config.update("jax_enable_x64", bool(wide))
        exact = d["dtype"] in ("f32", "f64") or any(s["dtype"] == "f32" for s in d["inputs"])
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if d["tf32"] else "highest" if exact else
                          "default")
        o = Operators()
        function = forward(o, d)
        given = [jnp.asarray(a.view(jnp.bfloat16) if s["dtype"] == "bf16" else a)
                 for s, a in zip(d["inputs"], operands)]

        def whole(key, *stored):
            o.key = key
            inputs = [view(o, x, s["layout"]) for s, x in zip(d["inputs"], stored)]
            if not d["wrt"]:
                return function(*inputs)

            def of(*wrt):
                for i, x in zip(d["wrt"], wrt):
                    inputs[i] = x
                made = function(*inputs)
                return made[0], made[1:]

            wrt = [inputs[i] for i in d["wrt"]]
            first, back, others = jax.vjp(of, *wrt, has_aux=True)
            cotangent = inputs[-1] if d["out"] and not d["rate"] else jnp.ones((), first.dtype)
            made = back(cotangent.astype(first.dtype))
            if d["rate"]:
                made = [w - d["rate"] * g for w, g in zip(wrt, made)]
            return [first, *others, *made]

        compiled = jax.jit(whole).lower(jax.random.key(7), *given).compile()
        key = jax.random.key(7)

        def results():
            for t in compiled(key, *given):
                dtype = NAMES[t.dtype.name]
                yield np.asarray(t.astype(jnp.float32) if dtype == "bf16" else t), dtype

        return lambda: compiled(key, *given), jax.block_until_ready, results, {}
