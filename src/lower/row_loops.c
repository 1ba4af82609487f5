/* Rows of several axes, for devices with work groups: each of their loops is one over all elements of the row.
 *
 * What is kept of a row is kept over one loop (rows.c), and the lanes of a group go along one.  A row of a tensor that
 * is viewed in another order lies in memory otherwise than its results are stored: what reduces it goes along memory,
 * in all loops in the same order, and so finds what the first of them kept; stores go back to the order of their own
 * once that is done, and what is kept is then looked up in the memory that the threads share.  Without that, each loop
 * would load the row again, and the store all but one element of each sector in vain.
 *
 * Needs a part of serial loops for which groups go through rows.  Steps noted:
 *   flat(a,b)     the loops of a row as one, outermost first; once more, those of stores, in the order of results */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

typedef struct stored { /* the loops of stores as one, and as they were */
  tn_node *flat, *x[TN__MAX_RANGES];
  uint32_t n, order[TN__MAX_RANGES]; /* of these, outermost first, as results lie */
  bool differs;
} stored;

/* The loops inside of rows that n closes, if all that closes some closes all of them, and nothing stands between; none
 * by which the row is but stored in several places */
/* a choice: no is right */
static uint64_t loops_of_row(const tn__survey *s, uint64_t rows, const tn_node *n) {
  uint64_t own = tn__own_of(&s->r, n) & ~rows & ~tn__spread_loops(s);
  if (__builtin_popcountll(own) < 2 || (tn__free_of(&s->r, n) & ~rows) || tn__stands_between(&s->r, own)) return 0;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    uint64_t other = tn__own_of(&s->r, s->r.order.v[i]) & own;
    if (other && other != own) return 0;
  }
  for (uint32_t k = 0; k < s->r.n; k++) {
    bool plain = tn__axis_of(s->r.range[k]) == (n->op == OP_REDUCE ? AX_REDUCE : AX_LOOP);
    if ((own >> k & 1) && (!plain || tn__bounds_loops(&s->r, k) || !tn__is_const(s->r.range[k]->src[0]))) return 0;
  }
  return own;
}

/* Bytes that lie side by side in what n stores, where its loops are x, outermost first */
/* a choice: any is right */
static int64_t run_of(const tn__survey *s, const tn_node *n, tn_node *const *x, uint32_t count) {
  int64_t run = 1;
  while (count && tn__step_of(s, n, x[count - 1]) == run) run *= x[--count]->src[0]->lo;
  return run * (int64_t)tn__size_of(tn__buffer_of(n)->dtype);
}

/* Is a row of these loops one that threads keep in registers?  Others find nothing there. */
/* a choice: either is right */
static bool fits_registers(const tn__lowering *l, tn_node *const *x, uint32_t n) {
  int64_t threads = l->variant->team > 1 ? l->variant->team : tn__usual_group(l->target);
  double row = 1;
  for (uint32_t i = 0; i < n; i++) row *= tn__extent(x[i]);
  return row <= (double)(threads * tn__row_slots(l, threads, 1));
}

/* What n stores lies by falling steps of x[order[i]].  Runs of whole sectors are stored in the other order as well,
 * from registers. */
static void as_stored(const tn__lowering *l, const tn__survey *s, const tn_node *n, tn_node *const *x, stored *out) {
  for (uint32_t i = 0; i < out->n; i++) {
    int64_t step = tn__step_of(s, n, x[i]);
    uint32_t at = i;
    for (; at && tn__step_of(s, n, x[out->order[at - 1]]) < step; at--) out->order[at] = out->order[at - 1];
    out->order[at] = i;
  }
  if (run_of(s, n, x, out->n) >= l->target->sector && fits_registers(l, x, out->n)) return;
  for (uint32_t i = 0; i < out->n; i++) out->differs |= out->order[i] != i;
}

/* The loops of a row that n closes, to be one, in `x`; 0: there are none.  Where neighbouring threads work on
 * neighbouring rows nothing is kept where others find it: stores stay as their results lie. */
/* a choice: 0 is right */
static uint32_t find_loops(const tn__lowering *l, const tn__survey *s, const tn_node *n, tn_node **x, stored *out) {
  uint64_t set = n->op == OP_REDUCE || n->op == OP_STORE ? loops_of_row(s, tn__rows_of(s), n) : 0;
  *out = (stored){0};
  out->n = set ? tn__as_memory_lies(s, set, x) : 0;
  if (n->op == OP_STORE) as_stored(l, s, n, x, out);
  for (uint32_t i = 0; i < out->n; i++) out->x[i] = x[i];
  return out->differs && l->variant->across ? 0 : out->n;
}

static void note_flat(tn__lowering *l, const stored *of, bool in_results) {
  for (uint32_t i = 0; i < of->n; i++)
    tn__sb_printf(&l->note, "%s%lld", i ? "," : " flat(", tn__id_of(of->x[in_results ? of->order[i] : i]));
  tn__sb_putc(&l->note, ')');
}

/* One more set of loops as one; false: there is none left. */
static bool flatten(tn__lowering *l, tn_node **part, stored *out) {
  tn__survey s;
  tn_node *x[TN__MAX_RANGES];
  uint32_t n = 0;
  tn__survey_loops(l->c, l->a, *part, &s);
  for (uint32_t i = 0; i < s.r.order.n && !n; i++) n = find_loops(l, &s, s.r.order.v[i], x, out);
  if (!n) return false;
  note_flat(l, out, false);
  *part = tn__as_one(l, *part, x, n, tn__axis_of(x[0]), &out->flat);
  return true;
}

/* Stores by the loop of that name go through their elements as these lie. */
static tn_node *go_back(tn__lowering *l, tn_node *part, const stored *of) {
  tn_ctx *c = l->c;
  tn_node *fresh = tn__fresh_range(l, of->flat->src[0], AX_LOOP, tn__role_of(of->flat)), *rest = fresh;
  tn_node *place[TN__MAX_RANGES], *at = tn__int(c, 0);
  for (uint32_t i = of->n; i && i--;) {
    uint32_t k = of->order[i];
    place[k] = i ? tn__op2(c, OP_MOD, rest, of->x[k]->src[0]) : rest;
    rest = tn__op2(c, OP_IDIV, rest, of->x[k]->src[0]);
  }
  for (uint32_t i = 0; i < of->n; i++) at = tn__add(c, tn__mul(c, at, of->x[i]->src[0]), place[i]);
  note_flat(l, of, true);
  part = tn__exchange_ranges(l, part, &of->flat, &at, 1, &fresh, 1);
  return tn__simplify_accesses(c, l->a, part);
}

tn_node *tn__keep_loops_of_rows(tn__lowering *l, tn_node *part) {
  stored flat[TN__MAX_RANGES];
  uint32_t n = 0;
  while (l->c->mode != TN_MODE_STRICT && n < TN__MAX_RANGES && flatten(l, &part, &flat[n])) n++;
  part = tn__keep_rows(l, part);
  for (uint32_t i = 0; i < n; i++)
    if (flat[i].differs) part = go_back(l, part, &flat[i]);
  return part;
}
