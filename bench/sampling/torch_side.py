"""PyTorch's operators for draws, by its own functions wherever it has one."""
import numpy as np
import torch
import torch.nn.functional as F

from draws import forward, view

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32,
          "i64": torch.int64, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FUNCTIONS = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "elu": F.elu,
             "softplus": F.softplus, "recip": torch.reciprocal,
             "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3)}
CONV, TURNED = (F.conv1d, F.conv2d, F.conv3d), (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
POOL = {"max": (F.max_pool1d, F.max_pool2d, F.max_pool3d), "avg": (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)}
EPS = 1e-5


class Operators:
    def __init__(self, device):
        self.device = device

    def shape(self, x):
        return list(x.shape)

    def map(self, name, x, *a):
        if name in FUNCTIONS:
            return FUNCTIONS[name](x)
        if a and name in ("maximum", "minimum", "hypot", "atan2") and not isinstance(a[0], torch.Tensor):
            return torch.clamp(x, **{"min" if name == "maximum" else "max": a[0]})
        return getattr(torch, name)(x, *a)

    def where(self, condition, a, b):
        return torch.where(condition, a, b)

    def cast(self, x, dtype):
        return x.to(DTYPES[dtype])

    def reduce(self, name, x, axes, keep):
        if name in ("max", "min"):
            return getattr(torch, "a" + name)(x, axes, keep)
        if name in ("var", "std"):
            return getattr(torch, name)(x, axes, correction=1, keepdim=keep)
        if name == "prod":
            for axis in sorted((a % x.dim() for a in axes), reverse=True):
                x = torch.prod(x, axis, keepdim=keep)
            return x
        return getattr(torch, name)(x, axes, keepdim=keep)

    def argmax(self, x, axis, keep):
        return torch.argmax(x, axis, keepdim=keep)

    def argmin(self, x, axis, keep):
        return torch.argmin(x, axis, keepdim=keep)

    def softmax(self, x, axis):
        return F.softmax(x, axis)

    def log_softmax(self, x, axis):
        return F.log_softmax(x, axis)

    def layer_norm(self, x, n, gamma=None, beta=None):
        return F.layer_norm(x, x.shape[-n:], gamma, beta, EPS)

    def rms_norm(self, x, n, gamma=None):
        return F.rms_norm(x, x.shape[-n:], gamma, EPS)

    def batch_norm(self, x, gamma=None, beta=None):
        weights = [None if w is None else w.reshape(-1) for w in (gamma, beta)]
        return F.batch_norm(x, None, None, *weights, True, 0.1, EPS)

    def group_norm(self, x, groups, gamma=None, beta=None):
        return F.group_norm(x, groups, *(None if w is None else w.reshape(-1) for w in (gamma, beta)), EPS)

    def cross_entropy(self, logits, labels):
        return F.cross_entropy(logits, labels)

    def cumsum(self, x, axis):
        return torch.cumsum(x, axis)

    def cumprod(self, x, axis):
        return torch.cumprod(x, axis)

    def sort(self, x, axis, down):
        return torch.sort(x, axis, descending=down)[0]

    def argsort(self, x, axis, down):
        return torch.sort(x, dim=axis, descending=down, stable=True)[1]

    def topk(self, x, k, axis, down):
        return list(torch.topk(x, k, axis, largest=down))

    def bincount(self, x, classes):
        return torch.bincount(x, minlength=classes)

    def searchsorted(self, x, values, right):
        return torch.searchsorted(x, values, right=right)

    def unique(self, x, most, more):
        values, *others = torch.unique(x, return_inverse=True, return_counts=True) if more else [torch.unique(x)]
        fill = [0, most - len(values)]
        return [F.pad(values, fill), *(o if i == 0 else F.pad(o, fill) for i, o in enumerate(others))]

    def nonzero(self, x, most):
        return torch.nonzero_static(x, size=most, fill_value=-1)

    def permute(self, x, order):
        return x.permute(order)

    def transpose(self, x, a, b):
        return x.transpose(a, b)

    def reshape(self, x, shape):
        return x.reshape(shape)

    def expand(self, x, shape):
        return x.expand(shape)

    def contiguous(self, x):
        return x.clone(memory_format=torch.contiguous_format)

    def slice(self, x, axis, start, stop, step):
        return x[(*[slice(None)] * axis, slice(start, stop, step))]

    def flip(self, x, axes):
        return torch.flip(x, axes)

    def pad(self, x, around, value):
        return F.pad(x, [n for pair in reversed(around) for n in pair], value=value)

    def roll(self, x, way, axis):
        return torch.roll(x, way, axis)

    def concatenate(self, x, axis):
        return torch.cat(x, axis)

    def stack(self, x, axis):
        return torch.stack(x, axis)

    def take(self, x, places, axis):
        if axis == 0 and x.dim() == 2 and x.is_floating_point():
            return F.embedding(places, x)
        shape = [*x.shape[:axis], *places.shape, *x.shape[axis + 1:]]
        return torch.index_select(x, axis, places.reshape(-1)).reshape(shape)

    def take_along(self, x, places, axis):
        return torch.gather(x, axis, places)

    def scatter_add(self, base, axis, places, updates):
        return torch.scatter_add(base, axis, places, updates)

    def index_add(self, base, axis, places, updates):
        return torch.index_add(base, axis, places, updates)

    def pool(self, x, name, window, stride, padding):
        return POOL[name][len(window) - 1](x, window, stride, padding)

    def conv(self, x, w, b, stride, padding, dilation, groups):
        return CONV[len(stride) - 1](x, w, b, stride, padding, dilation, groups)

    def conv_transpose(self, x, w, b, stride, padding, dilation, groups):
        return TURNED[len(stride) - 1](x, w, b, stride, padding, 0, groups, dilation)

    def matmul(self, a, b):
        return torch.matmul(a, b)

    def linear(self, x, w, b):
        return F.linear(x, w, b)

    def einsum(self, spec, *x):
        return torch.einsum(spec, *x)

    def attention(self, q, k, v, mask, causal, shared):
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=shared > 1)

    def cdist(self, a, b, power):
        return torch.cdist(a, b, p=float(power))

    def random(self, name, shape, dtype):
        if name == "bernoulli":
            return torch.rand(shape, device=self.device) < 0.3
        return (torch.rand if name == "uniform" else torch.randn)(shape, device=self.device, dtype=DTYPES[dtype])

    def dropout(self, x, p):
        return F.dropout(x, p, True)


