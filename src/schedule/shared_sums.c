/* Sums made of the same sums, of rows that no group keeps.
 *
 * A norm's gradient wants several sums of what is as large as its input: over each row those that the input's gradient
 * needs, one of which is made of another, and over all rows those for the weights.  As they are written each reads
 * everything again.  But factors that are the same all along a sum can stand behind it,
 *
 *   sum over a of s x   =  s sum over a of x             where s hangs on no axis of a,
 *   sum over a of s x   =  sum over a \ b of s (sum over b of x)    where s hangs on no axis of b,
 *   sum of (s x + t y)  =  s sum x + t sum y
 *
 * and what is left to be summed up, over the axes that all of these sums have in common, is then mostly the same in
 * several, and hangs on none of them: all are found in one reading, which stores a number for each of the other axes'
 * elements, and the sums are made of these few.
 *
 * A sum of several terms is taken apart only if that frees it of another sum, and only into terms that are rounded
 * themselves: what is left where they cancel each other is no better known than each of them.  So sum (x - m) stays as
 * it is: as sum x - n m it would be off by the last bits of sum x.
 *
 * m, a row's mean, is known when all of the row has been read.  Where what is summed up together is a block of it that
 * a group keeps, all that is made of x - m is read with x, about the block's own mean p:
 *
 *   sum of (x - m) y  =  over all blocks the sum of  sum (x - p) y  +  (p - m) sum y
 *
 * and so on for products of several such.  That holds for any p and m, so that how these are rounded does not count,
 * and p - m is exact if they are close.  What is rounded is, in each of both parts, at most the block's norm of x - m
 * times that of y, since sum (x - m)^2 = sum (x - p)^2 + n (p - m)^2: as much as bounds it in the one sum, which others
 * take, too (of dy and of dy times the normalised row).
 *
 * Sums that launches take longer for than memory count as well, if they are longer than what a group keeps: lowering
 * cuts those into blocks, and each that is made of another is a launch more. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include "tensor/operands.h"

enum {
  MAX_TERMS = 8,   /* of a sum */
  MAX_FACTORS = 8, /* of a term */
  MAX_SUMS = 8,    /* made of the same ones */
  MAX_TRIES = 32,  /* sums that one is tried to be joined with, */
  NEAR_LEVELS = 3, /* below which as many sums stand, but for so many */
  MAX_DEPTH = 8,   /* operations between a sum and its factors, which are looked at one by one */
  STORED_SHARE = 4 /* what is stored of them, and read again, takes at most this part of a reading */
};

/* Axes, none of one element, that those of all that is looked at are made of */
typedef struct space {
  uint32_t rank;
  int64_t size[TN_MAX_RANK];
} space;

typedef struct factor {
  tn_node *x;     /* in the space */
  uint32_t same;  /* a set of its axes: along these x is the same */
  uint32_t level; /* how many sums stand below each other in what it is made of */
  bool under;     /* divides */
} factor;

typedef struct term {
  factor v[MAX_FACTORS];
  uint32_t n;
  bool negative;
} term;

typedef struct terms {
  term v[MAX_TERMS];
  uint32_t n;
} terms;

typedef struct one_sum {
  tn_node *sum;
  uint32_t along; /* the axes of the space that it adds up */
  terms of;
} one_sum;

typedef struct group {
  space space;
  uint32_t together; /* the axes that all of them add up */
  one_sum v[MAX_SUMS];
  uint32_t n;
} group;

typedef struct search {
  tn_ctx *c;
  const tn__target *t;
  tn__nodes sums; /* the large ones */
  tn__map level;  /* of each node of the graph: how many large sums stand below each other, it among them */
  tn__map stored; /* what is to be stored as it stands */
  tn__map alone;  /* sums that nothing was found for */
} search;

/* ---- axes ---- */

static int64_t size_of(const tn_node *x, uint32_t axis) { return x->dim[axis]->hi; }

