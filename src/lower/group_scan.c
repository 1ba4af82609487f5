/* A sum up to each turn of a long loop, by the threads of a group.
 *
 * Needs a body of such a loop, `turn`, and of others around it, all of which every store closes; the sum's own loop is
 * `term`, and other sums are the same for all turns: the threads share out their terms.  Gives one whose loop is a group's: a turn is lane * neighbours + neighbour, and
 *
 *   each thread sums up its neighbours one after the other, and keeps what it has at each;
 *   what each has at its last one stands in shared memory, in lines of some threads: one of them sums up a line;
 *   each adds up the lines before its own, and the threads of its own line before itself, and adds that to what it kept.
 *
 * So a group waits twice, however many its threads are, and the order of all additions is the same on every device that
 * has groups of so many threads.  Sums from the end on number threads, and neighbours, from the last one; what lies
 * beyond the last turn is neither loaded nor stored, and counts for none before it.
 *
 * Steps noted: scan(a,TxN): loop a by T threads, N neighbours each. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  FEWEST_OWN = 4,     /* neighbours of a thread, where memory has so many side by side: one wide access */
  USUAL_THREADS = 256 /* more only for what these have no room for */
};

typedef struct scan {
  tn__lowering *l;
  tn_ctx *c;
  const tn__run *of;
  int64_t turns, threads, own, line; /* threads of a line */
  tn__op by;
  tn_node *nothing; /* what changes no sum */
} scan;

static int64_t power_above(int64_t v) {
  int64_t p = 1;
  while (p < v) p *= 2;
  return p;
}

/* How many neighbours all accesses along the turn, or the term, have at multiples of as many */
/* a choice: any is right */
static int64_t neighbours_of(const scan *s, const tn__survey *v) {
  int64_t n = TN__SCAN_OWN;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *x = v->r.order.v[i];
    for (int k = 0; k < 2 && tn__is_access(x); k++) {
      tn_node *range = k ? s->of->term : s->of->turn;
      int64_t stride = tn__stride(&v->r, x->src[1], (uint32_t)tn__range_at(&v->r, range));
      if (stride != 1 && stride != -1) continue;
      tn_node *zero = tn__int(s->c, 0), *base = tn__substitute(s->c, x->src[1], &range, &zero, 1);
      base = tn__simplify_index(s->c, base);
      while (n > 1 && !tn__divisible(base, n)) n /= 2;
    }
  }
  return n;
}

/* a choice: any is right */
static void choose_sizes(scan *s, const tn__survey *v) {
  int64_t most = s->l->target->group, usual = USUAL_THREADS < most ? USUAL_THREADS : most;
  int64_t there = neighbours_of(s, v), want = power_above((s->turns + usual - 1) / usual);
  if (want < FEWEST_OWN) want = FEWEST_OWN;
  s->own = want < there ? want : there;
  while (s->own * most < s->turns) s->own *= 2;
  s->threads = power_above((s->turns + s->own - 1) / s->own);
  if (s->threads < s->l->target->subgroup) s->threads = s->l->target->subgroup;
  for (s->line = 1; s->line * s->line < s->threads;) s->line *= 2;
}

static tn_node *lanes(scan *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_UPCAST, ROLE_KEPT); }
static tn_node *neighbours(scan *s) { return tn__fresh_range(s->l, tn__int(s->c, s->own), AX_UNROLL, ROLE_KEPT); }

static tn_node *load(scan *s, tn_node *from, tn_node *at) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){from, at}, .nsrc = 2});
}

/* ---- what a thread keeps ---- */

static tn_node *registers(scan *s) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = s->nothing->dtype,
                                         .src = (tn_node *[]){tn__int(s->c, s->own * s->threads)},
                                         .nsrc = 1,
                                         .ints = (int64_t[]){s->l->next_local++, s->threads},
                                         .nint = 2,
                                         .device = -1});
}

/* A thread's element of them: of the form that kernel.h asks for */
static tn_node *slot(scan *s, tn_node *number, tn_node *lane) {
  tn_node *threads = tn__int(s->c, s->threads);
  tn_node *start = tn__node_make(
      s->c, &(tn__make){.op = OP_MUL, .dtype = TN__INDEX, .src = (tn_node *[]){number, threads}, .nsrc = 2});
  return tn__node_make(s->c,
                       &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = (tn_node *[]){start, lane}, .nsrc = 2});
}

static tn_node *from_end(scan *s, tn_node *x, int64_t n) { return tn__sub(s->c, tn__int(s->c, n - 1), x); }

static tn_node *turn_at(scan *s, tn_node *lane, tn_node *by) {
  return s->own == 1 ? tn__add(s->c, lane, by)
                     : tn__add(s->c, tn__mul(s->c, lane, tn__int(s->c, s->own)), by);
}

