#include "prove/adjoint_axes.h"
#include "base/sb.h"
#include "rewrite/rewrite.h"
#include <stdio.h>

/* the stride is the largest: no sum of the others is divided by it */
const tn__marks tn__drawn[TN__DRAWN] = {{{10000019, 1009, 1511, 1009 * 1510}}, {{20000003, 2003, 3011, 2003 * 3010}}};

#define SIZED "(0 < n0)%Z -> "
#define SPANNED "stride s -> stride d -> stride k -> "
#define BEGUN "(0 <= b0)%Z -> (0 < m0)%Z -> "
const struct tn__axis_info tn__axis_kinds[AX_KINDS] = {
    [AX_KEPT] = {"kept", "n0", SIZED},
    [AX_GROWN] = {"grown", "n0", SIZED},
    [AX_PADDED] = {"padded", "n0 lo0 hi0", SIZED "(0 <= lo0)%Z -> (0 <= hi0)%Z -> "},
    [AX_PART] = {"part", "n0 b0 m0", SIZED BEGUN "(b0 + m0 <= n0)%Z -> "},
    [AX_STEPPED] = {"stepped", "n0 s b0 m0", SIZED "stride s -> " BEGUN "(b0 + (m0 - 1) * s < n0)%Z -> "},
    [AX_FLIPPED] = {"flipped", "n0", SIZED},
    [AX_SUMMED] = {"summed", "n0", SIZED},
    [AX_WINDOWED] = {"windowed", "n0 s d k", SIZED SPANNED},
    [AX_FOLDED] = {"folded", "n0 s d k", SIZED SPANNED},
};

/* ---- the graphs -------------------------------------------------------------------------------------------------- */

static const int64_t HUGE_SIZE = INT64_C(1) << 40;

/* The variable of this name for axis i, at least lo. */
static tn_node *variable(tn_ctx *c, tn__axes *g, const char *name, uint32_t i, int64_t lo) {
  char text[16];
  snprintf(text, sizeof text, "%s%u", name, i);
  return g->var[i][g->vars[i]++] = tn__var(c, text, lo, HUGE_SIZE);
}

/* Where windows slide the interval of the size must not decide anything: with a stride that is large it would, as it
 * does not with a small one. */
static void sizes(tn_ctx *c, tn__axes *g, tn_node **dim) {
  for (uint32_t i = 0; i < g->rank; i++)
    dim[i] = variable(c, g, "n", i, g->kind[i] == AX_WINDOWED || g->kind[i] == AX_FOLDED ? -HUGE_SIZE : 1);
}

static void leaf(tn_ctx *c, tn__axes *g, tn_node *const *dim, uint32_t rank) {
  g->x = tn__param(c, TN_F64, 0, -1, dim, rank);
}

static tn_node *make_expand(tn_ctx *c, tn__axes *g) {
  tn_node *from[TN_MAX_RANK], *to[TN_MAX_RANK];
  sizes(c, g, to);
  for (uint32_t i = 0; i < g->rank; i++) from[i] = g->kind[i] == AX_GROWN ? tn__int(c, 1) : to[i];
  leaf(c, g, from, g->rank);
  return tn__expand(c, g->x, to);
}

static tn_node *make_pad(tn_ctx *c, tn__axes *g) {
  tn_node *dim[TN_MAX_RANK], *lohi[2 * TN_MAX_RANK];
  sizes(c, g, dim);
  leaf(c, g, dim, g->rank);
  for (uint32_t i = 0; i < g->rank; i++) {
    bool acts = g->kind[i] == AX_PADDED;
    lohi[2 * i] = acts ? variable(c, g, "lo", i, 0) : tn__int(c, 0);
    lohi[2 * i + 1] = acts ? variable(c, g, "hi", i, 0) : tn__int(c, 0);
  }
  return tn__pad(c, g->x, lohi);
}

static tn_node *make_shrink(tn_ctx *c, tn__axes *g) {
  tn_node *dim[TN_MAX_RANK], *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK];
  sizes(c, g, dim);
  leaf(c, g, dim, g->rank);
  for (uint32_t i = 0; i < g->rank; i++) {
    bool acts = g->kind[i] != AX_KEPT;
    step[i] = g->kind[i] == AX_STEPPED ? g->m[i]->v[0] : 1;
    begin[i] = acts ? variable(c, g, "b", i, 0) : tn__int(c, 0);
    size[i] = acts ? variable(c, g, "m", i, 1) : dim[i];
  }
  return tn__shrink(c, g->x, begin, size, step);
}

/* The axes that something is done to. */
static uint32_t acting(const tn__axes *g, int64_t *axes) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->rank; i++)
    if (g->kind[i] != AX_KEPT) axes[n++] = i;
  return n;
}

static tn_node *make_flip(tn_ctx *c, tn__axes *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t axes[TN_MAX_RANK];
  sizes(c, g, dim);
  leaf(c, g, dim, g->rank);
  return tn__flip(c, g->x, axes, acting(g, axes));
}