static bool are_known(const tn_node *x) {
  int64_t size;
  for (uint32_t i = 0; i < x->rank; i++)
    if (!tn__const_int(x->dim[i], &size)) return false;
  return true;
}

/* Axis i of x is made of the space's axes first[i] to first[i + 1].  False: x has other axes. */
static bool axes_of(const space *s, const tn_node *x, uint32_t *first) {
  uint32_t at = 0;
  if (!are_known(x)) return false;
  for (uint32_t i = 0; i < x->rank; i++) {
    int64_t left = size_of(x, i);
    first[i] = at;
    while (left != 1) {
      if (at == s->rank || left % s->size[at]) return false;
      left /= s->size[at++];
    }
  }
  first[x->rank] = at;
  return at == s->rank;
}

/* Takes the space's axes apart so that those of x are made of them, too. */
static bool refine(const space *s, const tn_node *x, space *out) {
  int64_t a = 1, b = 1;
  uint32_t i = 0, k = 0;
  *out = (space){0};
  for (;;) {
    while (a == 1 && i < s->rank) a = s->size[i++];
    while (b == 1 && k < x->rank) b = size_of(x, k++);
    if (a == 1 || b == 1) return a == b;
    int64_t least = a < b ? a : b;
    if (a % least || b % least || out->rank == TN_MAX_RANK) return false;
    out->size[out->rank++] = least;
    a /= least;
    b /= least;
  }
}

static double elements_along(const space *s, uint32_t set) {
  double n = 1;
  for (uint32_t i = 0; i < s->rank; i++)
    if (set >> i & 1) n *= (double)s->size[i];
  return n;
}

/* The axes, outside of a set those of one element */
static tn__dims dims_of(tn_ctx *c, const space *s, uint32_t set) {
  tn__dims d = {.rank = s->rank};
  for (uint32_t i = 0; i < s->rank; i++) d.d[i] = tn__int(c, set >> i & 1 ? s->size[i] : 1);
  return d;
}

static uint32_t all_of(const space *s) { return (uint32_t)((1ull << s->rank) - 1); }

/* ---- factors ---- */

static bool is_arithmetic(const tn_node *x) {
  return x->op == OP_ADD || x->op == OP_MUL || x->op == OP_DIV || x->op == OP_NEG;
}

/* x, of axes that are the space's or made of them, in the space */
static tn_node *in_space(tn_ctx *c, const space *s, tn_node *x, int depth) {
  uint32_t first[TN_MAX_RANK + 1], set = 0;
  tn__dims all = dims_of(c, s, all_of(s));
  bool known = depth < MAX_DEPTH && axes_of(s, x, first);
  if (known && is_arithmetic(x)) {
    tn_node *a = in_space(c, s, x->src[0], depth + 1);
    return x->nsrc == 1 ? tn__op1(c, (tn__op)x->op, a)
                        : tn__op2(c, (tn__op)x->op, a, in_space(c, s, x->src[1], depth + 1));
  }
  if (known && x->op == OP_EXPAND) {
    for (uint32_t i = 0; i < x->rank; i++)
      for (uint32_t k = first[i]; k < first[i + 1]; k++)
        if (!tn__is_int_const(x->src[0]->dim[i], 1)) set |= 1u << k;
    tn__dims own = dims_of(c, s, set);
    return tn__expand(c, tn__reshape(c, x->src[0], own.d, own.rank), all.d);
  }
  if (known && x->op == OP_RESHAPE && axes_of(s, x->src[0], first)) return in_space(c, s, x->src[0], depth + 1);
  return tn__reshape(c, x, all.d, all.rank);
}

