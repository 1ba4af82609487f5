/* Sums over all rows beside what is done for each row (schedule/row_sums.c says when; they then run over ranges
 * numbered from TN__R_BESIDE on).
 *
 *   beside(a,b)     the sums' range over the rows, b, takes the place of the rows' own, a
 *   hold(a)         of a group that goes through rows: sums over range a, one for each column, are kept beside the loop
 *
 * In between, the rows are cut into blocks as those of any split reduction are (optimise.c): a part that gives sums of
 * each block, and one that adds those up. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  ROW_SHARE = 16,    /* elements of a row for each thread: it keeps several rows of them */
  UNIT_THREADS = 512,
  MIN_ROWS = 8       /* of a block */
};

static bool is_beside(const tn_node *range) {
  return range->ints[0] == AX_REDUCE && range->ints[1] >= TN__R_BESIDE &&
         range->ints[1] < TN__R_BESIDE + TN__MAX_RANGES;
}

bool tn__is_turn(const tn_node *range) {
  return range->ints[0] == AX_LOOP && range->ints[1] >= TN__R_BESIDE && range->ints[1] < TN__R_BESIDE + TN__MAX_RANGES;
}

/* The rows' own range that x stands for, NULL: none does. */
static tn_node *partner(const tn__ranges *r, const tn_node *x) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->range[i]->ints[0] == AX_LOOP && r->range[i]->ints[1] == x->ints[1] - TN__R_BESIDE &&
        r->range[i]->src[0] == x->src[0])
      return r->range[i];
  return NULL;
}

tn_node *tn__unite_rows(tn_ctx *c, tn__arena *a, tn_node *body, tn__sb *note, tn_node **rows) {
  tn__ranges r;
  tn_node *old[TN__MAX_RANGES], *new_[TN__MAX_RANGES], *all[TN__MAX_RANGES];
  uint32_t pairs = 0, n = 0;
  *rows = NULL;
  tn__ranges_find(c, a, body, &r);
  for (uint32_t i = 0; i < r.order.n && !n; i++) /* as a sum closes them: outermost first */
    for (uint32_t s = 1; r.order.v[i]->op == OP_REDUCE && s < r.order.v[i]->nsrc; s++)
      if (is_beside(r.order.v[i]->src[s])) all[n++] = r.order.v[i]->src[s];
  if (!n) return body;
  for (uint32_t i = 0; i < n; i++) {
    tn_node *own = partner(&r, all[i]);
    if (!own) continue;
    tn__sb_printf(note, " beside(%lld,%lld)", (long long)own->ints[1], (long long)all[i]->ints[1]);
    old[pairs] = own;
    new_[pairs++] = all[i];
  }
  body = tn__simplify_accesses(c, a, tn__substitute(c, body, old, new_, pairs));
  *rows = all[0];
  if (n > 1) body = tn__as_one(c, a, body, all, n, AX_REDUCE, all[0]->ints[1], rows);
  return tn__share_loops(c, a, body, note);
}

int tn__row_threads(const tn__device *dev, double columns) {
  int n = 32;
  while (n * ROW_SHARE < columns && 2 * n <= dev->group) n *= 2;
  return n;
}

int64_t tn__groups_of_unit(const tn__device *dev, double columns) {
  int64_t n = UNIT_THREADS / tn__row_threads(dev, columns);
  return n > 1 ? n : 1;
}

int64_t tn__row_groups(const tn__device *dev, double rows, double columns) {
  int64_t n = dev->units * tn__groups_of_unit(dev, columns);
  return (double)n * MIN_ROWS > rows ? (int64_t)(rows / MIN_ROWS) + 1 : n;
}

/* ---- sums kept beside the loop ---- */

typedef struct held { /* by number of columns: one for each of a body's sums */
  tn_ctx *c;
  const tn_node *store;               /* of the sum, for its block */
  tn_node *column[TN__MAX_RANGES];    /* its ranges without the block */
  uint32_t n;
} held;