static tn_node *make_sum(tn_ctx *c, tn__axes *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t axes[TN_MAX_RANK];
  sizes(c, g, dim);
  leaf(c, g, dim, g->rank);
  return tn__reduce(c, OP_SUM, g->x, axes, acting(g, axes));
}

static tn_node *make_window(tn_ctx *c, tn__axes *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t axes[TN_MAX_RANK];
  sizes(c, g, dim);
  leaf(c, g, dim, g->rank);
  acting(g, axes);
  const int64_t *m = g->m[axes[0]]->v;
  return tn__window(c, g->x, axes[0], m[2], m[0], m[1]);
}

static tn_node *make_fold(tn_ctx *c, tn__axes *g) {
  int64_t axes[TN_MAX_RANK];
  tn_node *window = make_window(c, g), *to = g->x;
  acting(g, axes);
  const int64_t *m = g->m[axes[0]]->v;
  leaf(c, g, window->dim, window->rank);
  return tn__fold(c, g->x, to->dim[axes[0]], axes[0], m[2], m[0], m[1]);
}

const tn__axis_op tn__axis_ops[] = {
    {"expand", make_expand, {AX_GROWN, AX_GROWN}, false}, {"pad", make_pad, {AX_PADDED, AX_PADDED}, false},
    {"shrink", make_shrink, {AX_PART, AX_STEPPED}, false}, {"flip", make_flip, {AX_FLIPPED, AX_FLIPPED}, false},
    {"sum", make_sum, {AX_SUMMED, AX_SUMMED}, false},     {"window", make_window, {AX_WINDOWED, AX_WINDOWED}, true},
    {"fold", make_fold, {AX_FOLDED, AX_FOLDED}, true},
};
const uint32_t tn__axis_nops = sizeof tn__axis_ops / sizeof *tn__axis_ops;

tn__readings tn__axis_alone(tn_ctx *c, tn__axis_kind kind, const tn__marks *m, tn__axes *g) {
  uint32_t k = 0;
  while (k + 1 < tn__axis_nops && tn__axis_ops[k].acts[0] != kind && tn__axis_ops[k].acts[1] != kind) k++;
  *g = (tn__axes){.rank = 1, .kind = {kind}, .m = {m}};
  if (kind == AX_KEPT) {
    tn_node *dim[1];
    sizes(c, g, dim);
    leaf(c, g, dim, 1);
    g->out = g->x;
  } else g->out = tn__axis_ops[k].make(c, g);
  return tn__adjoint_readings(c, g->out, g->x);
}

/* ---- axis by axis ------------------------------------------------------------------------------------------------ */

enum { PER_AXIS = 2, MOST_GATES = 8 * TN_MAX_RANK };

/* Kinds, alone. */
typedef struct units {
  tn__axes axes[AX_KINDS][TN__DRAWN];
  tn__readings of[AX_KINDS][TN__DRAWN];
} units;

typedef struct choice {
  tn_ctx *c;
  const tn__axis_op *op;
  tn__axes g;
  tn__readings whole;
  const tn__axes *alone[TN_MAX_RANK];
  const tn__readings *unit[TN_MAX_RANK];
  uint32_t at[2][TN_MAX_RANK]; /* the first coordinate of each: of the side that does not sum, of the other */
} choice;

static const tn__reading *side(const tn__readings *r, bool many) { return many ? &r->many : &r->one; }

static void differs(const choice *k, const char *what) {
  tn__sb b;
  tn__sb_init(&b, &k->c->scratch);
  for (uint32_t i = 0; i < k->g.rank; i++) tn__sb_printf(&b, "%s%s", i ? ", " : "", tn__axis_kinds[k->g.kind[i]].name);
  tn__fail(k->c, TN_EGRAD, "adjoint of %s, rank %u, axes %s: %s differ from those of the axes one by one", k->op->op,
           k->g.rank, tn__sb_str(&b), what);
}

/* Axes stand one behind the other, a window's offset behind its place. */
static void seat(choice *k, bool many) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < k->g.rank; next += side(k->unit[i++], many)->rank) k->at[many][i] = next;
  if (next != side(&k->whole, many)->rank || next != side(&k->whole, !many)->places) differs(k, "ranks");
}

/* The names that axis i's own variables and loops have in the whole. */
typedef struct names {
  tn_node *old[TN__AXIS_VARS + PER_AXIS + 1], *now[TN__AXIS_VARS + PER_AXIS + 1];
  uint32_t n;
} names;

static void name(names *s, tn_node *old, tn_node *now) { s->old[s->n] = old, s->now[s->n++] = now; }

static names names_of(const choice *k, bool many, uint32_t i, uint32_t sum) {
  names s = {.n = 0};
  const tn__reading *u = side(k->unit[i], many), *w = side(&k->whole, many);
  for (uint32_t v = 0; v < k->alone[i]->vars[0]; v++) name(&s, k->alone[i]->var[0][v], k->g.var[i][v]);
  for (uint32_t n = 0; n < u->rank; n++) name(&s, u->range[n], w->range[k->at[many][i] + n]);
  if (u->sums) name(&s, u->sum[0], w->sum[sum]);
  return s;
}

