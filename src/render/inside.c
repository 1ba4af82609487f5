/* Vector loops most of whose turns are inside: counters are compared in them, for the gates of loads and for choices,
 * and in nearly all vectors a comparison says the same in every lane.  Where one counter is compared with several
 * constants, as of the pieces of a concatenation, what lies between two of them is a case of its own, the largest
 * first.  See slices.c for what is printed. */
#include "render/lanes.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static const double MOST = 0.5;    /* of all vectors, which are worth forms of their own, */
static const double LEAST = 1.0 / 16; /* one of several */
static const int64_t FAR = (int64_t)1 << 61;

enum { UNKNOWN, FALSE, TRUE };

static uint64_t truth_of(const tn__printer *p, const tn_node *n) {
  uint64_t truth = UNKNOWN;
  tn__map_get(&p->inside.truth, (uintptr_t)n, &truth);
  return truth;
}

static bool is_far(const tn_node *n, int64_t step) {
  return n->lo < -FAR || n->hi > FAR || step < -INT32_MAX || step > INT32_MAX;
}

/* Is it a comparison of counters that move evenly, and not alike? */
static bool compares(const tn__printer *p, const tn_node *n) {
  if ((n->op != OP_LT && n->op != OP_LE) || n->src[0]->dtype != TN__INDEX) return false;
  const tn__lane_value *x = tn__lanes_value(p, n->src[0]), *y = tn__lanes_value(p, n->src[1]);
  return x->form != TN__LANES_VECTOR && y->form != TN__LANES_VECTOR && x->step != y->step &&
         !is_far(n->src[0], x->step) && !is_far(n->src[1], y->step);
}

/* In how many of the turns a comparison holds, were they spread evenly over what it may compare */
static double holds(const tn_node *n) {
  double least = (double)n->src[1]->lo - (double)n->src[0]->hi, most = (double)n->src[1]->hi - (double)n->src[0]->lo;
  if (least >= 0) return 1;
  return most <= 0 ? 0 : most / (most - least);
}

/* ... in how many vectors all lanes say what most say */
static double agreement(const tn__printer *p, const tn_node *n) {
  double span = (double)n->src[1]->hi - (double)n->src[0]->lo - ((double)n->src[1]->lo - (double)n->src[0]->hi);
  double step = (double)tn__lanes_value(p, n->src[1])->step - (double)tn__lanes_value(p, n->src[0])->step;
  double most = holds(n) < 0.5 ? 1 - holds(n) : holds(n), mixed = (step < 0 ? -step : step) * p->count / span;
  return most > mixed ? most - mixed : 0;
}

/* What a counter is made of in the loop, to stand in front of the choice; no: of what is loaded. */
static bool find_counters(tn__printer *p, uint32_t start, tn_node *n) {
  tn__nodes todo = {0};
  tn__vec_push(&p->c->scratch, &todo, n);
  while (todo.n) {
    tn_node *x = todo.v[--todo.n];
    uint64_t in = 0;
    if (!tn__map_get(&p->inside.member, (uintptr_t)x, &in) || in == start) continue;
    if (x->op == OP_LOAD || x->op == OP_GETACC || x->dtype != TN__INDEX) return false;
    for (uint32_t s = 0; s < x->nsrc; s++) tn__vec_push(&p->c->scratch, &todo, x->src[s]);
    tn__map_put(&p->inside.counter, (uintptr_t)x, 1);
  }
  return true;
}

/* What follows for a bool that is made of others */
static uint64_t follows(const tn__printer *p, const tn_node *n) {
  if (n->dtype != TN_BOOL || (n->op != OP_AND && n->op != OP_OR && n->op != OP_NOT)) return UNKNOWN;
  uint64_t x = truth_of(p, n->src[0]), y = n->op == OP_NOT ? UNKNOWN : truth_of(p, n->src[1]);
  if (n->op == OP_NOT) return x == UNKNOWN ? UNKNOWN : x == TRUE ? FALSE : TRUE;
  uint64_t decides = n->op == OP_AND ? FALSE : TRUE;
  return x == decides || y == decides ? decides : x == y ? x : UNKNOWN;
}

/* x compared with a constant: it is at most `last` where the comparison says `below`. */
typedef struct bound {
  tn_node *x;
  int64_t last;
  bool below;
} bound;