/* The term's value for a thread's neighbour; beyond the last turn nothing is loaded. */
static tn_node *value_at(scan *s, tn_node *lane, tn_node *by) {
  tn_node *at = turn_at(s, lane, by), *term = s->of->term;
  tn_node *value = tn__simplify_accesses(s->c, s->l->a, tn__substitute(s->c, s->of->value, &term, &at, 1));
  tn__ranges r;
  tn__ranges_find(s->c, s->l->a, value, &r);
  if (s->own * s->threads == s->turns || tn__range_at(&r, by) < 0) return value;
  return tn__gate_accesses(s->l, value, tn__op2(s->c, OP_LT, at, tn__int(s->c, s->turns)), by, NULL);
}

/* All values up to each of the thread's neighbours, itself among them, in the order in which they lie in memory */
static tn_node *summed_up(scan *s) {
  tn_node *lane = lanes(s, s->threads), *by = neighbours(s), *own[2] = {lane, by}, *value = value_at(s, lane, by),
          *at = slot(s, by, lane);
  if (s->of->back) { /* these are loaded forwards, as memory wants it */
    tn_node *kept = tn__filled(s->c, registers(s), at, value, own, 2);
    own[0] = lane = lanes(s, s->threads), own[1] = by = neighbours(s);
    at = slot(s, from_end(s, by, s->own), lane);
    value = load(s, kept, at);
  }
  int64_t combine = (int64_t)s->by;
  tn_node *sum = tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = (tn_node *[]){value, by}, .nsrc = 2,
                                                 .ints = &combine, .nint = 1});
  return tn__filled(s->c, registers(s), at, sum, own, 2);
}

/* ---- what threads tell each other ---- */

/* A line's threads lie one element further than the line before them ends, for lines to begin in other banks. */
static tn_node *in_line(scan *s, tn_node *line, tn_node *thread) {
  return tn__add(s->c, tn__mul(s->c, line, tn__int(s->c, s->line + 1)), thread);
}

static tn_node *number_of(scan *s, tn_node *lane) { return s->of->back ? from_end(s, lane, s->threads) : lane; }
static tn_node *line_of(scan *s, tn_node *n) { return tn__op2(s->c, OP_IDIV, n, tn__int(s->c, s->line)); }
static tn_node *place_of(scan *s, tn_node *n) { return tn__op2(s->c, OP_MOD, n, tn__int(s->c, s->line)); }

static tn_node *totals(scan *s, tn_node *kept) {
  tn_node *lane = lanes(s, s->threads), *number = number_of(s, lane);
  tn_node *total = load(s, kept, slot(s, tn__int(s->c, s->of->back ? 0 : s->own - 1), lane));
  tn_node *room = tn__scratch(s->l, total->dtype, s->threads / s->line * (s->line + 1));
  tn_node *at = in_line(s, line_of(s, number), place_of(s, number));
  return tn__filled(s->c, room, tn__simplify_index(s->c, at), total, &lane, 1);
}

static tn_node *sum_of(scan *s, tn_node *value, tn_node *range) {
  int64_t ints[2] = {(int64_t)s->by, 0};
  return tn__node_make(s->c, &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){value, range}, .nsrc = 2, .ints = ints,
                                         .nint = 2});
}

static tn_node *terms(scan *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_REDUCE, ROLE_APART); }

static tn_node *totals_of_lines(scan *s, tn_node *total) {
  int64_t lines = s->threads / s->line;
  tn_node *line = lanes(s, lines), *thread = terms(s, s->line);
  tn_node *sum = sum_of(s, load(s, total, in_line(s, line, thread)), thread);
  return tn__filled(s->c, tn__scratch(s->l, total->dtype, lines), line, sum, &line, 1);
}

/* Of the first n, those before number `end` */
static tn_node *sum_before(scan *s, tn_node *value, tn_node *range, tn_node *end) {
  return sum_of(s, tn__where(s->c, tn__op2(s->c, OP_LT, range, end), value, s->nothing), range);
}

/* All that stands before the thread's own */
static tn_node *before(scan *s, tn_node *total, tn_node *lane) {
  int64_t lines = s->threads / s->line;
  tn_node *number = number_of(s, lane), *own = line_of(s, number);
  tn_node *line = terms(s, lines), *thread = terms(s, s->line), *of_line = totals_of_lines(s, total);
  tn_node *far = sum_before(s, load(s, of_line, line), line, own);
  tn_node *near = sum_before(s, load(s, total, in_line(s, own, thread)), thread, place_of(s, number));
  return tn__op2(s->c, s->by, far, near);
}

/* What the thread has up to its neighbour, or before it */
static tn_node *own_part(scan *s, tn_node *kept, tn_node *lane, tn_node *by) {
  if (!s->of->beside) return load(s, kept, slot(s, by, lane));
  tn_node *zero = tn__int(s->c, 0), *last = tn__int(s->c, s->own - 1), *one = tn__int(s->c, 1);
  tn_node *other = s->of->back ? tn__op2(s->c, OP_MIN, tn__add(s->c, by, one), last)
                               : tn__op2(s->c, OP_MAX, tn__sub(s->c, by, one), zero);
  tn_node *any = s->of->back ? tn__op2(s->c, OP_LT, by, last) : tn__op2(s->c, OP_LT, zero, by);
  return tn__where(s->c, any, load(s, kept, slot(s, other, lane)), s->nothing);
}

