/* Sums over all rows beside what is done for each row (schedule/row_sums.c says when; the rows' own ranges then have
 * the role ROW, those of the sums ROW_SUM).
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
  UNIT_SHARE = 4,    /* of the threads that a unit may have: each needs the registers of so many */
  MIN_ROWS = 8       /* of a block */
};

/* The ranges of a role that n closes, by their numbers: a store closes them in the order of its axes, which need not be
 * the one in which they were opened. */
static uint32_t closed_by(const tn_node *n, tn__role role, tn_node **out) {
  uint32_t first, count = 0;
  if (!tn__closes(n, &first)) return 0;
  for (uint32_t s = first; s < n->nsrc; s++) {
    if (tn__role_of(n->src[s]) != role) continue;
    uint32_t at = count++;
    for (; at && tn__id_of(out[at - 1]) > tn__id_of(n->src[s]); at--) out[at] = out[at - 1];
    out[at] = n->src[s];
  }
  return count;
}

/* So of the first node that closes any */
static uint32_t ranges_of(const tn__ranges *r, tn__role role, tn_node **out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->order.n && !n; i++) n = closed_by(r->order.v[i], role, out);
  return n;
}

tn_node *tn__unite_rows(tn__lowering *l, tn_node *body, tn_node **rows) {
  tn__ranges r;
  tn_node *own[TN__MAX_RANGES], *sum[TN__MAX_RANGES];
  *rows = NULL;
  tn__ranges_find(l->c, l->a, body, &r);
  uint32_t n = ranges_of(&r, ROLE_ROW_SUM, sum), of = ranges_of(&r, ROLE_ROW, own);
  if (!n) return body;
  if (of && n != of) tn__fail(l->c, TN_ERUN, "internal: sums over %u loops of rows, of which there are %u", n, of);
  for (uint32_t i = 0; i < of; i++)
    if (own[i]->src[0] != sum[i]->src[0])
      tn__fail(l->c, TN_ERUN, "internal: a sum over other rows than there are, loop %u of %u", i, n);
  for (uint32_t i = 0; i < of; i++) /* none where nothing is stored for the rows themselves */
    tn__sb_printf(&l->note, " beside(%lld,%lld)", tn__id_of(own[i]), tn__id_of(sum[i]));
  body = tn__simplify_accesses(l->c, l->a, tn__substitute(l->c, body, own, sum, of));
  *rows = sum[0];
  if (n > 1) body = tn__as_one(l, body, sum, n, AX_REDUCE, rows);
  return tn__share_loops(l, body);
}

int tn__row_threads(const tn__target *target, double columns) {
  int n = target->subgroup;
  while (n * ROW_SHARE < columns && 2 * n <= target->group) n *= 2;
  return n;
}

/* a choice: either is right */
int64_t tn__groups_of_unit(const tn__target *target, double columns) {
  int64_t n = target->unit_threads / UNIT_SHARE / tn__row_threads(target, columns);
  return n > 1 ? n : 1;
}

/* a choice: either is right */
int64_t tn__row_groups(const tn__target *target, double rows, double columns) {
  int64_t n = target->units * tn__groups_of_unit(target, columns);
  return (double)n * MIN_ROWS > rows ? (int64_t)(rows / MIN_ROWS) + 1 : n;
}

/* ---- sums kept beside the loop ---- */

/* Loops over held columns: `start` for their zeroes, `end` for what comes of them.  All sums share these. */
typedef enum held_loop { HELD_START, HELD_ROWS, HELD_END } held_loop; /* ROWS: the rows' own */

typedef struct held { /* by number of columns: one for each of a body's sums */
  tn__lowering *l;
  tn_ctx *c;
  tn_node *column[TN__MAX_RANGES];    /* the sum's ranges without the block */
  uint32_t n;
  tn__nodes known, fresh[HELD_END + 1];
} held;

static tn_node *loop_of(held *h, tn_node *column, held_loop which) {
  uint32_t i = 0;
  if (which == HELD_ROWS) return column;
  while (i < h->known.n && h->known.v[i] != column) i++;
  if (i == h->known.n) {
    tn__vec_push(h->l->a, &h->known, column);
    for (held_loop w = HELD_START; w <= HELD_END; w += HELD_END - HELD_START)
      tn__vec_push(h->l->a, &h->fresh[w], tn__fresh_range(h->l, column->src[0], AX_LOOP, ROLE_HELD));
  }
  return h->fresh[which].v[i];
}

/* The column's number */
static tn_node *place_of(held *h, held_loop which, tn_node **range) {
  tn_node *at = tn__int(h->c, 0);
  for (uint32_t i = 0; i < h->n; i++) {
    range[i] = loop_of(h, h->column[i], which);
    at = tn__add(h->c, tn__mul(h->c, at, h->column[i]->src[0]), range[i]);
  }
  return at;
}