/* The axes along which x, in the space, is the same */
/* a choice: fewer are right */
static uint32_t same_along(const space *s, const tn_node *x, int depth) {
  uint32_t set = 0;
  if (x->op == OP_EXPAND)
    for (uint32_t i = 0; i < s->rank; i++) set |= (uint32_t)tn__is_int_const(x->src[0]->dim[i], 1) << i;
  if (!is_arithmetic(x) || depth == MAX_DEPTH) return set;
  set = same_along(s, x->src[0], depth + 1);
  return x->nsrc == 1 ? set : set & same_along(s, x->src[1], depth + 1);
}

static uint32_t level_of(const search *q, const tn_node *x) {
  uint64_t level = 0;
  tn__map_get(&q->level, (uint64_t)(uintptr_t)x, &level);
  return (uint32_t)level;
}

static bool is_one(tn_ctx *c, const tn_node *x) {
  while (x->op == OP_EXPAND || x->op == OP_RESHAPE) x = x->src[0];
  return x->op == OP_CONST && x == tn__const_num(c, x->dtype, 1);
}

static bool add_factor(const search *q, const space *s, tn_node *x, bool under, term *t) {
  if (is_one(q->c, x)) return true;
  if (t->n == MAX_FACTORS) return false;
  factor f = {.x = in_space(q->c, s, x, 0), .level = level_of(q, x), .under = under};
  f.same = same_along(s, f.x, 0);
  t->v[t->n++] = f;
  return true;
}

/* What x is a product of; what divides is the same along all that is summed up. */
static bool add_factors(const search *q, const space *s, tn_node *x, uint32_t along, term *t, int depth) {
  uint32_t first[TN_MAX_RANK + 1];
  if (depth == MAX_DEPTH) return add_factor(q, s, x, false, t);
  if (x->op == OP_NEG) t->negative = !t->negative;
  if (x->op == OP_NEG || (x->op == OP_RESHAPE && axes_of(s, x->src[0], first)))
    return add_factors(q, s, x->src[0], along, t, depth + 1);
  if (x->op == OP_MUL)
    return add_factors(q, s, x->src[0], along, t, depth + 1) && add_factors(q, s, x->src[1], along, t, depth + 1);
  if (x->op == OP_DIV && !(along & ~same_along(s, in_space(q->c, s, x->src[1], 0), 0)))
    return add_factors(q, s, x->src[0], along, t, depth + 1) && add_factor(q, s, x->src[1], true, t);
  return add_factor(q, s, x, false, t);
}

static bool is_rounded(const tn_node *x) {
  while (x->op == OP_NEG || x->op == OP_RESHAPE) x = x->src[0];
  return x->op == OP_MUL || x->op == OP_DIV || x->op == OP_ADD;
}

/* What x is a sum of, one term if it is not to be taken apart */
static bool add_terms(const search *q, const space *s, tn_node *x, uint32_t along, bool apart, bool negative,
                      terms *out, int depth) {
  uint32_t first[TN_MAX_RANK + 1];
  if (depth < MAX_DEPTH && (x->op == OP_NEG || (x->op == OP_RESHAPE && axes_of(s, x->src[0], first))))
    return add_terms(q, s, x->src[0], along, apart, negative != (x->op == OP_NEG), out, depth + 1);
  if (depth < MAX_DEPTH && apart && x->op == OP_ADD && is_rounded(x->src[0]) && is_rounded(x->src[1]))
    return add_terms(q, s, x->src[0], along, apart, negative, out, depth + 1) &&
           add_terms(q, s, x->src[1], along, apart, negative, out, depth + 1);
  if (out->n == MAX_TERMS) return false;
  term *t = &out->v[out->n++];
  *t = (term){.negative = negative};
  return add_factors(q, s, x, along, t, 0);
}

/* Has it nothing to do with the axes that are summed up together? */
static bool stands_behind(const factor *f, uint32_t together) { return !(together & ~f->same); }

