"""NumPy as an outside judge: every public function of tensors, on every dtype (or one in $CASES_EVERY of them), with
arguments drawn by a seed ($ORACLE_SEED, $ORACLE_DRAWS of each), against what NumPy says (cases.py and what it names),
computed by server.c.

A function that cases.py does not know fails, and so does one that was never compared on a dtype that it takes, or takes
one that it should not.  Operands are views of others as often as not: reversed, transposed, cut with a step.

Exit 77: NumPy is missing (skipped)."""

import glob
import os
import re
import sys
import warnings
import zlib

try:
    import numpy as np
except ImportError:
    print("NumPy is missing: skipped")
    sys.exit(77)

sys.dont_write_bytecode = True  # the sources are no place for it
from cases import OTHERWISE
from draw import CASES, REFUSED, Draw
from wire import ALL, Server, Values, devices

SEED, MOST = int(os.environ.get("ORACLE_SEED", 1)), 60
HERE = os.path.dirname(os.path.abspath(__file__))


def public_functions():
    """All that tensor.h declares, and what makes tensors elsewhere."""
    names = set()
    for path in glob.glob(os.path.join(HERE, "../../include/tenet/*.h")):
        result = r"[^;(]*?" if path.endswith("/tensor.h") else r"tn_tensor \*(?:const \*)?"
        names |= set(re.findall(r"^TN_API " + result + r"\btn_(\w+)\(", open(path).read(), re.M))
    return names


def uncovered():
    public, known = public_functions(), set(CASES) | set(OTHERWISE)
    wrong = [f"tn_{n}: neither compared nor said to have no counterpart" for n in sorted(public - known)]
    wrong += [f"tn_{n}: there is no such function" for n in sorted(known - public)]
    wrong += [f"tn_{n}: compared, and said to have no counterpart" for n in sorted(set(CASES) & set(OTHERWISE))]
    return wrong if len(public) > 100 else wrong + ["the headers were not read"]


# ---- operands that are views -----------------------------------------------------------------------------------------


def reversed_(sv, r, x):
    axes = [a for a in range(x.a.ndim) if r.chance(0.6)] or [0]
    return sv.ask("flip", [Values(x.d, np.flip(x.a, axes))], axes)


def turned(sv, r, x):
    p = [int(v) for v in r.g.permutation(x.a.ndim)]
    return sv.ask("permute", [Values(x.d, x.a.transpose(p))], [p.index(a) for a in range(x.a.ndim)])


def cut(sv, r, x):
    axis, step = r.below(x.a.ndim), 2 + r.below(2)
    s = list(x.a.shape)
    n, s[axis] = s[axis], 1 + step * s[axis]
    at = [slice(None)] * x.a.ndim
    at[axis] = slice(1, None, step)
    large = r.array(x.d, tuple(s), "plain").a.copy()
    large[tuple(at)] = x.a
    return sv.ask("slice", [Values(x.d, large)], (axis, 1, 1 + step * n, step))


def lent(sv, r, x):
    if not x.a.ndim or r.chance(0.5):
        return x
    return r.one_of([reversed_, turned, cut])(sv, r, x)


# ---- questions and answers -------------------------------------------------------------------------------------------


def complaint(q, got):
    """What is wrong, or None."""
    if q.want is REFUSED:
        return None if isinstance(got, str) else f"gives {got.d}, and should be refused"
    if isinstance(got, str):
        return got
    with np.errstate(all="ignore"):
        want = q.to.round(q.want())
        if got.d is not q.to or got.a.shape != want.shape:
            return f"{got.d} {got.a.shape}, not {q.to} {want.shape}"
        same = (got.a == want) | ((got.a != got.a) & (want != want))
        if q.tol:
            size = np.abs(want.astype(np.float64)) if q.scale is None else np.asarray(q.scale(), np.float64)
            off = np.abs(got.a.astype(np.float64) - want.astype(np.float64))
            same |= off <= q.tol * np.where(np.isnan(size), 0, size) + 2 * q.to.tiny
    if np.all(same):
        return None
    at = tuple(np.argwhere(~np.atleast_1d(same))[0])
    return f"at {at} {np.atleast_1d(got.a)[at]!r}, not {np.atleast_1d(want)[at]!r}"


def is_taken(name, d):
    """Where compiling takes its time, each function is asked about some of the dtypes."""
    every, first = int(os.environ.get("CASES_EVERY", 1)), int(os.environ.get("CASES_FIRST", 0))
    return zlib.crc32(f"{name} {d}".encode()) % every == first % every


def draws_on(device):
    """Where kernels are compiled, each takes its time."""
    return int(os.environ.get("ORACLE_DRAWS", 3 if device == "ref" else 1))


def questions(name, draws):
    """Dtype and question: of those that the function takes, and of those that it refuses."""
    dtypes, draw = CASES[name]
    for d in ALL:
        if not is_taken(name, d):
            continue
        some = False  # elements, that is
        for k in range(max(draws, MOST) if d in dtypes else 1):
            if k >= draws and some:
                break
            r = Draw(zlib.crc32(f"{SEED} {name} {d} {k}".encode()))
            q = draw(r, d)
            if d not in dtypes:
                q.want = REFUSED
            some |= q.want is not REFUSED and np.size(q.want()) > 0
            yield d, r, q


def text(name, d, q):
    return f"{name} {d} {[(str(x.d), x.a.shape) for x in q.xs]} {list(q.ints)} {list(q.floats)} {q.word}"


def compare(sv, name, draws):
    """How many were asked, how many were wrong."""
    asked = []
    for d, r, q in questions(name, draws):
        asked.append((d, q, sv.ask(name, [lent(sv, r, x) for x in q.xs], q.ints, q.floats, q.word)))
    wrong, compared = 0, set()
    for got, (d, q, _) in zip(sv.answers([n for _, _, n in asked]), asked):
        why = complaint(q, got)
        if why:
            print(f"{text(name, d, q)}: {why}")
            wrong += 1
        if q.want is not REFUSED and not isinstance(got, str) and got.a.size:
            compared.add(d)
    for d in CASES[name][0]:
        if is_taken(name, d) and d not in compared:
            print(f"{name} was never compared on {d}")
            wrong += 1
    return len(asked), wrong


warnings.simplefilter("ignore")  # means of nothing
bad = 0
for complaint_ in uncovered():
    print(complaint_)
    bad += 1
for device in devices(sys.argv[2:]):
    sv, count = Server(sys.argv[1], device), 0
    for name in os.environ.get("ORACLE_ONLY", " ".join(CASES)).split():
        n, wrong = compare(sv, name, draws_on(device))
        count += n
        bad += wrong
    if sv.close() != 0:
        print(f"the server on {device} ended with {sv.p.returncode}")
        bad += 1
    print(f"{device}: {count} questions of {len(CASES)} functions")
print(f"{bad} bad")
sys.exit(1 if bad else 0)
