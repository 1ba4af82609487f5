"""Element types, NumPy's arrays of them, and questions to server.c."""

import os
import subprocess
from collections import namedtuple

import numpy as np

FAR = 2**63 - 1


class Dtype:
    """native: what NumPy holds the values in; work: what it computes with, before one rounding."""

    def __init__(self, code, name, native, work, eps=0.0, tiny=0.0):
        self.code, self.name, self.eps, self.tiny = code, name, eps, tiny
        self.native, self.work = np.dtype(native), np.dtype(work)
        self.kind = {"b": "bool", "i": "int", "u": "int", "f": "float"}[self.native.kind]
        self.signed = self.native.kind == "i"
        self.bits = 16 if name == "bf16" else 8 * self.native.itemsize

    def __repr__(self):
        return self.name

    def round(self, x):
        """The nearest values of this type."""
        with np.errstate(all="ignore"):
            if self.name != "bf16":
                return np.asarray(x).astype(self.native)
            x = np.asarray(x).astype(np.float32)
            bits = x.view(np.uint32)
            up = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
            return np.where(np.isnan(x), np.float32(np.nan), up).astype(np.float32)

    def pack(self, x):
        x = np.asarray(x, self.native, order="C")
        return (x.view(np.uint32) >> 16).astype(np.uint16).tobytes() if self.name == "bf16" else x.tobytes()

    def unpack(self, data):
        if self.name != "bf16":
            return np.frombuffer(data, self.native)
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)


BOOL = Dtype(0, "bool", np.bool_, np.bool_)
I8, I16, I32, I64 = (Dtype(1 + k, f"i{8 << k}", f"i{1 << k}", f"i{1 << k}") for k in range(4))
U8, U16, U32, U64 = (Dtype(5 + k, f"u{8 << k}", f"u{1 << k}", f"u{1 << k}") for k in range(4))
F16 = Dtype(9, "f16", np.float16, np.float32, 2.0**-10, 2.0**-24)
BF16 = Dtype(10, "bf16", np.float32, np.float32, 2.0**-7, 2.0**-133)
F32 = Dtype(11, "f32", np.float32, np.float32, 2.0**-23, 2.0**-149)
F64 = Dtype(12, "f64", np.float64, np.float64, 2.0**-52, 2.0**-1074)
INTS = [I8, I16, I32, I64, U8, U16, U32, U64]
FLOATS = [F16, BF16, F32, F64]
NUMBERS = INTS + FLOATS
ALL = [BOOL] + NUMBERS

# An operand, and what it is to be: values with their type.
Values = namedtuple("Values", "d a")


class Result(int):
    """The number of a result: an operand of further questions."""


class Server:
    def __init__(self, path, device):
        self.p = subprocess.Popen([path, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n = 0

    def send(self, line, data=b""):
        self.p.stdin.write(line.encode() + b"\n" + data)
        self.n += 1
        return Result(self.n - 1)

    def put(self, x):
        return self.send(" ".join(map(str, ["in", x.d.code, x.a.ndim, *x.a.shape])), x.d.pack(x.a))

    def ask(self, name, xs, ints=(), floats=(), word="-"):
        """The number of the result, for answers()."""
        at = [x if isinstance(x, Result) else self.put(x) for x in xs]
        floats = [float(v).hex() if v == v and abs(v) != np.inf else v for v in floats]
        return self.send(" ".join(map(str, ["op", name, word, len(at), *at, len(ints), *ints, len(floats), *floats])))

    def answers(self, numbers):
        """Values, or messages; all are computed at once."""
        self.send(" ".join(map(str, ["out", len(numbers), *numbers])))
        self.send("end")
        self.n = 0
        self.p.stdin.flush()
        return [self.answer() for _ in numbers]

    def answer(self):
        head = self.p.stdout.readline().decode()
        if not head:
            raise SystemExit("the server died")
        if head.startswith("error"):
            return head.strip()
        code, rank, *shape = map(int, head.split())
        d = ALL[code]
        size = int(np.prod(shape, dtype=np.int64)) * d.bits // 8
        data = b""
        while len(data) < size:
            data += self.p.stdout.read(size - len(data))
        return Values(d, d.unpack(data).reshape(shape))

    def close(self):
        self.p.stdin.close()
        return self.p.wait()


def devices(named):
    return named or os.environ.get("TENET_DEVICE", "ref cpu").split()