/* ---- a body ---- */

/* May the threads share out its terms, all of them together? */
/* a choice: no is right */
static bool is_shared(const scan *s, const tn__survey *v, const tn_node *sum) {
  uint64_t free = tn__free_of(&v->r, sum), turn = 1ull << tn__range_at(&v->r, s->of->turn);
  uint32_t own = (uint32_t)tn__range_at(&v->r, sum->src[1]);
  return sum->nsrc == 2 && !(free & ~(v->outputs & ~turn)) && tn__is_const(sum->src[1]->src[0]) &&
         tn__axis_of(sum->src[1]) == AX_REDUCE && !tn__bounds_loops(&v->r, own) && sum->src[1] != s->of->term;
}

/* Do all stores go through the same loops, on all of which the sum hangs, and are others shared out? */
/* a choice: no is right */
static bool is_possible(const scan *s, const tn__survey *v) {
  uint64_t turn = 1ull << tn__range_at(&v->r, s->of->turn);
  if (v->common != v->outputs || !(v->common & turn) || v->running) return false;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *n = v->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_STOREADD || n->op == OP_AFTER) return false;
    if (n->op == OP_REDUCE && n != s->of->sum && !is_shared(s, v, n)) return false;
    if (n == s->of->sum && (v->outputs & ~tn__free_of(&v->r, n))) return false;
  }
  for (uint32_t k = 0; k < v->r.n; k++)
    if (tn__axis_of(v->r.range[k]) == AX_GLOBAL) return false;
  return true;
}

/* The sum over `term`, as it is in the body now */
static tn_node *find_sum(scan *s, tn_node *body) {
  tn__nodes all = {0};
  tn_node *sum = NULL;
  tn__topo(s->l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_REDUCE && all.v[i]->src[1] == s->of->term) sum = all.v[i];
  return sum;
}

/* The terms of other sums, a turn for each of the threads: beyond the last one they add nothing. */
static tn_node *share_out(scan *s, const tn__survey *v, tn_node *body) {
  tn_ctx *c = s->c;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    tn_node *n = v->r.order.v[i], *x = n->op == OP_REDUCE && n != s->of->sum ? n->src[1] : NULL, *cut[2];
    if (!x) continue;
    int64_t all = x->hi + 1, by = s->threads < power_above(all) ? s->threads : power_above(all);
    cut[0] = tn__range_like(c, x, tn__int(c, (all + by - 1) / by), AX_REDUCE);
    cut[1] = tn__fresh_range(s->l, tn__int(c, by), AX_UPCAST, tn__role_of(x));
    tn_node *at = tn__add(c, tn__mul(c, cut[0], tn__int(c, by)), cut[1]), *inside = tn__op2(c, OP_LT, at, x->src[0]);
    if (all % by) at = tn__op2(c, OP_MIN, at, tn__int(c, all - 1));
    body = tn__exchange_ranges(s->l, body, &x, &at, 1, cut, 2);
    if (all % by) body = tn__ignore_beyond(s->l, body, cut[1], inside);
  }
  return body;
}

tn_node *tn__run_in_group(tn__lowering *l, tn_node *body, const tn__run *of) {
  tn_ctx *c = l->c;
  scan s = {.l = l, .c = c, .of = of, .by = (tn__op)of->sum->ints[0], .turns = of->turn->hi + 1};
  tn__survey v;
  tn__survey_loops(c, l->a, body, &v);
  if (!tn__is_const(of->turn->src[0]) || of->turn->hi != of->term->hi || s.turns > tn__scan_turns(l->target) ||
      !is_possible(&s, &v))
    return NULL;
  choose_sizes(&s, &v);
  s.nothing = tn__const_bits(c, of->sum->dtype, tn__eval_reduce_init((int)s.by, of->sum->dtype));
  tn__sb_printf(&l->note, " scan(%lld,%lldx%lld)", tn__id_of(of->turn), (long long)s.threads, (long long)s.own);
  tn_node *turn = of->turn, *come[2] = {tn__fresh_range(l, tn__int(c, s.threads), AX_UPCAST, tn__role_of(turn)),
                                        tn__fresh_range(l, tn__int(c, s.own), AX_UNROLL, tn__role_of(turn))};
  tn_node *at = turn_at(&s, come[0], come[1]);
  body = share_out(&s, &v, body);
  body = tn__simplify_accesses(c, l->a, tn__exchange_ranges(l, body, &turn, &at, 1, come, 2));
  if (s.own * s.threads > s.turns)
    body = tn__gate_accesses(l, body, tn__op2(c, OP_LT, at, tn__int(c, s.turns)), come[1], NULL);
  tn_node *sum = find_sum(&s, body), *kept = summed_up(&s);
  tn_node *all = tn__op2(c, s.by, before(&s, totals(&s, kept), come[0]), own_part(&s, kept, come[0], come[1]));
  l->threads = (int)s.threads;
  return tn__substitute(c, body, &sum, &all, 1);
}
