#!/usr/bin/env python3
"""worker.py tenet|torch|jax: answers bench/sample's jobs, lines of JSON on standard input, by lines of JSON.

    {"do": "time", "draw": {...}, "variant": "...", "seconds": s}    {"ms": [...], "outputs": [summaries], ...}
    {"do": "compile", ...}                                           {"ms": []}: compiled, into the peers' own caches

What is set up for a draw stays until a job names another.  Outputs are told once for each variant.
"""
import argparse
import importlib
import json
import os
import sys
import time

import classes
import draws
import numbers_of

SAMPLE_MS, MAX_SAMPLES, MIN_SAMPLES = 1, 400, 3


def measure(bound, seconds):
    run, wait = bound[:2]

    def time_runs(n):
        result, start = None, time.perf_counter()
        for _ in range(n):
            result = run()
        wait(result)
        return (time.perf_counter() - start) * 1e3 / n

    first = time_runs(1)
    if first < seconds * 1e3:  # warm
        first = time_runs(2)
        start = time.perf_counter()
        while time.perf_counter() - start < seconds / 4:
            first = min(first, time_runs(max(1, int(SAMPLE_MS / max(first, 1e-4)))))
    inner = int(SAMPLE_MS / max(first, 1e-4)) + 1
    ms, start = [], time.perf_counter()
    while len(ms) < MAX_SAMPLES and (len(ms) < MIN_SAMPLES or time.perf_counter() - start < seconds):
        ms.append(float(f"{time_runs(inner):.5g}"))
        if len(ms) == 1 and ms[0] > 20 * seconds * 1e3:
            break
    return ms


def outputs_of(draw, results, operands):
    """Summaries of what is compared."""
    made, arrays = classes_of(draw), list(results())
    dtypes = [dtype for _, dtype in arrays]
    compared = [a for a, _ in arrays]
    if type(made).checked is not draws.Kind.checked:
        views = [viewed(spec, a) for spec, a in zip(draw["inputs"], operands)]
        compared = made.checked(draw["p"], views, compared)
    return [numbers_of.summary(a, t) for a, t in zip(compared, dtypes)]


def classes_of(draw):
    return draws.CLASSES[draw["class"]]


class Movements:
    """The operators that layouts need, on NumPy's arrays."""

    def shape(self, x):
        return x.shape

    def permute(self, x, order):
        return x.transpose(order)

    def slice(self, x, axis, start, stop, step):
        return x[(*[slice(None)] * axis, slice(start, stop, step))]

    def expand(self, x, shape):
        import numpy as np

        return np.broadcast_to(x, shape)


def viewed(spec, array):
    return draws.view(Movements(), numbers_of.widened(array, spec["dtype"]), spec["layout"])


class Worker:
    def __init__(self, side):
        self.side, self.draw, self.bound, self.operands = side, None, {}, []

    def answer(self, job):
        draw, variant = job["draw"], job["variant"]
        if draw != self.draw:
            self.bound, self.draw, self.operands = {}, draw, []
            self.side.forget()
            self.operands = [numbers_of.operand(draw, i) for i in range(len(draw["inputs"]))]
        said = {}
        if variant not in self.bound:
            self.bound[variant] = self.side.bind(draw, variant, self.operands)
            said = self.bound[variant][3]
            if job["do"] == "time":
                said["outputs"] = outputs_of(draw, self.bound[variant][2], self.operands)
        return {**said, "ms": measure(self.bound[variant], job["seconds"]) if job["do"] == "time" else []}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=["tenet", "torch", "jax"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--library")
    parser.add_argument("--headers")
    parser.add_argument("--cache")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints is no answer

    def say(what):
        answers.write(json.dumps(what) + "\n")

    try:
        side = importlib.import_module(f"{options.side}_side").Side(options)
    except Exception as e:  # an import may fail in as many ways as there are shared libraries
        say({"missing": f"{type(e).__name__}: {e}"[:200]})
        return
    say({"version": side.version})
    worker = Worker(side)
    for line in sys.stdin:
        try:
            say(worker.answer(json.loads(line)))
        except draws.Missing as e:
            worker.draw = None
            say({"missing": str(e)})
        except Exception as e:
            worker.draw = None
            say({"error": f"{type(e).__name__}: {e}".replace("\n", " ")[:300]})


if __name__ == "__main__":
    main()
