#!/usr/bin/env python3
"""peers_gpu.py torch|jax [--device cuda|cpu] [--first-step]: the peers' side of bench/gpu_run.

Answers jobs as gpu.c does, in PyTorch or JAX, on the same numbers: a line "NAME VARIANT KIND DTYPE SECONDS INNER
SIZE..." on standard input asks for samples of one workload, run one way.  Variants: torch eager, compile, graph; jax
jit, scan.  Float32 means float32: TF32 is off, but for workloads of tf32.

--first-step: one training step after the framework has started its device, as a line of JSON.
"""
import argparse
import json
import math
import os
import sys
import time

SAMPLE_MS, WARM_MS, MAX_SAMPLES, MIN_SAMPLES, MAX_SETS, CACHE_BYTES, SAMPLED = 5, 30, 400, 5, 8, 128e6, 4096
# Operands by kind, as in gpu.c: (scale, shift, one size of the job for each axis).
OPERANDS = {"chain": [(1, 0, "0")] * 4, "sum": [(1, 1, "0")], "colsum": [(1, 1, "01")], "softmax": [(4, 0, "01")],
            "layernorm": [(4, 0, "01"), (1, 0, "1"), (1, 0, "1")],
            "layernorm_fb": [(4, 0, "01"), (1, 0, "1"), (1, 0, "1"), (1, 0, "01")],
            "matmul": [(1, 0, "02"), (1, 0, "21")], "linear_gelu": [(1, 0, "02"), (0.1, 0, "12"), (1, 0, "1")],
            "conv": [(1, 0, "0122"), (0.1, 0, "3144"), (1, 0, "3")],
            "conv_last": [(1, 0, "0221"), (0.1, 0, "3441"), (1, 0, "3")], "adds": [(1, 0, "1")]}
# Parameters by network: (shape, number of inputs).
DENSE = [((10, 128), 128), ((10,), 128)]
PARAMETERS = {"mlp": [((128, 784), 784), ((128,), 784)] + DENSE,
              "cnn": [((32, 1, 3, 3), 9), ((32,), 9), ((64, 32, 3, 3), 288), ((64,), 288), ((128, 9216), 9216),
                      ((128,), 9216)] + DENSE}
SGD_RATE, ADAM_RATE, SCANNED = 0.01, 1e-3, 100


class Missing(Exception):
    """This peer does not run this workload this way."""


def operands(spread, job, number):
    """Those of set `number`, by a framework's own spread(seed, scale, shift, dtype, shape)."""
    return [spread(number * 8 + i + 1, scale, shift, "f32" if job["dtype"] == "tf32" else job["dtype"],
                   [job["sizes"][int(a)] for a in axes])
            for i, (scale, shift, axes) in enumerate(OPERANDS[job["kind"]])]


def parameters(spread, kind):
    return [spread(i + 1, 1 / math.sqrt(inputs), 0, "f32", shape) for i, (shape, inputs) in enumerate(PARAMETERS[kind])]


def sets_of(job):
    size = 2 if job["dtype"] == "bf16" else 4
    each = sum(size * math.prod(job["sizes"][int(a)] for a in axes) for _, _, axes in OPERANDS[job["kind"]])
    return max(1, min(MAX_SETS, math.ceil(CACHE_BYTES / each)))


