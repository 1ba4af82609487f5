"""How questions are drawn, and the table of cases: a case draws, for one dtype, a Question about one public function.
Dtypes that a case does not list must be refused."""

import numpy as np

from wire import Values

SPECIAL = [0.0, -0.0, 1, -1, 0.5, -2.5, 3, 1e-5, 6e-8, 65504, 1e30, np.inf, -np.inf, np.nan]
REFUSED = object()  # the question is no question: an error is right


class Question:
    """tol: allowed difference, relative to scale (None: to the values); tiny: of their type's least.  want: a function
    of no arguments, what it gives is rounded to `to`."""

    def __init__(self, xs, want, to=None, ints=(), floats=(), word="-", tol=0.0, scale=None):
        self.xs, self.want, self.to = xs, want, to or (xs[0].d if xs else None)
        self.ints, self.floats, self.word, self.tol, self.scale = ints, floats, word, tol, scale


CASES = {}  # name: (dtypes, draw)


def case(*names, dtypes):
    def note(draw):
        for name in names:
            CASES[name] = (dtypes, lambda r, d, name=name: draw(r, d, name) if len(names) > 1 else draw(r, d))
        return draw

    return note


# ---- drawing ---------------------------------------------------------------------------------------------------------


class Draw:
    def __init__(self, seed):
        self.g = np.random.default_rng(seed)

    def below(self, n):
        return int(self.g.integers(0, n))

    def chance(self, p):
        return self.g.random() < p

    def one_of(self, v):
        return v[self.below(len(v))]

    def shape(self, rank=None, least=0, limit=400):
        """Sizes of 0 and 1 among them; ranks to 6."""
        rank = self.one_of([0, 1, 1, 2, 2, 3, 3, 4, 5, 6]) if rank is None else rank
        s = [self.one_of([1, 1, 2, 2, 3, 4, 5, 7, 17, 33]) for _ in range(rank)]
        while np.prod(s, dtype=float) > limit:
            k = int(np.argmax(s))
            s[k] = max(1, s[k] // 2)
        if rank and least == 0 and self.chance(0.15):
            s[self.below(rank)] = 0
        return tuple(s)

    def array(self, d, s, kind="any"):
        """kind: any (all that there is), plain (moderate numbers), whole (small integers)."""
        if d.kind == "bool":
            return Values(d, self.g.integers(0, 2, s).astype(bool))
        if d.kind == "int":
            info = np.iinfo(d.native)
            if kind == "any" and self.chance(0.5):
                return Values(d, self.g.integers(info.min, info.max, s, d.native, endpoint=True))
            return Values(d, self.g.integers(-4 if d.signed else 0, 5, s).astype(d.native))
        x = np.asarray(self.g.uniform(-4, 4, s))
        if kind == "whole":
            x = np.asarray(self.g.integers(-4, 5, s)).astype(np.float64)
        if kind == "any":
            wide = np.asarray(np.sign(x) * np.exp(self.g.uniform(-9, 9, s)))
            special = np.asarray(self.g.choice(SPECIAL, s))
            pick = np.asarray(self.g.random(s))
            x = np.where(pick < 0.3, special, np.where(pick < 0.6, wide, x))
        return Values(d, d.round(x))

    def axis(self, rank):
        """From the front or from the end."""
        return self.below(2 * rank) - rank

    def broadcasts(self, limit=400):
        s = self.shape(limit=limit)

        def thin(t):
            t = tuple(1 if self.chance(0.25) else v for v in t)
            return t[self.below(len(t) + 1) :] if self.chance(0.25) else t

        return thin(s), thin(s)

    def number(self, d):
        """A number that a tensor of the type can be joined with."""
        if d.kind == "bool":
            return self.below(2)
        if d.kind == "int":
            return self.below(8) - (3 if d.signed else 0)
        return float(self.array(d, (), "plain").a)


def work(x):
    return np.asarray(x.a).astype(x.d.work)


def wide(x):
    return np.asarray(x.a).astype(np.longdouble)