static tn_node *put(held *h, tn__op op, tn_node *buf, tn_node *value, tn_node *row) {
  tn_node *src[TN__MAX_RANGES + 4] = {buf, NULL, value, row};
  uint32_t m = row ? 4 : 3;
  src[1] = place_of(h, row ? HELD_ROWS : HELD_START, src + m);
  return tn__node_make(h->c, &(tn__make){.op = op, .src = src, .nsrc = m + h->n});
}

/* Zeroes for each block; added to in each row, where the row's own stores stand; stored for the block. */
static tn_node *hold(held *h, const tn_node *store) {
  tn_ctx *c = h->c;
  h->n = 0;
  tn_node *sum = store->src[2], *block = NULL, *size = tn__int(c, 1), *own[TN__MAX_RANGES];
  uint32_t first;
  tn__closes(store, &first);
  for (uint32_t s = first; s < store->nsrc; s++) {
    if (tn__role_of(store->src[s]) == ROLE_BLOCK) {
      block = store->src[s];
      continue;
    }
    h->column[h->n++] = store->src[s];
    size = tn__mul(c, size, store->src[s]->src[0]);
  }
  tn_node *local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = sum->dtype,
                                                .src = (tn_node *[]){size, block},
                                                .nsrc = 2,
                                                .ints = (int64_t[]){h->l->next_local++, 0},
                                                .nint = 2,
                                                .device = -1});
  tn_node *zero = tn__const_bits(c, sum->dtype, tn__eval_reduce_init(OP_ADD, sum->dtype));
  tn_node *sums = tn__behind(c, local, put(h, OP_STORE, local, zero, NULL));
  sums = tn__behind(c, local, put(h, OP_STOREADD, sums, sum->src[0], sum->src[1]));
  tn_node *load[2] = {sums, NULL}, *src[TN__MAX_RANGES + 4] = {store->src[0], NULL, NULL, block};
  load[1] = place_of(h, HELD_END, own);
  src[1] = tn__substitute(c, store->src[1], h->column, own, h->n);
  src[2] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = load, .nsrc = 2});
  for (uint32_t i = 0; i < h->n; i++) src[4 + i] = own[i];
  return tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = 4 + h->n});
}

/* Does the row reduce anything for itself? */
static bool reduces_in(const tn__ranges *r, uint32_t row) {
  for (uint32_t i = 0; i < r->order.n; i++)
    if (r->order.v[i]->op == OP_REDUCE && (tn__free_of(r, r->order.v[i]) >> row & 1)) return true;
  return false;
}

bool tn__is_held(const tn__ranges *r, const tn_node *store) {
  const tn_node *sum = store->src[2];
  if (store->op != OP_STORE || sum->op != OP_REDUCE || sum->ints[0] != OP_ADD || sum->nsrc != 2 || tn__gate_of(store))
    return false;
  return tn__role_of(sum->src[1]) == ROLE_ROW_SUM && reduces_in(r, (uint32_t)tn__range_at(r, sum->src[1]));
}

/* Bytes of what is held of such a store's columns */
static double held_bytes(const tn_node *store) {
  double bytes = (double)tn__size_of(store->src[2]->dtype);
  uint32_t first;
  tn__closes(store, &first);
  for (uint32_t s = first; s < store->nsrc; s++)
    if (tn__role_of(store->src[s]) != ROLE_BLOCK) bytes *= tn__extent(store->src[s]);
  return bytes;
}

tn_node *tn__hold_columns(tn__lowering *l, tn_node *part) {
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  uint32_t row = 0;
  tn__ranges_find(l->c, l->a, part, &r);
  while (row < r.n && tn__role_of(r.range[row]) != ROLE_ROW_SUM) row++;
  if (row == r.n) return part;
  tn_node *rows = r.range[row], *loop = tn__range(l->c, rows->src[0], AX_LOOP, ROLE_ROW_LOOP, rows->ints[RANGE_ID]);
  held h = {.l = l, .c = l->c};
  double room = tn__room_left(l);
  for (uint32_t i = 0; i < part->nsrc; i++) {
    tn_node *x = part->src[i];
    if (!tn__is_held(&r, x) || x->src[2]->src[1] != rows) continue;
    room -= held_bytes(x);
    tn__vec_push(l->a, &old, x);
    tn__vec_push(l->a, &new_, hold(&h, x));
  }
  /* Schedules have seen to it that there is room (schedule/row_sums.c).  Loops that a user wrote go on without, or are
   * refused where their rows need the loop for something else (linearise.c). */
  if (!old.n || room < 0) return part;
  tn__sb_printf(&l->note, " hold(%lld)", tn__id_of(rows));
  part = tn__substitute(l->c, part, old.v, new_.v, old.n);
  return tn__substitute(l->c, part, &rows, &loop, 1);
}