static bool same(const choice *k, const names *s, tn_node *of_unit, tn_node *of_whole) {
  tn_node *now = tn__substitute(k->c, of_unit, s->old, s->now, s->n);
  return now == of_whole || tn__simplify_index(k->c, now) == tn__simplify_index(k->c, of_whole);
}

/* The conditions that a gate is made of, behind those there are. */
static uint32_t conditions(const choice *k, tn_node *gate, tn_node **out, uint32_t n) {
  if (!gate) return n;
  if (n == MOST_GATES) differs(k, "conditions, of which there are too many,");
  out[n++] = gate;
  for (uint32_t i = n - 1; i < n;) {
    if (out[i]->op != OP_AND) {
      i++;
      continue;
    }
    if (n == MOST_GATES) differs(k, "conditions, of which there are too many,");
    out[n++] = out[i]->src[1];
    out[i] = out[i]->src[0];
  }
  return n;
}

static bool among(tn_node *p, tn_node *const *v, uint32_t n) {
  uint32_t i = 0;
  while (i < n && v[i] != p) i++;
  return i < n;
}

static bool all_among(tn_ctx *c, tn_node *const *a, uint32_t na, tn_node *const *b, uint32_t nb) {
  for (uint32_t i = 0; i < na; i++)
    if (!among(a[i], b, nb) && !among(tn__simplify_index(c, a[i]), b, nb)) return false;
  return true;
}

static bool same_set(tn_ctx *c, tn_node *const *a, uint32_t na, tn_node *const *b, uint32_t nb) {
  return all_among(c, a, na, b, nb) && all_among(c, b, nb, a, na);
}

static void compare(choice *k, bool many) {
  const tn__reading *w = side(&k->whole, many);
  tn_node *mine[MOST_GATES], *theirs[MOST_GATES];
  uint32_t sums = 0, n = 0;
  for (uint32_t i = 0; i < k->g.rank; i++) {
    const tn__reading *u = side(k->unit[i], many);
    if (sums + u->sums > w->sums) differs(k, "sums");
    names s = names_of(k, many, i, sums);
    for (uint32_t j = 0; j < u->rank; j++)
      if (!same(k, &s, u->dim[j], w->dim[k->at[many][i] + j])) differs(k, "sizes");
    for (uint32_t j = 0; j < u->places; j++)
      if (!same(k, &s, u->place[j], w->place[k->at[!many][i] + j])) differs(k, "places");
    if (u->sums && !same(k, &s, u->extent[0], w->extent[sums])) differs(k, "sums");
    if (u->gate) n = conditions(k, tn__substitute(k->c, u->gate, s.old, s.now, s.n), theirs, n);
    sums += u->sums;
  }
  if (sums != w->sums) differs(k, "sums");
  if (!same_set(k->c, mine, conditions(k, w->gate, mine, 0), theirs, n)) differs(k, "conditions");
}

static void check(tn_ctx *c, const tn__axis_op *op, const units *u, uint32_t rank, const uint8_t *digit) {
  choice k = {.c = c, .op = op, .g = {.rank = rank}};
  bool sums = false;
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t draw = i % TN__DRAWN;
    tn__axis_kind kind = digit[i] ? op->acts[digit[i] - 1] : AX_KEPT;
    k.g.kind[i] = kind, k.g.m[i] = &tn__drawn[draw];
    k.alone[i] = &u->axes[kind][draw], k.unit[i] = &u->of[kind][draw];
    sums |= k.unit[i]->adjoint_is_one;
  }
  k.g.out = op->make(c, &k.g);
  k.whole = tn__adjoint_readings(c, k.g.out, k.g.x);
  if (sums != k.whole.adjoint_is_one) differs(&k, "sums");
  for (int many = 0; many < 2; many++) seat(&k, many);
  for (int many = 0; many < 2; many++) compare(&k, many);
}

/* The next choice; false after the last.  The first, in which nothing is done, is no op. */
static bool next(uint8_t *digit, uint32_t rank, uint8_t base) {
  uint32_t i = 0;
  while (i < rank && ++digit[i] == base) digit[i++] = 0;
  return i < rank;
}

uint32_t tn__axis_check(tn_ctx *c, const tn__axis_op *op, uint32_t ranks) {
  units *u = tn__arena_zalloc(&c->scratch, sizeof *u);
  const tn__axis_kind kinds[] = {AX_KEPT, op->acts[0], op->acts[1]};
  uint32_t choices = 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (uint32_t d = 0; d < TN__DRAWN; d++)
      u->of[kinds[i]][d] = tn__axis_alone(c, kinds[i], &tn__drawn[d], &u->axes[kinds[i]][d]);
  for (uint32_t rank = 1; rank <= ranks && rank + op->once <= TN_MAX_RANK; rank++) {
    uint8_t digit[TN_MAX_RANK] = {0};
    while (next(digit, rank, op->acts[0] == op->acts[1] ? 2 : 3)) {
      uint32_t acts = 0;
      for (uint32_t i = 0; i < rank; i++) acts += digit[i] != 0;
      if (op->once && acts > 1) continue;
      check(c, op, u, rank, digit);
      choices++;
    }
  }
  return choices;
}
