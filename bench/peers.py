"""Times one peer on the workloads of bench/run: peers.py PEER [--threads N] [--seconds S] [NAME...]

Prints a line of JSON per workload, in the form and on the numbers of bench.c, which defines the workloads.  A peer that
is not installed gives one line {"missing": PEER}; a workload that a peer has no natural way to express is left out.
"""
import argparse
import json
import math
import os
import sys
import time

MAX_SAMPLES, MIN_SAMPLES = 400, 5
BEFORE_IMPORT = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}

MLP = [("w1", 784, (128, 784)), ("b1", 784, (128,)), ("w2", 128, (10, 128)), ("b2", 128, (10,))]
CNN = [("c1", 9, (32, 1, 3, 3)), ("d1", 9, (32,)), ("c2", 288, (64, 32, 3, 3)), ("d2", 288, (64,)),
       ("w1", 9216, (128, 9216)), ("b1", 9216, (128,)), ("w2", 128, (10, 128)), ("b2", 128, (10,))]
RATE = 0.01


def spread(np, seed, n):
    """Array `seed`: evenly spread over -1..1, as in bench.c."""
    bits = np.arange(n, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 40503 * 65537 % 2**32)
    return (bits >> np.uint32(8)).astype(np.float64) / 8388608.0 - 1.0


class Inputs:
    def __init__(self, np):
        self.np, self.seed = np, 0

    def array(self, scale, *shape):
        self.seed += 1
        return (scale * spread(self.np, self.seed, math.prod(shape))).astype(self.np.float32).reshape(shape)

    def parameters(self, table):
        return [self.array(1 / math.sqrt(fan_in), *shape) for _, fan_in, shape in table]

    def labels(self, n):
        return self.np.arange(n, dtype=self.np.int64) * 7 % 10


def inputs_of(make, name, size):
    """The operands of a workload, in the order in which bench.c makes them."""
    kind = name.split("_")[0]
    if name in ("layer_norm",):
        return [make.array(4, *size), make.array(1, size[1]), make.array(1, size[1])]
    if kind in ("gelu", "softmax"):
        return [make.array(4, *size)]
    if kind == "gemm":
        m, n, k = size
        return [make.array(1, m, k), make.array(1, k, n)]
    if kind == "attention":
        return [make.array(4, *size), make.array(4, *size), make.array(1, *size)]
    if kind in ("mlp", "cnn"):
        parameters = make.parameters(MLP if kind == "mlp" else CNN)
        image = (784,) if kind == "mlp" else (1, 28, 28)
        return [parameters, make.array(1, size[0], *image), make.labels(size[0])]
    return [make.array(1, *size)]


SIZES = {"gelu": (1 << 24,), "softmax": (8192, 1024), "layer_norm": (8192, 1024), "sum": (8192, 1024),
         "column_sum": (8192, 1024),
         **{f"gemm_{n}": (n, n, n) for n in (64, 128, 256, 512, 1024, 2048)}, "gemm_64x128x784": (64, 128, 784),
         "attention": (8, 512, 64), "mlp_b64": (64,), "mlp_b512": (512,), "cnn_b64": (64,), "replay": (16,)}


# Each peer is a function of the number of threads that gives: the version, and a function (name, operands) -> (run,
# wait, read)
# or None: run() computes and returns a result, wait(result) waits for it, read(result) makes it a NumPy array.


def numpy_peer(threads):
    import numpy as np

    def gelu(x):
        x = x * np.float32(1.5) + np.float32(0.25)
        t = np.tanh(np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x))
        return np.float32(0.5) * x * (1 + t) + np.float32(0.125)

    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def layer_norm(x, gamma, beta):
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + np.float32(1e-5)) * gamma + beta

    def attention(q, k, v):
        return softmax(q @ k.transpose(0, 2, 1) * np.float32(1 / math.sqrt(q.shape[-1]))) @ v

    def mlp(parameters, x, labels):
        w1, b1, w2, b2 = parameters
        h = np.maximum(x @ w1.T + b1, 0)
        p = softmax(h @ w2.T + b2)
        rows = np.arange(len(x))
        loss = -np.log(p[rows, labels]).mean()
        p[rows, labels] -= 1
        p /= np.float32(len(x))
        dh = (p @ w2) * (h > 0)
        for w, g in ((w1, dh.T @ x), (b1, dh.sum(0)), (w2, p.T @ h), (b2, p.sum(0))):
            w -= np.float32(RATE) * g
        return loss

    functions = {"gelu": gelu, "softmax": softmax, "layer": layer_norm, "sum": lambda x: (x + 1).sum(),
                 "column": lambda x: x.sum(0),
                 "gemm": lambda x, y: x @ y, "attention": attention, "mlp": mlp, "replay": lambda x: x + 1}

    def bind(name, operands):
        f = functions.get(name.split("_")[0])
        return f and (lambda: f(*operands), lambda r: r, np.asarray)

    return "numpy " + np.__version__, bind