/* The level of what is summed up.  False: of some term nothing is. */
static bool level_of_terms(const terms *of, uint32_t together, uint32_t *level) {
  *level = 0;
  for (uint32_t i = 0; i < of->n; i++) {
    bool some = false;
    for (uint32_t k = 0; k < of->v[i].n; k++) {
      const factor *f = &of->v[i].v[k];
      if (stands_behind(f, together)) continue;
      some = true;
      if (f->level > *level) *level = f->level;
    }
    if (!some) return false;
  }
  return true;
}

/* What has fewer large sums below it is not looked at. */
static bool is_made_of(const search *q, tn_node *x, const tn_node *sum) {
  tn__arena *a = &q->c->scratch;
  tn__mark work = tn__arena_mark(a);
  uint64_t least = level_of(q, sum), level;
  tn__nodes todo = {0};
  tn__map seen;
  bool found = false;
  tn__map_init(&seen, a);
  tn__vec_push(a, &todo, x);
  while (todo.n && !found) {
    tn_node *y = todo.v[--todo.n];
    found = y == sum;
    if (tn__map_getp(&seen, y) || (tn__map_get(&q->level, (uint64_t)(uintptr_t)y, &level) && level < least)) continue;
    tn__map_putp(&seen, y, y);
    for (uint32_t i = 0; i < y->nsrc; i++) tn__vec_push(a, &todo, y->src[i]);
  }
  tn__arena_rewind(a, work);
  return found;
}

static uint32_t list_axes(uint32_t set, int64_t *axes) {
  uint32_t n = 0;
  for (uint32_t i = 0; set >> i; i++)
    if (set >> i & 1) axes[n++] = i;
  return n;
}

/* The sums of x, in the space, over the axes that all have in common */
static tn_node *sums_of(tn_ctx *c, const group *g, tn_node *x) {
  int64_t axes[TN_MAX_RANK];
  tn__dims own = dims_of(c, &g->space, all_of(&g->space) & ~g->together);
  tn_node *v = tn__reduce(c, OP_SUM, x, axes, list_axes(g->together, axes));
  return tn__op1(c, OP_CONTIG, tn__reshape(c, v, own.d, own.rank));
}

/* a choice: either is right */
static bool is_kept(const search *q, const tn_node *n) {
  return tn__row_is_kept(q->t, tn__numel_guess(n->src[0]) / tn__numel_guess(n));
}

/* Is f the elements of one of the group's sums, of rows in several blocks, less what is made of that sum?  Then it is
 * by[0], these less the mean of their block, and by[1], that mean less the same. */
/* a choice: no is right */
static bool is_about_mean(const search *q, const group *g, const factor *f, factor by[2]) {
  double n = elements_along(&g->space, g->together);
  if (!q->t->group || f->x->op != OP_ADD || !tn__row_is_kept(q->t, n)) return false;
  for (uint32_t i = 0; i < 2 * g->n; i++) {
    tn_node *sum = g->v[i / 2].sum, *x = f->x->src[i % 2], *less = f->x->src[1 - i % 2];
    bool in_blocks = g->v[i / 2].along != g->together && !is_kept(q, sum);
    if (!in_blocks || x != in_space(q->c, &g->space, sum->src[0], 0)) continue;
    if ((g->together & ~same_along(&g->space, less, 0)) || !is_made_of(q, less, sum)) continue;
    tn_node *mean = tn__expand(q->c, tn__op2_num(q->c, OP_DIV, sums_of(q->c, g, x), n), x->dim);
    by[0] = by[1] = *f;
    by[0].x = tn__sub(q->c, x, mean);
    by[1].x = tn__add(q->c, mean, less);
    by[1].same = same_along(&g->space, by[1].x, 0);
    return true;
  }
  return false;
}

/* Each term with such factors becomes two.  False: they are too many. */
static bool take_about_means(const search *q, const group *g, terms *of) {
  factor by[2];
  for (uint32_t i = 0; i < of->n; i++)
    for (uint32_t k = 0; k < of->v[i].n; k++) {
      if (of->v[i].v[k].under || !is_about_mean(q, g, &of->v[i].v[k], by)) continue;
      if (of->n == MAX_TERMS) return false;
      of->v[of->n] = of->v[i];
      of->v[i].v[k] = by[0];
      of->v[of->n++].v[k] = by[1];
    }
  return true;
}