/* The column's number, over ranges of their own (`set` 1, 2) or the rows' */
static tn_node *place_of(const held *h, int set, tn_node **range) {
  tn_node *at = tn__int(h->c, 0);
  for (uint32_t i = 0; i < h->n; i++) {
    tn_node *x = h->column[i];
    range[i] = set ? tn__range(h->c, x->src[0], AX_LOOP, TN__R_HELD + set * TN__MAX_RANGES + x->ints[1]) : x;
    at = tn__add(h->c, tn__mul(h->c, at, x->src[0]), range[i]);
  }
  return at;
}

static tn_node *put(const held *h, tn__op op, tn_node *buf, tn_node *value, tn_node *turn, int set) {
  tn_node *src[TN__MAX_RANGES + 4] = {buf, NULL, value, turn};
  uint32_t m = turn ? 4 : 3;
  src[1] = place_of(h, set, src + m);
  return tn__node_make(h->c, &(tn__make){.op = op, .src = src, .nsrc = m + h->n});
}

static tn_node *after(tn_ctx *c, tn_node *buf, tn_node *effect) {
  return tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = (tn_node *[]){buf, effect}, .nsrc = 2});
}

/* Zeroes for each block; added to in each row, where the row's own stores stand; stored for the block. */
static tn_node *hold(tn_ctx *c, const tn_node *store, int64_t number) {
  held h = {.c = c, .store = store};
  tn_node *sum = store->src[2], *block = NULL, *size = tn__int(c, 1), *own[TN__MAX_RANGES];
  for (uint32_t s = 3; s < store->nsrc; s++) {
    if (store->src[s]->ints[1] == TN__R_BLOCK) {
      block = store->src[s];
      continue;
    }
    h.column[h.n++] = store->src[s];
    size = tn__mul(c, size, store->src[s]->src[0]);
  }
  tn_node *local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = sum->dtype,
                                                .src = (tn_node *[]){size, block},
                                                .nsrc = 2,
                                                .ints = (int64_t[]){number, 0},
                                                .nint = 2,
                                                .device = -1});
  tn_node *zero = tn__const_bits(c, sum->dtype, tn__eval_reduce_init(OP_ADD, sum->dtype));
  tn_node *sums = after(c, local, put(&h, OP_STORE, local, zero, NULL, 1));
  sums = after(c, local, put(&h, OP_STOREADD, sums, sum->src[0], sum->src[1], 0));
  tn_node *load[2] = {sums, NULL}, *src[TN__MAX_RANGES + 4] = {store->src[0], NULL, NULL, block};
  load[1] = place_of(&h, 2, own);
  src[1] = tn__substitute(c, store->src[1], h.column, own, h.n);
  src[2] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = load, .nsrc = 2});
  for (uint32_t i = 0; i < h.n; i++) src[4 + i] = own[i];
  return tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = 4 + h.n});
}

/* Does the row reduce anything for itself? */
static bool reduces_in(const tn__ranges *r, uint32_t row) {
  for (uint32_t i = 0; i < r->order.n; i++)
    if (r->order.v[i]->op == OP_REDUCE && (tn__free_of(r, r->order.v[i]) >> row & 1)) return true;
  return false;
}

tn_node *tn__hold_columns(tn_ctx *c, tn__arena *a, tn_node *part, int64_t *nlocal, tn__sb *note) {
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  uint32_t row = 0;
  tn__ranges_find(c, a, part, &r);
  while (row < r.n && !is_beside(r.range[row])) row++;
  if (row == r.n || !reduces_in(&r, row)) return part;
  for (uint32_t i = 0; i < part->nsrc; i++) {
    tn_node *x = part->src[i], *sum = x->src[2];
    if (sum->op != OP_REDUCE || sum->ints[0] != OP_ADD || sum->nsrc != 2 || sum->src[1] != r.range[row]) continue;
    tn__vec_push(a, &old, x);
    tn__vec_push(a, &new_, hold(c, x, (*nlocal)++));
  }
  if (!old.n) return part;
  tn__sb_printf(note, " hold(%lld)", (long long)r.range[row]->ints[1]);
  part = tn__substitute(c, part, old.v, new_.v, old.n);
  return tn__retype(c, part, r.range[row], AX_LOOP);
}