class Side:
    def __init__(self, options):
        self.on_gpu = options.device != "cpu"
        self.device = "cuda" if self.on_gpu else "cpu"
        if self.on_gpu and not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        if options.threads:
            torch.set_num_threads(options.threads)
        torch.backends.cudnn.benchmark = True
        torch._dynamo.config.cache_size_limit = 64
        torch.zeros(1, device=self.device)
        self.version = f"torch {torch.__version__}"
        if self.on_gpu:
            self.version += f", CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"

    def wait(self, result=None):
        if self.on_gpu:
            torch.cuda.synchronize()

    def forget(self):
        torch.compiler.reset()
        if self.on_gpu:
            torch.cuda.empty_cache()

    def place(self, d, operands):
        """The inputs, as views of what lies in memory."""
        o, given = Operators(self.device), []
        for i, (spec, array) in enumerate(zip(d["inputs"], operands)):
            bits = array.view(np.int16) if spec["dtype"] == "bf16" else array
            x = torch.from_numpy(bits).to(self.device)
            x = x.view(torch.bfloat16) if spec["dtype"] == "bf16" else x
            given.append(view(o, x, spec["layout"]).detach().requires_grad_(i in d["wrt"]))
        return given

    def step(self, d, function, given):
        """A call that runs the draw once."""
        if not d["wrt"]:
            return torch.no_grad()(lambda: function(*given))
        wrt = [given[i] for i in d["wrt"]]
        cotangent = given[-1] if d["out"] and not d["rate"] else None

        def run():
            made = function(*given)
            gradients = torch.autograd.grad(made[0], wrt, cotangent)
            if not d["rate"]:
                return [*made, *gradients]
            with torch.no_grad():
                return [*made, *torch._foreach_sub(wrt, torch._foreach_mul(gradients, d["rate"]))]

        return run

    def captured(self, run):
        """Replays of run as a CUDA graph, whose results lie where they were captured."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = run()

        def replay():
            graph.replay()
            return result

        replay.reads = run  # the graph does not keep the memory of what it reads
        return replay

    def bind(self, d, variant, operands):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = d["tf32"]
        function = forward(Operators(self.device), d)
        if variant.endswith("compile"):
            function = torch.compile(function, dynamic=False)
        run = self.step(d, function, self.place(d, operands))
        run()
        if variant.startswith("graph"):
            run = self.captured(run)

        def results():
            for t in run():
                t = t.detach()
                yield (t.float() if t.dtype == torch.bfloat16 else t).cpu().numpy(), NAMES[t.dtype]

        return run, self.wait, results, {}