static bool is_bound(const tn_node *n, bound *b) {
  int64_t k;
  if (n->op != OP_LT && n->op != OP_LE) return false;
  if (tn__const_int(n->src[1], &k)) *b = (bound){n->src[0], k - (n->op == OP_LT), true};
  else if (tn__const_int(n->src[0], &k)) *b = (bound){n->src[1], k - (n->op == OP_LE), false};
  else return false;
  return true;
}

static int ascending(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

static int by_share(const void *x, const void *y) {
  const tn__inside_case *a = x, *b = y;
  if (a->share != b->share) return a->share < b->share ? 1 : -1;
  return (a->from > b->from) - (a->from < b->from);
}

/* The counter that most comparisons are of, and what lies between the constants */
static void find_cases(tn__printer *p) {
  tn__arena *a = &p->c->scratch;
  uint32_t most = 1;
  bound b, other;
  p->inside.along = NULL;
  for (uint32_t i = 0; i < p->inside.tests.n; i++) {
    uint32_t same = 0;
    if (!is_bound(p->inside.tests.v[i], &b) || b.x == p->inside.along) continue;
    for (uint32_t j = 0; j < p->inside.tests.n; j++) same += is_bound(p->inside.tests.v[j], &other) && other.x == b.x;
    if (same > most) most = same, p->inside.along = b.x;
  }
  tn_node *x = p->inside.along;
  if (!x) return;
  tn__vec(int64_t) last = {0};
  for (uint32_t i = 0; i < p->inside.tests.n; i++)
    if (is_bound(p->inside.tests.v[i], &b) && b.x == x && b.last >= x->lo && b.last < x->hi)
      tn__vec_push(a, &last, b.last);
  tn__vec_push(a, &last, x->hi);
  qsort(last.v, last.n, sizeof *last.v, ascending);
  double span = (double)x->hi - (double)x->lo + 1, mixed = fabs((double)tn__lanes_value(p, x)->step) * p->count / span;
  int64_t from = x->lo;
  for (uint32_t i = 0; i < last.n; from = last.v[i++] + 1)
    if (last.v[i] >= from) {
      tn__inside_case k = {from, last.v[i], ((double)last.v[i] - (double)from + 1) / span - mixed};
      tn__vec_push(a, &p->inside.cases, k);
    }
  qsort(p->inside.cases.v, p->inside.cases.n, sizeof *p->inside.cases.v, by_share);
}

/* Is the comparison one of those that tell the cases apart? */
static bool tells_cases(const tn__printer *p, const tn_node *n, bound *b) {
  return p->inside.along && is_bound(n, b) && b->x == p->inside.along;
}

void tn__inside_choose(tn__printer *p, uint32_t start, uint32_t end, uint32_t number) {
  const tn__inside_case *in = p->inside.along ? &p->inside.cases.v[number] : NULL;
  bound b;
  p->inside.number = number;
  tn__map_init(&p->inside.truth, &p->c->scratch);
  for (uint32_t i = 0; i < p->inside.tests.n; i++) {
    tn_node *n = p->inside.tests.v[i];
    bool truth = tells_cases(p, n, &b) ? (in->last <= b.last) == b.below : holds(n) >= 0.5;
    tn__map_put(&p->inside.truth, (uintptr_t)n, truth ? TRUE : FALSE);
  }
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    uint64_t truth = follows(p, n);
    if (truth != UNKNOWN) tn__map_put(&p->inside.truth, (uintptr_t)n, truth);
  }
}

void tn__inside_find(tn__printer *p, uint32_t start, uint32_t end) {
  double share = 1, others = 1;
  bound b;
  p->inside.tests.n = p->inside.cases.n = 0;
  p->inside.chosen = false;
  tn__map_init(&p->inside.counter, &p->c->scratch);
  tn__map_init(&p->inside.member, &p->c->scratch);
  for (uint32_t i = start; i < end; i++) tn__map_put(&p->inside.member, (uintptr_t)p->part->ins[i], i);
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (compares(p, n) && find_counters(p, start, n->src[0]) && find_counters(p, start, n->src[1]))
      tn__vec_push(&p->c->scratch, &p->inside.tests, n);
  }
  find_cases(p);
  for (uint32_t i = 0; i < p->inside.tests.n; i++)
    if (!tells_cases(p, p->inside.tests.v[i], &b)) others *= agreement(p, p->inside.tests.v[i]);
  uint32_t n = 0;
  for (share = p->inside.along ? 0 : 1; n < p->inside.cases.n && n < TN__INSIDE_CASES; n++) {
    if (n && p->inside.cases.v[n].share < LEAST) break;
    share += p->inside.cases.v[n].share;
  }
  p->inside.cases.n = n;
  p->inside.count = share * others < MOST ? 0 : p->inside.along ? n : p->inside.tests.n > 0;
}

