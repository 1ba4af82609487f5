/* What the neighbours that one thread takes have in common of random numbers: the words of one call of Philox, and what
 * is made of the same words.
 *
 * Needs neighbours (AX_UNROLL) cut.  What is drawn in their loop is written out for each of them, outside of it, where
 * equal ones are one node; in the loop stands a choice among these by the neighbour's number, which is a constant once
 * the loop is unrolled.  So four neighbours draw the four words of one block: their calls differ by the word alone (the
 * element is base | k, k a constant), and the compiler makes one of them.
 *
 * Step noted: draws(a): what the neighbours of range a draw stands in front of their loop. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { MOST = 16 }; /* neighbours */

typedef struct job {
  tn_ctx *c;
  tn__arena *a;
  tn_node *by;
  int64_t n;
  tn__map each;  /* node that depends on `by` -> what it is for each neighbour, none where that is not written out */
  tn__map drawn; /* nodes that random numbers are in */
} job;

/* ---- elements ---- */

enum { STEPS = 6 };

typedef struct element { /* an index, and what is done to it, the last first: ADD, MUL, AND, OR by constants, of u64 */
  tn_node *index, *step[STEPS];
  int n;
} element;

/* Of 64 bits that wrap */
static bool is_wide(const tn_node *x) { return x->dtype == TN_U64 || x->dtype == TN_I64 || x->dtype == TN__INDEX; }

/* a choice: no is right */
static bool find_index(tn_node *x, element *out) {
  for (out->n = 0; x->dtype != TN__INDEX; x = x->src[0]) {
    bool step = x->op == OP_ADD || x->op == OP_MUL || x->op == OP_AND || x->op == OP_OR;
    if (step && out->n < STEPS && x->src[1]->op == OP_CONST) out->step[out->n++] = x;
    else if (x->op != OP_CAST || !is_wide(x->src[0])) return false;
  }
  out->index = x;
  return true;
}

/* What is done to an index that is `apart` more than a multiple is done to `apart` alone: the multiple is multiplied by
 * *times, and what is set or cleared are bits that it has not (`low`).  False where that, or a sum, goes beyond. */
static bool apply(const element *e, uint64_t apart, uint64_t low, uint64_t *times, uint64_t *plus) {
  bool lost = false;
  *times = 1, *plus = apart;
  for (int i = e->n; i && i--;) {
    uint64_t k = (uint64_t)e->step[i]->src[1]->ints[0];
    switch (e->step[i]->op) {
    case OP_ADD: lost |= __builtin_add_overflow(*plus, k, plus); break;
    case OP_AND: lost |= (k | low) != UINT64_MAX, *plus &= k; break;
    case OP_OR: lost |= k > low, *plus |= k; break;
    default: lost |= __builtin_mul_overflow(*plus, k, plus) || __builtin_mul_overflow(*times, k, times);
    }
  }
  return !lost;
}

/* Neighbour v's element as the first one's index, times a constant, and a constant: sums and products wrap the same way
 * in all of these dtypes.  The word of a block is set, not added, for a compiler to see that the block is the same. */
static tn_node *from_first(tn_ctx *c, tn_node *first, tn_node *v) {
  element a, b;
  int64_t apart;
  uint64_t times, plus;
  if (!find_index(first, &a) || !find_index(v, &b) || !tn__divisible(a.index, 2)) return v;
  uint64_t low = tn__divisible(a.index, 4) ? 3 : 1;
  if (!tn__const_int(tn__simplify_index(c, tn__sub(c, b.index, a.index)), &apart) || apart < 0 ||
      !apply(&b, (uint64_t)apart, low, &times, &plus))
    return v;
  tn_node *x = tn__cast(c, tn__cast(c, a.index, TN_I64), TN_U64);
  if (times != 1) x = tn__op2(c, OP_MUL, x, tn__const_bits(c, TN_U64, times));
  if (plus & ~low) x = tn__op2(c, OP_ADD, x, tn__const_bits(c, TN_U64, plus & ~low));
  return plus & low ? tn__op2(c, OP_OR, x, tn__const_bits(c, TN_U64, plus & low)) : x;
}

/* ---- one for each neighbour ---- */

static tn_node **each_of(const job *j, const tn_node *n) { return tn__map_getp(&j->each, n); }