static bool take_apart(const search *q, const group *g, one_sum *m) {
  terms apart = {0};
  uint32_t whole, other;
  m->of = (terms){0};
  bool good = add_terms(q, &g->space, m->sum->src[0], m->along, false, false, &m->of, 0) &&
              level_of_terms(&m->of, g->together, &whole);
  bool better = add_terms(q, &g->space, m->sum->src[0], m->along, true, false, &apart, 0) &&
                level_of_terms(&apart, g->together, &other) && (!good || other < whole);
  if (better) m->of = apart;
  return (good || better) && take_about_means(q, g, &m->of);
}

/* ---- which sums ---- */

/* Do launches take longer than memory for all that it adds up? */
/* a choice: either is right */
static bool are_few(const search *q, const tn_node *n) { return tn__launches_decide(q->t, tn__numel_guess(n->src[0])); }

/* a choice: either is right */
static bool is_large(const search *q, const tn_node *n) {
  if (n->op != OP_SUM || !tn__is_float(n->dtype) || tn__dtype_acc(n->dtype) != n->dtype) return false;
  double all = tn__numel_guess(n->src[0]);
  return are_known(n->src[0]) && (!are_few(q, n) || (q->t->group && !tn__row_is_kept(q->t, all)));
}

/* Is anything that they add up together made of the sum? */
static bool stands_in(const search *q, const group *g, const tn_node *sum) {
  for (uint32_t i = 0; i < g->n; i++)
    for (uint32_t t = 0; t < g->v[i].of.n; t++)
      for (uint32_t k = 0; k < g->v[i].of.v[t].n; k++) {
        const factor *f = &g->v[i].of.v[t].v[k];
        if (stands_behind(f, g->together) || f->level < level_of(q, sum)) continue;
        if (is_made_of(q, f->x, sum)) return true;
      }
  return false;
}

/* The group and n, if what all of them add up together is made of none of them and little is stored of it */
/* a choice: no is right */
static bool add_sum(const search *q, group *g, tn_node *n) {
  group to = *g;
  uint32_t first[TN_MAX_RANK + 1], nterms = 0;
  if (to.n == MAX_SUMS || !refine(&g->space, n->src[0], &to.space)) return false;
  to.together = all_of(&to.space);
  to.v[to.n++] = (one_sum){.sum = n};
  for (uint32_t i = 0; i < to.n; i++) {
    one_sum *m = &to.v[i];
    if (!axes_of(&to.space, m->sum->src[0], first)) return false;
    m->along = 0;
    for (uint32_t a = 0; a < m->sum->nint; a++)
      for (uint32_t k = first[m->sum->ints[a]]; k < first[m->sum->ints[a] + 1]; k++) m->along |= 1u << k;
    to.together &= m->along;
  }
  const one_sum *last = &to.v[to.n - 1];
  bool within = last->along != to.v[0].along && !(last->along & ~to.v[0].along);
  if (within && q->t->group) return false; /* as sums of blocks are, which one reading finds (moments.c) */
  for (uint32_t i = 0; i < to.n; i++) {
    if (!take_apart(q, &to, &to.v[i])) return false;
    nterms += to.v[i].of.n;
  }
  for (uint32_t i = 0; i < to.n; i++)
    if (stands_in(q, &to, to.v[i].sum)) return false;
  if (elements_along(&to.space, to.together) < 2.0 * STORED_SHARE * nterms) return false;
  *g = to;
  return true;
}

