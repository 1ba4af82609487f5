/* Vector loops most of whose turns are inside: counters are compared in them, for the gates of loads and for choices,
 * and in nearly all vectors a comparison says the same in every lane.  See slices.c for what is printed. */
#include "render/lanes.h"
#include <inttypes.h>

static const double MOST = 0.5; /* of all vectors, which are worth a form of their own */
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

bool tn__inside_find(tn__printer *p, uint32_t start, uint32_t end) {
  double share = 1;
  p->inside.tests.n = 0;
  p->inside.chosen = false;
  tn__map_init(&p->inside.truth, &p->c->scratch);
  tn__map_init(&p->inside.counter, &p->c->scratch);
  tn__map_init(&p->inside.member, &p->c->scratch);
  for (uint32_t i = start; i < end; i++) tn__map_put(&p->inside.member, (uintptr_t)p->part->ins[i], i);
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (compares(p, n) && find_counters(p, start, n->src[0]) && find_counters(p, start, n->src[1])) {
      tn__map_put(&p->inside.truth, (uintptr_t)n, holds(n) < 0.5 ? FALSE : TRUE);
      tn__vec_push(&p->c->scratch, &p->inside.tests, n);
      share *= agreement(p, n);
    } else {
      uint64_t truth = follows(p, n);
      if (truth != UNKNOWN) tn__map_put(&p->inside.truth, (uintptr_t)n, truth);
    }
  }
  if (share < MOST) p->inside.tests.n = 0;
  return p->inside.tests.n > 0;
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

const char *tn__inside_test(tn__printer *p) {
  tn__sb b;
  tn__sb_init(&b, &p->c->scratch);
  for (uint32_t i = 0; i < p->inside.tests.n; i++) {
    tn_node *n = p->inside.tests.v[i];
    bool truth = truth_of(p, n) == TRUE;
    bool grows = tn__lanes_value(p, n->src[1])->step > tn__lanes_value(p, n->src[0])->step; /* the difference */
    const char *x = in_lane(p, n->src[0], grows != truth), *y = in_lane(p, n->src[1], grows != truth);
    bool less = (n->op == OP_LT) == truth;
    tn__sb_printf(&b, "%s%s %s %s", i ? " && " : "", truth ? x : y, less ? "<" : "<=", truth ? y : x);
  }
  return tn__sb_str(&b);
}

/* n is what x is. */
static bool stand_for(tn__printer *p, tn_node *n, tn_node *x) {
  tn__map_putp(&p->name, n, tn__print_name(p, x));
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
