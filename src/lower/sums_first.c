/* Sums of rows that elements are made of which are stored across these rows, for devices whose lanes are those of
 * vectors.
 *
 *   first(a,b)      the sums over loop b of all turns of loop a of outputs are a part of their own, before the elements
 *
 * A matrix of distances has a sum for each of its columns (of squares, of a row of the other operand), and is stored
 * by rows.  In one part with its sum each column would be stored element by element, every one in another line of
 * memory, all of which are fetched and written once for each column.  Behind a part for the sums, elements are stored
 * as memory lies. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  LONG_ROW = 64,             /* has lanes of its own: those of shorter ones go across rows, as elements are stored */
  FEWEST_ELEMENTS = 1 << 14, /* that are worth another part, */
  FEWEST_ROWS = 4            /* and of a column */
};

typedef struct first {
  tn__survey p;
  tn_node *sum;
  uint64_t rows;   /* the loops of outputs that it hangs on, */
  uint32_t column; /* and the one of these along which elements are stored */
} first;

/* The only sum, of a part with one store */
/* a choice: no is right */
static bool find_sum(first *f) {
  const tn__nodes *all = &f->p.r.order;
  const tn_node *store = NULL;
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *n = all->v[i];
    if (n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER || n->op == OP_RUNNING) return false;
    if ((n->op == OP_REDUCE && f->sum) || (n->op == OP_STORE && store)) return false;
    if (n->op == OP_REDUCE) f->sum = n;
    if (n->op == OP_STORE) store = n;
  }
  if (!f->sum || !store || f->sum->nsrc != 2 || f->p.common != f->p.outputs) return false;
  f->rows = tn__free_of(&f->p.r, f->sum);
  for (uint32_t k = 0; k < f->p.r.n; k++) {
    if (!(f->rows >> k & 1)) continue;
    if (!tn__is_even(&f->p, k)) return false;
    if (tn__stride(&f->p.r, store->src[1], k) == 1) f->column = k;
  }
  return f->column < f->p.r.n && (tn__own_of(&f->p.r, store) & f->p.outputs) == f->p.outputs;
}

/* Is the sum one of long rows, along which memory lies, and each of many elements? */
/* a choice: no is right */
static bool is_worth_a_part(const first *f) {
  if (tn__volume(&f->p, tn__own_of(&f->p.r, f->sum)) < LONG_ROW || tn__walks_outputs(&f->p, f->rows)) return false;
  return tn__volume(&f->p, f->p.outputs) >= FEWEST_ELEMENTS &&
         tn__volume(&f->p, f->p.outputs & ~f->rows) >= FEWEST_ROWS;
}

/* Does all but the sum go along the column's loop, or hang on others alone? */
/* a choice: no is right */
static bool goes_across(const first *f) {
  for (uint32_t i = 0; i < f->p.r.order.n; i++) {
    const tn_node *n = f->p.r.order.v[i];
    if (!tn__is_access(n) || (tn__free_of(&f->p.r, n) & tn__own_of(&f->p.r, f->sum))) continue;
    int64_t step = tn__stride(&f->p.r, n->src[1], f->column);
    if (step && step != 1) return false;
  }
  return true;
}

/* The number of the buffer that the sums go to */
static int64_t free_slot(const first *f) {
  int64_t slot = 0;
  for (uint32_t i = 0; i < f->p.r.order.n; i++) {
    const tn_node *n = f->p.r.order.v[i];
    if (n->op == OP_PARAM && n->ints[0] >= slot) slot = n->ints[0] + 1;
  }
  return slot;
}

tn_node *tn__sums_first(tn__lowering *l, tn_node *body) {
  first f = {.column = UINT32_MAX};
  tn_ctx *c = l->c;
  tn__survey_loops(c, l->a, body, &f.p);
  if (f.p.running || !find_sum(&f) || !is_worth_a_part(&f) || !goes_across(&f)) return body;
  tn_node *old[TN__MAX_RANGES], *new_[TN__MAX_RANGES], *st[TN__MAX_RANGES + 4];
  tn_node *size = tn__int(c, 1), *at = tn__int(c, 0), *term = f.sum->src[1];
  uint32_t n = 0, m = 3;
  for (uint32_t k = 0; k < f.p.r.n; k++) {
    if (!(f.rows >> k & 1)) continue;
    tn_node *x = old[n] = f.p.r.range[k];
    new_[n++] = st[m++] = tn__fresh_range(l, x->src[0], AX_LOOP, tn__role_of(x));
    at = tn__add(c, tn__mul(c, at, x->src[0]), x);
    size = tn__mul(c, size, x->src[0]);
  }
  tn__sb_printf(&l->note, " first(%lld,%lld)", tn__id_of(f.p.r.range[f.column]), tn__id_of(term));
  old[n] = term, new_[n++] = tn__fresh_range(l, term->src[0], AX_REDUCE, tn__role_of(term));
  int64_t slot[] = {free_slot(&f), -1};
  st[0] = tn__node_make(
      c, &(tn__make){.op = OP_PARAM, .dtype = f.sum->dtype, .src = &size, .nsrc = 1, .ints = slot, .nint = 2});
  st[1] = tn__substitute(c, at, old, new_, n);
  st[2] = tn__substitute(c, f.sum, old, new_, n);
  tn_node *store = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = st, .nsrc = m});
  tn_node *from[] = {tn__behind(c, st[0], store), at};
  tn_node *load = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = from, .nsrc = 2});
  return tn__substitute(c, body, &f.sum, &load, 1);
}