static tn_node *for_neighbour(const job *j, tn_node *n, int64_t v) {
  tn_node *src[3], *number = tn__int(j->c, v), *by = j->by;
  if (n->dtype == TN__INDEX) return tn__simplify_index(j->c, tn__substitute(j->c, n, &by, &number, 1));
  for (uint32_t s = 0; s < n->nsrc; s++) src[s] = each_of(j, n->src[s]) ? each_of(j, n->src[s])[v] : n->src[s];
  if (n->op == OP_PHILOX && each_of(j, n->src[0])) src[0] = from_first(j->c, each_of(j, n->src[0])[0], src[0]);
  return tn__node_make(j->c, &(tn__make){.op = n->op,
                                         .dtype = n->dtype,
                                         .src = src,
                                         .nsrc = n->nsrc,
                                         .ints = n->ints,
                                         .nint = n->nint,
                                         .device = -1});
}

static void write_out(job *j, tn_node *n) {
  tn_node **all = tn__arena_alloc(j->a, (size_t)j->n * sizeof(tn_node *));
  for (int64_t v = 0; v < j->n; v++) all[v] = for_neighbour(j, n, v);
  tn__map_putp(&j->each, n, all);
}

static int64_t different(const job *j, tn_node *const *all) {
  int64_t n = 0;
  for (int64_t v = 0; v < j->n; v++) {
    bool seen = false;
    for (int64_t w = 0; w < v; w++) seen |= all[w] == all[v];
    n += !seen;
  }
  return n;
}

/* all[from .. to), by the neighbour's number */
static tn_node *choice(const job *j, tn_node *const *all, int64_t from, int64_t to) {
  bool same = true;
  for (int64_t v = from + 1; v < to; v++) same &= all[v] == all[from];
  if (same) return all[from];
  int64_t middle = (from + to + 1) / 2;
  return tn__where(j->c, tn__op2(j->c, OP_LT, j->by, tn__int(j->c, middle)), choice(j, all, from, middle),
                   choice(j, all, middle, to));
}

/* ---- a body ---- */

/* Does it depend on the neighbour, and by arithmetic alone?  Loads and sums stay in the loop, and all that is made of
 * them. */
/* a choice: no is right */
static bool is_arithmetic(const job *j, const tn__ranges *r, const tn_node *n) {
  uint64_t by = 1ull << tn__range_at(r, j->by);
  if (n == j->by) return true;
  if (!tn__is_elementwise(n) || !(tn__free_of(r, n) & by)) return false;
  for (uint32_t s = 0; s < n->nsrc; s++)
    if ((tn__free_of(r, n->src[s]) & by) && !each_of(j, n->src[s])) return false;
  return true;
}

static tn_node *share(job *j, tn_node *body) {
  tn__nodes old = {0}, new_ = {0};
  tn__ranges r;
  tn__ranges_find(j->c, j->a, body, &r);
  tn__map_init(&j->each, j->a);
  tn__map_init(&j->drawn, j->a);
  for (uint32_t i = 0; i < r.order.n; i++) {
    tn_node *n = r.order.v[i];
    bool drawn = n->op == OP_PHILOX;
    for (uint32_t s = 0; s < n->nsrc; s++) drawn |= tn__map_get(&j->drawn, (uintptr_t)n->src[s], NULL);
    if (drawn) tn__map_put(&j->drawn, (uintptr_t)n, 1);
    if (!is_arithmetic(j, &r, n)) continue;
    write_out(j, n);
    int64_t count = drawn ? different(j, each_of(j, n)) : j->n;
    if (!drawn || (n->op != OP_PHILOX && 2 * count > j->n)) continue;
    tn__vec_push(j->a, &old, n);
    tn__vec_push(j->a, &new_, choice(j, each_of(j, n), 0, j->n));
  }
  return tn__substitute(j->c, body, old.v, new_.v, old.n);
}

tn_node *tn__share_draws(tn__lowering *l, tn_node *body) {
  tn__nodes all = {0};
  bool draws = false;
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) draws |= all.v[i]->op == OP_PHILOX;
  for (uint32_t i = 0; i < all.n && draws; i++) {
    job j = {.c = l->c, .a = l->a, .by = all.v[i]};
    if (j.by->op != OP_RANGE || tn__axis_of(j.by) != AX_UNROLL || !tn__const_int(j.by->src[0], &j.n)) continue;
    tn_node *shared = j.n > 1 && j.n <= MOST ? share(&j, body) : body;
    if (shared != body) tn__sb_printf(&l->note, " draws(%lld)", tn__id_of(j.by));
    body = shared;
  }
  return body;
}