/* a choice: no is right */
static bool are_near(const search *q, const tn_node *a, const tn_node *b) {
  uint32_t x = level_of(q, a), y = level_of(q, b);
  return x <= y + NEAR_LEVELS && y <= x + NEAR_LEVELS && tn__numel_guess(a->src[0]) == tn__numel_guess(b->src[0]);
}

static bool is_in(const group *g, const tn_node *sum) {
  bool inside = false;
  for (uint32_t k = 0; k < g->n; k++) inside |= g->v[k].sum == sum;
  return inside;
}

/* Is another sum made of one of the group, whose rows a group of threads then goes through in any case? */
/* a choice: either is right */
static bool is_gone_on_with(const search *q, const group *g, const tn_node *sum) {
  for (uint32_t i = 0; i < q->sums.n; i++) {
    const tn_node *other = q->sums.v[i];
    if (!is_in(g, other) && are_near(q, sum, other) && is_made_of(q, other->src[0], sum)) return true;
  }
  return false;
}

/* Would several of them go through everything one after the other?  Over other axes each does, unless groups keep the
 * rows of both, or go on with those of one (which does not count where launches take longer); over the same axes where
 * one is made of another, if no group keeps these rows. */
/* a choice: no is right */
static bool is_worth_it(const search *q, const group *g) {
  for (uint32_t i = 0; i < g->n; i++)
    for (uint32_t k = 0; k < g->n; k++) {
      const one_sum *a = &g->v[i], *b = &g->v[k];
      bool same = a->along == b->along;
      if (is_kept(q, a->sum) || (!same && are_few(q, a->sum))) continue;
      if (same ? is_made_of(q, a->sum->src[0], b->sum) : !is_kept(q, b->sum) || !is_gone_on_with(q, g, b->sum))
        return true;
    }
  return false;
}

/* a choice: no is right */
static bool find_group(const search *q, tn_node *n, group *g) {
  *g = (group){0};
  if (is_kept(q, n) || tn__map_getp(&q->stored, n)) return false;
  for (uint32_t i = 0; i < n->src[0]->rank; i++)
    if (size_of(n->src[0], i) > 1) g->space.size[g->space.rank++] = size_of(n->src[0], i);
  if (!add_sum(q, g, n)) return false;
  for (uint32_t before = 0; g->n > before;) { /* others may fit once all have fewer axes in common */
    before = g->n;
    int tries = 0;
    for (uint32_t i = 0; i < q->sums.n && tries < MAX_TRIES; i++) {
      tn_node *other = q->sums.v[i];
      if (is_in(g, other) || tn__map_getp(&q->stored, other) || !are_near(q, n, other)) continue;
      add_sum(q, g, other);
      tries++;
    }
  }
  return g->n > 1 && is_worth_it(q, g);
}

/* ---- what replaces them ---- */

/* The product of all factors that are summed up, in an order that is the same wherever they are */
static tn_node *product_of(tn_ctx *c, const group *g, const term *t) {
  tn_node *all = NULL;
  uint64_t last = 0;
  bool first = true;
  for (;;) {
    tn_node *next = NULL;
    uint32_t often = 0;
    for (uint32_t i = 0; i < t->n; i++) {
      tn_node *x = t->v[i].x;
      if (stands_behind(&t->v[i], g->together) || (!first && x->serial <= last)) continue;
      if (next && x->serial > next->serial) continue;
      often = x == next ? often + 1 : 1;
      next = x;
    }
    if (!next) return all;
    last = next->serial;
    first = false;
    for (; often; often--) all = all ? tn__mul(c, all, next) : next;
  }
}

/* x, which is the same along the axes that are summed up together, without them */
static tn_node *narrowed(tn_ctx *c, const group *g, tn_node *x) {
  tn__dims size = dims_of(c, &g->space, all_of(&g->space) & ~g->together);
  tn_node *begin[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) begin[i] = tn__int(c, 0);
  return tn__shrink(c, x, begin, size.d, NULL);
}

