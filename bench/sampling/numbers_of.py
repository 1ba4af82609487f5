"""The numbers that every side computes on, bit for bit the same, and the few by which results are compared.

bf16 is held in arrays of u16, its bits.
"""
import math

import numpy as np

from draws import stored

BLOCK, SAMPLES, SIGNS = 1 << 16, 64, 4
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16, "i32": np.int32, "i64": np.int64,
         "i16": np.int16, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}


def mixed(start, n, seed):
    """Well mixed u32s: those of places start, start + 1, ... of array `seed`."""
    x = np.arange(start, start + n, dtype=np.uint32)
    x += np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    x ^= x >> np.uint32(16)
    return x


def to_bf16(x):
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def widened(x, dtype):
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32) if dtype == "bf16" else x


def values(bits, spec):
    """Numbers of a kind, as f32 or integers, from random bits."""
    how = spec["values"]
    unit = lambda: (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    if how in ("spread", "small"):
        return (unit() * np.float32(4) - np.float32(2)) * np.float32(1 / math.sqrt(spec.get("over", 1)))
    if how == "positive":
        return unit() * np.float32(1.5) + np.float32(0.5)
    if how == "signs":
        return (bits & np.uint32(2)).astype(np.float32) - np.float32(1)
    if how == "truth":
        return bits >> np.uint32(31) != 0
    if how == "integers":
        return (bits >> np.uint32(8)).astype(np.int32) % 10 if spec["dtype"] == "u8" else \
            (bits >> np.uint32(8)).astype(np.int32) % 19 - 9
    return (bits.astype(np.uint64) * np.uint64(int(how.split()[1])) >> np.uint64(32)).astype(np.int64)


def operand(draw, index):
    """What lies in memory of one input."""
    spec = draw["inputs"][index]
    shape = stored(spec)
    out = np.empty(math.prod(shape), NUMPY[spec["dtype"]])
    if spec["values"] == "sorted":
        out[:] = np.linspace(-2, 2, out.size, dtype=np.float32)
        return out.reshape(shape)
    for at in range(0, out.size, BLOCK):
        n = min(BLOCK, out.size - at)
        made = values(mixed(at, n, draw["seed"] * 1000003 + draw["draw"] * 101 + index), spec)
        out[at:at + n] = to_bf16(made) if spec["dtype"] == "bf16" else made
    return out.reshape(shape)


def summary(array, dtype):
    """What tells whether two results are the same: shape, size, sums with random signs, some elements."""
    flat = np.ascontiguousarray(array).reshape(-1)
    signs = 1.0 - 2.0 * ((mixed(0, BLOCK, 77)[:, None] >> np.arange(SIGNS, dtype=np.uint32)) & 1)
    sums, size, square, strange = np.zeros(SIGNS), 0.0, 0.0, 0
    low, high = math.inf, -math.inf
    for block, at in enumerate(range(0, flat.size, BLOCK)):
        x = flat[at:at + BLOCK].astype(np.float64)
        fine = np.isfinite(x)
        if not fine.all():
            strange += int((~fine).sum())
            x = np.where(fine, x, 0)
        sums += (x @ signs[:x.size]) * (1 - 2 * (int(mixed(block, 1, 78)[0]) & 1))
        size += float(np.abs(x).sum())
        square += float(x @ x)
        low, high = min(low, float(x.min())), max(high, float(x.max()))
    places = mixed(0, SAMPLES, 79).astype(np.uint64) * np.uint64(flat.size) >> np.uint64(32)
    some = flat[places.astype(np.int64)].astype(np.float64).tolist() if flat.size else []
    n = max(flat.size, 1)
    return {"shape": list(array.shape), "dtype": dtype, "sums": sums.tolist(), "size": size / n,
            "rms": math.sqrt(square / n), "low": low, "high": high, "strange": strange,
            "some": [x if math.isfinite(x) else str(x) for x in some]}
