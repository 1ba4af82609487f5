"""Workloads that stay the same: of each kind of loop one or two of usual sizes, which bench/sample --seed 0 runs.

A row: class, dtype, parameters as in classes.py, inputs, output; then what differs from the usual.  `n` is 16 on
devices that want much work, else 1.
"""
import math
import random

from draws import Draw

ANY = {"bytes": math.inf, "flops": math.inf, "size": 1 << 40}


def rows(n):
    def softmax(shape, axis, dtype="f32", **more):
        return ["softmax", dtype, dict(name="softmax", axis=axis), [shape], shape, dict(length=shape[axis], **more)]

    def reduction(name, shape, axes, **more):
        out = [size for i, size in enumerate(shape) if i not in axes]
        return ["reduction", "f32", dict(name=name, axes=axes, keep=False), [shape], out,
                dict(length=math.prod(shape[a] for a in axes), **more)]

    def norm(name, dtype, shape, axes, weights, groups=None, **more):
        p = dict(name=name, axes=axes, **(dict(groups=groups) if groups else {}))
        length = math.prod(shape[a] for a in axes)
        return ["norm", dtype, p, [shape] + [(w, dtype, "positive") for w in weights], shape,
                dict(length=length, **more)]

    def transpose(shape, order):
        return ["transpose", "f32", dict(order=order), [shape], [shape[i] for i in order]]

    def sort(name, dtype, shape, axis, **p):
        out = [p["k"] if "k" in p and i == axis else size for i, size in enumerate(shape)]
        return ["sort", dtype, dict(name=name, axis=axis, down=False, **p), [shape], out,
                dict(out_dtype="i64" if name == "argsort" else dtype)]

    table, tokens, images = [32768, 512], [512 * n], [2 * n, 64, 56, 56]
    channels = [1, 64, 1, 1]
    return [
        ["gather", "f32", dict(name="embedding", axis=0), [table, (tokens, "i64", "below 32768")], tokens + [512]],
        ["gather", "f32", dict(name="embedding", axis=0), [table, (tokens, "i64", "below 32768")], tokens + [512],
         dict(wrt=[0])],
        ["scatter_add", "f32", dict(name="rows", axis=0), [table, (tokens, "i64", "below 100"), tokens + [512]], table,
         dict(length=tokens[0])],
        ["cross_entropy", "f32", {}, [[64 * n, 50000], ([64 * n], "i64", "below 50000")], [], dict(wrt=[0])],
        reduction("logsumexp", [512 * n, 4096], [1]),
        reduction("sum", [1 << 20, n], [0, 1]),
        reduction("max", [64, 512 * n, 64], [1]),
        softmax([512 * n, 4096], 0),
        softmax([4, 250000 * n], 1),
        softmax([65536 * n, 16], 1),
        softmax([512 * n, 4096], 1, "bf16", wrt=[0]),
        ["distance", "f32", dict(name="euclid"), [[256 * n, 16], [4096, 16]], [256 * n, 4096],
         dict(length=16, flops=3 * 16 * 256 * n * 4096)],
        ["random", "f32", dict(name="normal", shape=[1 << 20, n], dtype="f32"), [], [1 << 20, n]],
        ["pooling", "f32", dict(name="avg", window=[3, 3], stride=[2, 2], padding=[1, 1]), [images],
         images[:2] + [28, 28], dict(length=9)],
        ["elementwise", "bf16", dict(steps=[["silu"], ["mul", 1]]), [[512 * n, 4096], [512 * n, 4096]],
         [512 * n, 4096]],
        norm("rms", "bf16", [512 * n, 4096], [1], [[4096]]),
        norm("layer", "f32", [257 * n, 1023], [1], [[1023], [1023]]),
        norm("layer", "f32", [512 * n, 1024], [1], [[1024], [1024]], wrt=[0, 1, 2]),
        norm("group", "f32", images, [1, 2, 3], [channels, channels], groups=8, wrt=[0, 1, 2]),
        norm("batch", "f32", images, [0, 2, 3], [channels, channels], wrt=[0, 1, 2]),
        ["concatenate", "f32", dict(axis=1, stack=False), [[512 * n, 1000], [512 * n, 3000]], [512 * n, 4000]],
        ["argmax", "f32", dict(name="argmax", axis=1, keep=False), [[512 * n, 4096]], [512 * n], dict(out_dtype="i64")],
        transpose([512 * n, 4096], [1, 0]),
        transpose([2 * n, 64, 128, 64], [0, 2, 1, 3]),
        transpose([2 * n, 64, 56, 56], [0, 2, 3, 1]),
        ["scan", "f32", dict(name="cumsum", axis=1), [[512 * n, 4096]], [512 * n, 4096], dict(length=4096)],
        ["scan", "f32", dict(name="cumsum", axis=0), [[512 * n, 4096]], [512 * n, 4096], dict(length=512 * n)],
        ["scan", "f32", dict(name="cumsum", axis=0), [[1 << 20 | 5]], [1 << 20 | 5], dict(length=1 << 20, wrt=[0])],
        sort("sort", "f32", [1 << 16, n], 0),
        sort("argsort", "i64", [(1 << 16) * n], 0),
        sort("topk", "f32", [64 * n, 4096], 1, k=32),
        ["pad", "f32", dict(around=[[0, 0], [1, 2], [3, 3]], value=0), [[2 * n, 509, 1021]], [2 * n, 512, 1027]],
        ["flip", "f32", dict(axes=[0, 1]), [[512 * n, 4096]], [512 * n, 4096]],
        ["stencil", "f32", dict(times=1, around="zero"), [[256 * n, 2048]], [256 * n, 2048], dict(length=5)],
    ] + [
        ["elementwise", dtype, dict(steps=[[name]]), [([1 << 20, n], dtype, "positive" if name == "log" else "spread")],
         [1 << 20, n], dict(flops=0)] for name in ["exp", "log", "sin", "tanh", "erf"] for dtype in ["f32", "f64"]
    ]


def draw(number, row):
    name, dtype, p, inputs, out = row[:5]
    more = dict(row[5]) if len(row) > 5 else {}
    d = Draw(random.Random(number), False, ANY)
    d.dtype, d.wrt = dtype, more.pop("wrt", [])
    for given in inputs:
        shape, *kind = given if isinstance(given, tuple) else (given,)
        d.input(shape, *kind, layout=False)
    d.let(**p)
    d.output(out, more.pop("out_dtype", None), **more)
    return {"class": name, "seed": 0, "draw": number, **d.finished()}


def every(much):
    return [draw(i, row) for i, row in enumerate(rows(16 if much else 1))]