class Torch:
    def __init__(self, device):
        import torch

        self.torch, self.device, self.on_gpu = torch, device, device != "cpu"
        if self.on_gpu and not torch.cuda.is_available():
            raise RuntimeError("PyTorch sees no GPU")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        torch.zeros(1, device=device)  # its context
        self.sync()
        self.version = f"torch {torch.__version__}"
        if self.on_gpu:
            self.version += f", CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"

    def sync(self, result=None):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def forget(self):
        self.torch.compiler.reset()
        if self.on_gpu:
            self.torch.cuda.empty_cache()

    def spread(self, seed, scale, shift, dtype, shape):
        t = self.torch
        i = t.arange(math.prod(shape), device=self.device, dtype=t.int64)
        bits = i.mul_(2654435761).add_(seed * 40503 * 65537).bitwise_and_(0xFFFFFFFF).bitwise_right_shift_(8)
        x = bits.to(t.float32).mul_(1 / 8388608).sub_(1).mul_(scale).add_(shift)
        return x.to({"f32": t.float32, "bf16": t.bfloat16}[dtype]).reshape(tuple(shape))

    def sampled(self, result):
        v = result.detach().reshape(-1)
        return v[:: max(1, v.numel() // SAMPLED)][:SAMPLED].float().cpu().numpy()

    def functions(self):
        t, F = self.torch, self.torch.nn.functional

        def layer_norm(sizes, x, gamma, beta):
            return F.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5)

        def conv(sizes, x, w, b):
            return F.relu(F.conv2d(x, w, b, sizes[5], sizes[4] // 2))

        def conv_last(sizes, x, w, b):
            return conv(sizes, x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), b).permute(0, 2, 3, 1)

        def adds(sizes, x):
            for _ in range(sizes[0]):
                x = x + 1
            return x

        return {"chain": lambda sizes, x, a, b, c: F.gelu(x * a + b, approximate="tanh") + c,
                "sum": lambda sizes, x: x.sum(),
                "colsum": lambda sizes, x: x.sum(0), "softmax": lambda sizes, x: t.softmax(x, -1),
                "layernorm": layer_norm,
                "layernorm_fb": layer_norm, "matmul": lambda sizes, a, b: a @ b,
                "linear_gelu": lambda sizes, a, w, b: F.gelu(F.linear(a, w, b), approximate="tanh"), "conv": conv,
                "conv_last": conv_last, "adds": adds}

    def operation(self, job, number, function):
        """A call without arguments on the operands of one set."""
        t, kind, sizes = self.torch, job["kind"], job["sizes"]
        given = operands(self.spread, job, number)
        t.backends.cuda.matmul.allow_tf32 = t.backends.cudnn.allow_tf32 = job["dtype"] == "tf32"
        if kind != "layernorm_fb":
            return t.inference_mode()(lambda: function(sizes, *given))
        *inputs, dy = given
        for x in inputs:
            x.requires_grad_()

        def forward_and_backward():
            y = function(sizes, *inputs)
            return y, *t.autograd.grad(y, inputs, dy)

        return lambda: forward_and_backward()[0]

    def training(self, job):
        t, F, kind = self.torch, self.torch.nn.functional, job["kind"]
        batch = job["sizes"][0]
        p = [x.requires_grad_() for x in parameters(self.spread, kind)]
        x = self.spread(99, 1, 0, "f32", (batch, 784))
        labels = t.arange(batch, device=self.device) * 7 % 10
        optimiser = (t.optim.SGD(p, lr=SGD_RATE) if kind == "mlp"
                     else t.optim.Adam(p, lr=ADAM_RATE, capturable=self.on_gpu, foreach=True))

        def network():
            h = x
            if kind == "cnn":
                h = F.relu(F.conv2d(x.view(-1, 1, 28, 28), p[0], p[1]))
                h = F.max_pool2d(F.relu(F.conv2d(h, p[2], p[3])), 2).flatten(1)
            return F.linear(F.relu(F.linear(h, p[-4], p[-3])), p[-2], p[-1])

        def step():
            optimiser.zero_grad(set_to_none=False)
            loss = F.cross_entropy(network(), labels)
            loss.backward()
            optimiser.step()
            return loss

        return step

    def captured(self, run):
        """Replays of run as a CUDA graph, whose result lies where it was captured."""
        t = self.torch
        if not self.on_gpu:
            raise Missing("no CUDA graphs without a GPU")
        side = t.cuda.Stream()
        side.wait_stream(t.cuda.current_stream())
        with t.cuda.stream(side):
            for _ in range(3):
                run()
        t.cuda.current_stream().wait_stream(side)
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph):
            result = run()

        def replay():
            graph.replay()
            return result

        replay.reads = run  # the graph does not keep the memory of what it reads
        return replay

    def bind(self, job):
        """Calls to make in turn, and how many runs of the workload one call is."""
        variant, kind = job["variant"], job["kind"]
        if kind in PARAMETERS:
            if variant not in ("eager", "graph"):
                raise Missing(f"no {variant} of training steps")
            calls = [self.training(job)]
        else:
            function = self.functions()[kind]
            if variant == "compile":
                function = self.torch.compile(function, dynamic=False)
            calls = [self.operation(job, i, function) for i in range(sets_of(job))]
        # The first run of a training step is on the parameters as they were made: it gives the result to compare.
        check = self.sampled(calls[0]())
        return [self.captured(c) for c in calls] if variant == "graph" else calls, 1, check


class Jax:
    def __init__(self, device):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        os.environ.setdefault("JAX_PLATFORMS", "cpu" if device == "cpu" else "cuda")
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
        self.jax = jax
        jax.block_until_ready(jax.numpy.zeros(1))
        self.version = f"jax {jax.__version__} on {jax.devices()[0].device_kind}"

    def sync(self, result=None):
        self.jax.block_until_ready(result)

    def forget(self):
        self.jax.clear_caches()

    def spread(self, seed, scale, shift, dtype, shape):
        jnp = self.jax.numpy
        start = jnp.uint32(seed * 40503 * 65537 & 0xFFFFFFFF)
        bits = jnp.arange(math.prod(shape), dtype=jnp.uint32) * jnp.uint32(2654435761) + start
        x = ((bits >> 8).astype(jnp.float32) * jnp.float32(1 / 8388608) - 1) * jnp.float32(scale) + jnp.float32(shift)
        return x.astype({"f32": jnp.float32, "bf16": jnp.bfloat16}[dtype]).reshape(shape)

    def sampled(self, result):
        v = result.reshape(-1)
        return self.jax.device_get(v[:: max(1, v.size // SAMPLED)][:SAMPLED].astype("float32"))

    def functions(self):
        jax, jnp, lax = self.jax, self.jax.numpy, self.jax.lax

        def layer_norm(x, gamma, beta):
            wide = x.astype(jnp.float32)
            c = wide - wide.mean(-1, keepdims=True)
            return (c * lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * gamma + beta).astype(x.dtype)

        def layer_norm_fb(x, gamma, beta, dy):
            y, back = jax.vjp(layer_norm, x, gamma, beta)
            return y, back(dy)

        return {"chain": lambda x, a, b, c: jax.nn.gelu(x * a + b, approximate=True) + c, "sum": lambda x: x.sum(),
                "colsum": lambda x: x.sum(0),
                "softmax": lambda x: jax.nn.softmax(x, -1), "layernorm": layer_norm, "layernorm_fb": layer_norm_fb,
                "matmul": lambda a, b: a @ b,
                "linear_gelu": lambda a, w, b: jax.nn.gelu(a @ w.T + b, approximate=True)}

    def network(self, kind):
        jax, jnp, lax = self.jax, self.jax.numpy, self.jax.lax

        def conv(h, w, b):
            return jax.nn.relu(lax.conv(h, w, (1, 1), "VALID") + b[:, None, None])

        def logits(p, x):
            if kind == "cnn":
                x = conv(conv(x.reshape(-1, 1, 28, 28), p[0], p[1]), p[2], p[3])
                x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(len(x), -1)
            return jax.nn.relu(x @ p[-4].T + p[-3]) @ p[-2].T + p[-1]

        def loss(p, x, labels):
            return -jnp.take_along_axis(jax.nn.log_softmax(logits(p, x)), labels[:, None], 1).mean()

        return jax.value_and_grad(loss)

    def training(self, job):
        jax, jnp = self.jax, self.jax.numpy
        kind, batch = job["kind"], job["sizes"][0]
        gradients = self.network(kind)
        p = parameters(self.spread, kind)
        zeros = [jnp.zeros_like(x) for x in p]
        x, labels = self.spread(99, 1, 0, "f32", (batch, 784)), jnp.arange(batch) * 7 % 10

        def sgd(state, x, labels):
            value, g = gradients(state, x, labels)
            return [w - SGD_RATE * d for w, d in zip(state, g)], value

        def adam(state, x, labels):
            w, m, v, t = state
            value, g = gradients(w, x, labels)
            t = t + 1
            m = [0.9 * a + 0.1 * d for a, d in zip(m, g)]
            v = [0.999 * a + 0.001 * d * d for a, d in zip(v, g)]
            w = [a - ADAM_RATE * (b / (1 - 0.9**t)) / (jnp.sqrt(c / (1 - 0.999**t)) + 1e-8) for a, b, c in zip(w, m, v)]
            return (w, m, v, t), value

        step, state = (sgd, p) if kind == "mlp" else (adam, (p, zeros, zeros, jnp.float32(0)))
        if job["variant"] == "scan":
            many = jax.jit(lambda s, x, labels: jax.lax.scan(lambda s, _: step(s, x, labels), s, None, length=SCANNED))
        else:
            many = jax.jit(step)
        held = [state]

        def run():
            held[0], values = many(held[0], x, labels)
            return held[0], values

        return run

    def bind(self, job):
        kind, variant = job["kind"], job["variant"]
        if kind in PARAMETERS:
            run = self.training(job)
            check = self.sampled(run()[1])[:1]
            return [run], SCANNED if variant == "scan" else 1, check
        functions = self.functions()
        if variant != "jit" or kind not in functions:
            raise Missing(f"no {variant} of {kind}")
        f = self.jax.jit(functions[kind])
        calls = [lambda given=operands(self.spread, job, i): f(*given) for i in range(sets_of(job))]
        result = calls[0]()
        return calls, 1, self.sampled(result[0] if isinstance(result, tuple) else result)


PEERS = {"torch": Torch, "jax": Jax}
FIRST = {"torch": "eager", "jax": "jit"}


def weigh(v):
    """As in gpu.c: the sum of |v[i]| with weights between 1/2 and 3/2."""
    return sum(abs(float(x)) * (1 + (((i * 2654435761) & 0xFFFFFFFF) >> 8) / 8388608 / 2 - 0.5)
               for i, x in enumerate(v))


def measure(peer, job, calls, runs):
    at = 0

    def time_runs(n):
        nonlocal at
        result, start = None, time.perf_counter()
        for _ in range(n):
            result = calls[at]()
            at = (at + 1) % len(calls)
        peer.sync(result)
        return (time.perf_counter() - start) * 1e3 / (n * runs)

    start = time.perf_counter()
    time_runs(4 * len(calls))
    while (time.perf_counter() - start) * 1e3 < WARM_MS:
        time_runs(len(calls))
    inner = job["inner"] or int(SAMPLE_MS / max(time_runs(len(calls)) * runs, 1e-5)) + 1
    inner = max(1, inner // runs) if job["inner"] else inner
    ms, start = [], time.perf_counter()
    while len(ms) < MAX_SAMPLES and (len(ms) < MIN_SAMPLES or time.perf_counter() - start < job["seconds"]):
        ms.append(float(f"{time_runs(inner):.6g}"))
    return ms


def parse(line):
    name, variant, kind, dtype, seconds, inner, *sizes = line.split()
    return dict(name=name, variant=variant, kind=kind, dtype=dtype, seconds=float(seconds), inner=int(inner),
                sizes=[int(s) for s in sizes])


def answer(peer, bound, job):
    """`bound` holds what is set up for the present workload, by variant."""
    if bound.get("name") != job["name"]:
        bound.clear()
        peer.forget()
        bound["name"] = job["name"]
    if job["variant"] not in bound:
        bound[job["variant"]] = peer.bind(job)
    calls, runs, check = bound[job["variant"]]
    return {"check": weigh(check), "ms": measure(peer, job, calls, runs)}


def first_step(peer, variant):
    job = dict(name="mlp", variant=variant, kind="mlp", dtype="f32", sizes=[64])
    start = time.perf_counter()
    check = peer.bind(job)[2]
    return {"check": weigh(check), "ms": [(time.perf_counter() - start) * 1e3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--first-step", action="store_true")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer

    def say(what):
        answers.write(json.dumps(what) + "\n")

    try:
        peer = PEERS[options.peer](options.device)
    except Exception as e:  # an import may fail in as many ways as there are shared libraries
        say({"missing": f"{type(e).__name__}: {e}"[:200]})
        return
    if options.first_step:
        say(first_step(peer, FIRST[options.peer]))
        return
    say({"version": peer.version})
    bound = {}
    for line in sys.stdin:
        try:
            say(answer(peer, bound, parse(line)))
        except Missing as e:
            say({"missing": str(e)})
        except Exception as e:
            bound.clear()
            say({"error": f"{type(e).__name__}: {e}".replace("\n", " ")[:300]})


if __name__ == "__main__":
    main()