bool tn__inside_counts(const tn__printer *p, const tn_node *n) {
  return tn__map_get(&p->inside.counter, (uintptr_t)n, NULL);
}

/* The operand of a comparison in the lane where it is nearest to being otherwise: the first, or the last */
static const char *in_lane(tn__printer *p, tn_node *n, bool last) {
  int64_t by = last ? tn__lanes_value(p, n)->step * (p->count - 1) : 0;
  const char *name = tn__print_name(p, n);
  return by ? tn__print_format(p, "%s + (%" PRId64 ")", name, by) : name;
}

/* Does every lane of x lie there? */
static void put_case(tn__printer *p, tn__sb *b, const tn__inside_case *in) {
  tn_node *x = p->inside.along;
  bool grows = tn__lanes_value(p, x)->step > 0, below = in->from > x->lo, above = in->last < x->hi;
  if (below) tn__sb_printf(b, "%" PRId64 " <= %s", in->from, in_lane(p, x, !grows));
  if (above) tn__sb_printf(b, "%s%s <= %" PRId64, below ? " && " : "", in_lane(p, x, grows), in->last);
  if (!below && !above) tn__sb_puts(b, "1"); /* as its bounds say, which what is written by hand is not simplified by */
}

const char *tn__inside_test(tn__printer *p) {
  tn__sb b;
  bound of;
  tn__sb_init(&b, &p->c->scratch);
  if (p->inside.along) put_case(p, &b, &p->inside.cases.v[p->inside.number]);
  for (uint32_t i = 0; i < p->inside.tests.n; i++) {
    tn_node *n = p->inside.tests.v[i];
    if (tells_cases(p, n, &of)) continue;
    bool truth = truth_of(p, n) == TRUE;
    bool grows = tn__lanes_value(p, n->src[1])->step > tn__lanes_value(p, n->src[0])->step; /* the difference */
    const char *x = in_lane(p, n->src[0], grows != truth), *y = in_lane(p, n->src[1], grows != truth);
    bool less = (n->op == OP_LT) == truth;
    tn__sb_printf(&b, "%s%s %s %s", b.n ? " && " : "", truth ? x : y, less ? "<" : "<=", truth ? y : x);
  }
  return tn__sb_str(&b);
}

/* n is what x is. */
static bool stand_for(tn__printer *p, tn_node *n, tn_node *x) {
  if (tn__lanes_value(p, x)->copied) tn__map_putp(&p->cells, n, tn__map_getp(&p->cells, x));
  else tn__map_putp(&p->name, n, tn__print_name(p, x));
  tn__map_putp(&p->lane, n, tn__lanes_value(p, x));
  return true;
}

bool tn__inside_known(tn__printer *p, tn_node *n) {
  static const tn__lane_value same = {.form = TN__LANES_SAME};
  uint64_t truth = p->inside.chosen ? truth_of(p, n) : UNKNOWN, first;
  if (!p->inside.chosen) return false;
  if (truth != UNKNOWN) {
    tn__map_putp(&p->name, n, (truth == TRUE ? "1" : "0"));
    tn__map_putp(&p->lane, n, &same);
    return true;
  }
  first = n->nsrc ? truth_of(p, n->src[0]) : UNKNOWN;
  if (n->op == OP_WHERE && first != UNKNOWN) /* what may stand in narrow lanes may be of different widths */
    return n->dtype != TN__INDEX && n->dtype != TN_I64 && stand_for(p, n, n->src[first == TRUE ? 1 : 2]);
  if (n->dtype != TN_BOOL || (n->op != OP_AND && n->op != OP_OR)) return false;
  /* the other one decides */
  if (first != UNKNOWN) return stand_for(p, n, n->src[1]);
  return truth_of(p, n->src[1]) != UNKNOWN && stand_for(p, n, n->src[0]);
}

int tn__inside_gate(const tn__printer *p, const tn_node *gate) {
  uint64_t truth = p->inside.chosen ? truth_of(p, gate) : UNKNOWN;
  return truth == UNKNOWN ? -1 : truth == TRUE;
}
