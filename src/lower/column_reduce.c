/* Few outputs, each a reduction across rows: a column's elements lie far apart, those of neighbouring columns side by
 * side.
 *
 *   fold(a,w,n)     a group takes w columns along a: n threads of it for each, then one that puts together what these
 *   have
 *
 * Needs a part of stores of such reductions, nothing else.  Gives it shared out: AX_GLOBAL and AX_UPCAST ranges (see
 * group.c). */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  ROWS_OF_THREAD = 8,
  MIN_ROWS = 16,
  MOST_LANES = 128    /* for a column */
};

typedef struct fold {
  tn__lowering *l;
  tn_ctx *c;
  tn_node *column, *rest; /* the columns' range: which group's, and which of its columns */
  tn_node *lane, *turn;   /* row turn * lanes + lane / width of column lane mod width */
  tn_node *part;          /* which of the threads that share a column, where one puts together what they have */
  int64_t width, lanes;
} fold;

/* Are all reductions over one and the same range, under outputs only, and all stores made of them? */
/* a choice: no is right */
static tn_node *row_range(const tn__survey *s) {
  tn_node *row = NULL;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_STOREADD) return NULL;
    if (n->op == OP_STORE && (tn__own_of(&s->r, n) != s->common)) return NULL;
    if (n->op != OP_REDUCE) continue;
    if (n->nsrc != 2 || (row && n->src[1] != row) || tn__free_of(&s->r, n) != s->common) return NULL;
    row = n->src[1];
  }
  for (uint32_t i = 0; i < s->r.n && row; i++)
    if (tn__free_of(&s->r, s->r.range[i]) & ~(1ull << i)) return NULL;
  return row;
}

/* a choice: either is right */
static int64_t element_bytes(const tn__survey *s) {
  int64_t size = 1;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    if (n->op == OP_LOAD && (int64_t)tn__size_of(n->dtype) > size) size = (int64_t)tn__size_of(n->dtype);
  }
  return size;
}

static tn_node *clamped(tn_ctx *c, tn_node *at, const tn_node *range) {
  return tn__simplify_index(c, tn__op2(c, OP_MIN, at, tn__add(c, range->src[0], tn__int(c, -1))));
}

/* The reduction x over rows, of column `own` of the group */
static tn_node *in_two(const fold *f, const tn_node *x, tn_node *own) {
  tn_ctx *c = f->c;
  tn_node *row = x->src[1], *width = tn__int(c, f->width), *cells = tn__int(c, f->width * f->lanes), *lane = f->lane;
  tn_node *init = tn__const_bits(c, x->dtype, tn__eval_reduce_init((int)x->ints[0], x->dtype));
  tn_node *at = tn__add(c, tn__mul(c, f->turn, tn__int(c, f->lanes)), tn__op2(c, OP_IDIV, lane, width));
  tn_node *column = tn__add(c, tn__mul(c, f->rest, width), tn__op2(c, OP_MOD, lane, width));
  tn_node *old[2] = {row, f->column}, *new_[2] = {clamped(c, at, row), clamped(c, column, f->column)};
  tn_node *value = tn__substitute(c, x->src[0], old, new_, 2), *inside = tn__op2(c, OP_LT, at, row->src[0]);
  if (!tn__divisible(row->src[0], f->lanes)) value = tn__where(c, inside, value, init);
  value = tn__node_make(
      c,
      &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){value, f->turn}, .nsrc = 2, .ints = x->ints, .nint = x->nint});
  tn_node *local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = x->dtype,
                                                .src = &cells,
                                                .nsrc = 1,
                                                .ints = (int64_t[]){f->l->next_local++, 0},
                                                .nint = 2,
                                                .device = -1});
  tn_node *store =
      tn__node_make(c, &(tn__make){.op = OP_STORE, .src = (tn_node *[]){local, lane, value, lane}, .nsrc = 4});
  tn_node *after = tn__behind(c, local, store);
  tn_node *k = f->part;
  tn_node *load = tn__node_make(
      c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){after, tn__add(c, tn__mul(c, k, width), own)}, .nsrc = 2});
  return tn__node_make(
      c, &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){load, k}, .nsrc = 2, .ints = x->ints, .nint = x->nint});
}

/* The best column range: that whose elements stand side by side */
/* a choice: either is right */
static int column_of(const tn__survey *s) {
  int best = -1;
  for (uint32_t k = 0; k < s->r.n; k++)
    if ((s->common >> k & 1) && (best < 0 || tn__walk_score(s, k) > tn__walk_score(s, (uint32_t)best))) best = (int)k;
  return best;
}

/* Threads that share out a column's rows: a power of two. */
static int64_t lanes_for(const tn__target *t, int64_t width, double rows) {
  int64_t n = 2;
  while ((double)n * 2 * ROWS_OF_THREAD <= rows && n < MOST_LANES && 2 * n * width <= t->group) n *= 2;
  return n;
}

tn_node *tn__column_reduce(tn__lowering *l, tn_node *part, int *group) {
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  const tn__target *t = l->target;
  tn__survey s;
  tn__survey_loops(c, a, part, &s);
  tn_node *row = c->mode == TN_MODE_STRICT ? NULL : row_range(&s);
  int at = row ? column_of(&s) : -1;
  if (at < 0 || !tn__walks_outputs(&s, s.common) || tn__volume(&s, s.common) >= (double)t->units * 2 * t->subgroup)
    return NULL;
  fold f = {.l = l, .c = c, .column = s.r.range[at], .width = t->sector / element_bytes(&s)};
  double rows = tn__extent(row);
  if (rows < MIN_ROWS || tn__extent(f.column) < (double)f.width) return NULL; /* a choice: either is right */
  f.lanes = lanes_for(t, f.width, rows);
  *group = (int)(f.width * f.lanes);
  tn__sb_printf(&l->note, " fold(%lld,%lld,%lld)", tn__id_of(f.column), (long long)f.width, (long long)f.lanes);
  /* the columns' range as group and column; stores close both, reductions are made anew */
  tn_node *by = tn__int(c, f.width), *size = f.column->src[0];
  tn_node *groups = tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, f.width - 1)), by));
  f.rest = tn__range_like(c, f.column, groups, AX_LOOP);
  tn_node *left = tn__sub(c, size, tn__mul(c, f.rest, by));
  tn_node *inner = tn__divisible(size, f.width) ? by : tn__simplify_index(c, tn__op2(c, OP_MIN, by, left));
  tn_node *own = tn__fresh_range(l, inner, AX_UPCAST, tn__role_of(f.column));
  f.lane = tn__fresh_range(l, tn__int(c, *group), AX_UPCAST, ROLE_COLUMN);
  f.turn = tn__fresh_range(
      l,
      tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, row->src[0], tn__int(c, f.lanes - 1)), tn__int(c, f.lanes))),
      AX_REDUCE, ROLE_COLUMN);
  f.part = tn__fresh_range(l, tn__int(c, f.lanes), AX_REDUCE, ROLE_COLUMN);
  tn__nodes old = {0}, new_ = {0};
  for (uint32_t i = 0; i < s.r.order.n; i++) {
    tn_node *x = s.r.order.v[i];
    if (x->op != OP_REDUCE) continue;
    tn__vec_push(a, &old, x);
    tn__vec_push(a, &new_, in_two(&f, x, own));
  }
  part = tn__substitute(c, part, old.v, new_.v, old.n);
  tn_node *place = tn__add(c, tn__mul(c, f.rest, by), own);
  return tn__exchange_ranges(l, part, &f.column, &place, 1, (tn_node *[]){f.rest, own}, 2);
}