/* Sums, and what replaces them */
typedef struct replaced {
  tn_node *old[MAX_SUMS], *by[MAX_SUMS];
  uint32_t n;
} replaced;

/* The term, added up over the axes that all have in common.  Factors behind it may be made of others of the sums. */
static tn_node *value_of(tn_ctx *c, const group *g, const term *t, const replaced *r) {
  tn_node *v = product_of(c, g, t);
  if (v) {
    v = sums_of(c, g, v);
  } else { /* nothing is left to be summed up: so often there is what stands behind */
    tn__dims own = dims_of(c, &g->space, all_of(&g->space) & ~g->together);
    v = tn__const_num(c, t->v[0].x->dtype, elements_along(&g->space, g->together));
    v = tn__scalar_to(c, v, own.d, own.rank);
  }
  for (uint32_t i = 0; i < t->n; i++) {
    if (!stands_behind(&t->v[i], g->together)) continue;
    tn_node *x = tn__substitute(c, narrowed(c, g, t->v[i].x), r->old, r->by, r->n);
    v = tn__op2(c, t->v[i].under ? OP_DIV : OP_MUL, v, x);
  }
  return t->negative ? tn__neg(c, v) : v;
}

static tn_node *made_of(tn_ctx *c, const group *g, const one_sum *m, const replaced *r) {
  int64_t axes[TN_MAX_RANK];
  tn_node *v = NULL;
  for (uint32_t i = 0; i < m->of.n; i++) {
    tn_node *x = value_of(c, g, &m->of.v[i], r);
    v = v ? tn__add(c, v, x) : x;
  }
  v = tn__reduce(c, OP_SUM, v, axes, list_axes(m->along & ~g->together, axes));
  return tn__reshape(c, v, m->sum->dim, m->sum->rank);
}

/* Those that others are made of come first. */
static tn_node *replace(const search *q, tn_node *sink, const group *g) {
  replaced r = {0};
  for (uint32_t level = 0; r.n < g->n; level++)
    for (uint32_t k = 0; k < g->n; k++) {
      if (level_of(q, g->v[k].sum) != level) continue;
      r.by[r.n] = made_of(q->c, g, &g->v[k], &r);
      r.old[r.n++] = g->v[k].sum;
    }
  return tn__substitute(q->c, sink, r.old, r.by, r.n);
}

static tn_node *moved(tn_node *x) { return x->op == OP_RESHAPE ? x->src[0] : x; }

/* Notes the large sums, the level of each node, and what is stored as it stands. */
static void survey(search *q, tn_node *sink) {
  tn__nodes all = {0};
  q->sums = (tn__nodes){0};
  tn__map_init(&q->level, &q->c->scratch);
  tn__map_init(&q->stored, &q->c->scratch);
  tn__topo(&q->c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    uint32_t level = 0;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      uint32_t below = level_of(q, n->src[s]);
      if (below > level) level = below;
      if (n->op == OP_CONTIG) tn__map_putp(&q->stored, moved(n->src[s]), n);
    }
    if (is_large(q, n)) {
      level++;
      tn__vec_push(&q->c->scratch, &q->sums, n);
    }
    tn__map_put(&q->level, (uint64_t)(uintptr_t)n, level);
  }
}

tn_node *tn__schedule_shared_sums(tn_ctx *c, tn_node *sink, const tn__target *t) {
  search q = {.c = c, .t = t};
  tn_node *given = sink;
  group g;
  tn__map_init(&q.alone, &c->scratch);
  if (c->mode == TN_MODE_STRICT) return sink;
  for (bool found = true; found;) {
    found = false;
    survey(&q, sink);
    for (uint32_t i = 0; i < q.sums.n && !found; i++) {
      tn_node *n = q.sums.v[i];
      if (tn__map_getp(&q.alone, n)) continue;
      if ((found = find_group(&q, n, &g))) sink = replace(&q, sink, &g);
      else tn__map_putp(&q.alone, n, n);
    }
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