def jax_peer(threads):
    import jax
    import jax.numpy as jnp
    from jax import lax

    def linear(x, w, b):
        return x @ w.T + b

    def classify(x, w1, b1, w2, b2):
        return linear(jax.nn.relu(linear(x, w1, b1)), w2, b2)

    def convolve(x, w, b):
        y = lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return jax.nn.relu(y + b[:, None, None])

    def cnn(x, c1, d1, c2, d2, *dense):
        h = convolve(convolve(x, c1, d1), c2, d2)
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return classify(h.reshape(h.shape[0], -1), *dense)

    def step(network):
        def loss(parameters, x, labels):
            logp = jax.nn.log_softmax(network(x, *parameters))
            return -jnp.take_along_axis(logp, labels[:, None], 1).mean()

        def update(parameters, x, labels):
            value, grads = jax.value_and_grad(loss)(parameters, x, labels)
            return [p - RATE * g for p, g in zip(parameters, grads)], value

        return jax.jit(update, donate_argnums=0)

    def layer_norm(x, gamma, beta):
        c = x - x.mean(-1, keepdims=True)
        return c * lax.rsqrt((c * c).mean(-1, keepdims=True) + 1e-5) * gamma + beta

    def attention(q, k, v):
        return jax.nn.softmax(q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1]), -1) @ v

    functions = {"gelu": lambda x: jax.nn.gelu(x * 1.5 + 0.25, approximate=True) + 0.125,
                 "softmax": lambda x: jax.nn.softmax(x, -1),
                 "layer": layer_norm, "sum": lambda x: (x + 1).sum(), "column": lambda x: x.sum(0),
                 "gemm": lambda x, y: x @ y,
                 "attention": attention, "replay": lambda x: x + 1}
    networks = {"mlp": classify, "cnn": cnn}

    def bind(name, operands):
        kind = name.split("_")[0]
        operands = jax.tree.map(jnp.asarray, operands)
        if kind in functions:
            f = jax.jit(functions[kind])
            return lambda: f(*operands), lambda r: r.block_until_ready(), jax.device_get
        update = step(networks[kind])
        state = [operands[0]]

        def run():
            state[0], value = update(state[0], *operands[1:])
            return value

        # The step is over when its parameters are, not when its loss is.
        return run, lambda r: jax.block_until_ready(state[0]), jax.device_get

    return "jax " + jax.__version__, bind


def torch_peer(threads, compiled=False):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    def classify(x, w1, b1, w2, b2):
        return F.linear(F.relu(F.linear(x, w1, b1)), w2, b2)

    def cnn(x, c1, d1, c2, d2, *dense):
        h = F.relu(F.conv2d(F.relu(F.conv2d(x, c1, d1)), c2, d2))
        return classify(F.max_pool2d(h, 2).flatten(1), *dense)

    functions = {"gelu": lambda x: F.gelu(x * 1.5 + 0.25, approximate="tanh") + 0.125,
                 "softmax": lambda x: F.softmax(x, -1),
                 "layer": lambda x, g, b: F.layer_norm(x, x.shape[-1:], g, b), "sum": lambda x: (x + 1).sum(),
                 "column": lambda x: x.sum(0),
                 "gemm": lambda x, y: x @ y, "attention": F.scaled_dot_product_attention, "replay": lambda x: x + 1}
    networks = {"mlp": classify, "cnn": cnn}

    def wrap(f):
        return torch.compile(f) if compiled else f

    def bind(name, operands):
        kind = name.split("_")[0]
        if kind in functions:
            f, tensors = wrap(functions[kind]), [torch.from_numpy(o) for o in operands]

            @torch.inference_mode()
            def run():
                return f(*tensors)

            return run, lambda r: r, lambda r: r.numpy()
        parameters = [torch.nn.Parameter(torch.from_numpy(o)) for o in operands[0]]
        x, labels = torch.from_numpy(operands[1]), torch.from_numpy(operands[2])
        optimiser = torch.optim.SGD(parameters, lr=RATE)
        network = wrap(networks[kind])

        def step():
            optimiser.zero_grad()
            loss = F.cross_entropy(network(x, *parameters), labels)
            loss.backward()
            optimiser.step()
            return loss

        return step, lambda r: r, lambda r: r.detach().numpy()

    return f"torch {torch.__version__}" + (" compile" if compiled else ""), bind


PEERS = {"numpy": numpy_peer, "jax": jax_peer, "torch": torch_peer,
         "torch-compile": lambda threads: torch_peer(threads, True)}


def weigh(np, result):
    v = np.abs(np.asarray(result, dtype=np.float64).ravel())
    return float((v * (1 + spread(np, 0, v.size) / 2)).sum())


def sample(run, wait, seconds):
    def once(n):
        start = time.perf_counter()
        for _ in range(n):
            wait(run())
        return (time.perf_counter() - start) * 1e3 / n

    once(1)
    estimate = min(once(1), once(1))
    inner = 1 if estimate > 0.2 else int(0.2 / max(estimate, 1e-5)) + 1
    ms, start = [], time.perf_counter()
    while len(ms) < MAX_SAMPLES and (len(ms) < MIN_SAMPLES or time.perf_counter() - start < seconds):
        ms.append(float(f"{once(inner):.6g}"))
    return ms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    for name in BEFORE_IMPORT:
        os.environ[name] = str(options.threads)
    os.environ.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="")
    try:
        import numpy as np
        version, bind = PEERS[options.peer](options.threads)
    except Exception as e:  # an import may fail in as many ways as there are shared libraries
        print(json.dumps({"missing": options.peer, "why": f"{type(e).__name__}: {e}"[:200]}))
        return
    print(json.dumps({"version": version}), flush=True)
    for name, size in SIZES.items():
        if options.names and name not in options.names:
            continue
        try:
            bound = bind(name, inputs_of(Inputs(np), name, size))
            if bound:
                run, wait, read = bound
                check = weigh(np, read(run()))
                ms = sample(run, wait, options.seconds)
                print(json.dumps({"name": name, "who": options.peer, "check": check, "ms": ms}), flush=True)
        except Exception as e:
            print(f"peers.py: {options.peer}: {name}: {type(e).__name__}: {e}"[:400], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
