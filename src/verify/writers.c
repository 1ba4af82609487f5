#include "verify/writers.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "verify/bounds.h"
#include "verify/given.h"
#include <stdlib.h>

enum {
  MOST_TURNS = 1024,  /* that are tried */
  SOME_TURNS = 4,     /* of each loop, the first and the last, where not all are */
  FIRST_TWIN = 1 << 20 /* numbers of the loops that stand for another turn's */
};

__extension__ typedef __int128 wide;

/* Two turns that differ in the counter of `at_once`, and have those of `fixed` in common. */
typedef struct claim {
  tn_ctx *c;
  const tn__kernel *k;
  uint32_t part, at;
  tn_node *index, *gate, *at_once; /* gate: NULL if there is none */
  const tn__nodes *open;           /* the loops around the store */
  tn__map fixed;                   /* of those, the loops whose counters are the same */
  tn__map told;                    /* by form: what is the same if the addresses are */
  tn__given given;                 /* so, what holds in both turns, since both store */
  const char *why;                 /* what is wrong */
} claim;

/* ---- by form ----
 *
 * Where the addresses are equal, sums are equal; of a sum of terms k * x, each x is that is the only one to move it so
 * far, or so little: the greatest step is more than all others together can do, or the others move by multiples of
 * more than it can do.  Of s * u + y with 0 <= y < s, both are.  So from the address down to the counter. */

typedef struct term {
  int64_t k;
  tn_node *x;
} term;
typedef tn__vec(term) terms;

/* May what stands in the buffer change while the turns run?  Stages have what those before them stored. */
static bool may_change(const claim *q, const tn_node *buffer) {
  if (buffer->op != OP_PARAM) return true;
  if (!q->k->buf_written[buffer->ints[0]]) return false;
  return !tn__is_stage(q->k, q->part) || tn__stores_to(&q->k->part[q->part], buffer->ints[0]);
}

/* Is x the same in both turns?  What is made of nothing that differs is. */
static bool is_fixed(const claim *q, tn_node *x) {
  tn__nodes todo = {0};
  tn__map seen;
  tn__map_init(&seen, &q->c->scratch);
  tn__vec_push(&q->c->scratch, &todo, x);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&q->told, n) || tn__map_getp(&q->fixed, n) || tn__map_getp(&seen, n)) continue;
    tn__map_putp(&seen, n, n);
    if (n->op == OP_RANGE || n->op == OP_GETACC || n->op == OP_DATUM) return false;
    if (n->op == OP_LOAD && may_change(q, n->src[0])) return false;
    for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(&q->c->scratch, &todo, n->src[s]);
  }
  return true;
}

/* The terms k * x of a sum, and its constants as {k, NULL} */
static void list_terms(tn_ctx *c, tn_node *sum, terms *out) {
  tn__nodes todo = {0};
  tn__vec_push(&c->scratch, &todo, sum);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    int64_t k = 1;
    if (n->op == OP_ADD) {
      tn__vec_push(&c->scratch, &todo, n->src[0]);
      tn__vec_push(&c->scratch, &todo, n->src[1]);
    } else if (tn__const_int(n, &k)) {
      tn__vec_push(&c->scratch, out, ((term){k, NULL}));
    } else {
      if (n->op == OP_MUL && tn__const_int(n->src[1], &k)) n = n->src[0];
      tn__vec_push(&c->scratch, out, ((term){k, n}));
    }
  }
}

static tn_node *times(tn_ctx *c, tn_node *x, int64_t k) { return k == 1 ? x : tn__mul(c, x, tn__int(c, k)); }

/* Those that may differ in the two turns */
static void read_terms(const claim *q, tn_node *sum, terms *out) {
  terms all = {0};
  list_terms(q->c, sum, &all);
  out->n = 0;
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i].x && !is_fixed(q, all.v[i].x)) tn__vec_push(&q->c->scratch, out, all.v[i]);
}

/* Of two values of x, in turns that store both */
static wide most_apart(claim *q, tn_node *x) {
  int64_t lo = x->lo, hi = x->hi;
  if (q->k->nrequire) tn__given_range(q->c, &q->given, x, &lo, &hi);
  return (wide)hi - lo;
}

static wide size_of(int64_t k) { return k < 0 ? -(wide)k : k; }

/* Does term i move a sum further, or less far, than all others together can make good?  Sums wrap: what moves by 2^64
 * in all may meet itself. */
static bool is_told(claim *q, const terms *t, uint32_t i) {
  const wide far = (wide)1 << 64;
  wide others = 0, common = 0, own = 0;
  for (uint32_t j = 0; j < t->n; j++) {
    if (j != i && t->v[j].x == t->v[i].x) return false;
    wide k = size_of(t->v[j].k), a = k, b = common, apart = most_apart(q, t->v[j].x);
    wide moves = k && apart >= far / k + 1 ? far : k * apart;
    if (j == i) own = moves;
    else others = others + moves < far ? others + moves : far;
    while (b && j != i) {
      wide r = a % b;
      a = b;
      b = r;
    }
    if (j != i) common = a;
  }
  wide k = size_of(t->v[i].k);
  if (!k || own + others >= far) return false;
  return others < k || most_apart(q, t->v[i].x) < (common + k - 1) / k;
}

/* Do x and y differ by multiples of d alone? */
static bool have_one_rest(const claim *q, tn_node *x, tn_node *y, const tn_node *d) {
  const int64_t far = INT64_MAX / 2;
  int64_t by;
  if (x == y) return true;
  if (!tn__const_int(d, &by) || x->lo < 0 || y->lo < 0 || x->hi > far || y->hi > far) return false;
  return tn__divisible(tn__simplify_index(q->c, tn__sub(q->c, x, y)), by);
}

/* Is x / d the same as y / by, since y is itself x / (d / by)? */
static bool is_digit_of(const tn_node *x, const tn_node *d, const tn_node *y, const tn_node *by) {
  int64_t all, part, first;
  return y->op == OP_IDIV && y->src[0] == x && x->lo >= 0 && tn__const_int(d, &all) && tn__const_int(by, &part) &&
         tn__const_int(y->src[1], &first) && part > 0 && first > 0 && all % part == 0 && all / part == first;
}

/* Is y = k * x + r, 0 <= r < k, and by = k * d?  Then x / d is the same as y / by. */
static bool is_finer(const claim *q, tn_node *x, const tn_node *d, tn_node *y, const tn_node *by) {
  int64_t all, part;
  if (!tn__const_int(by, &all) || !tn__const_int(d, &part) || part < 1 || all <= part || all % part) return false;
  if (x->lo < 0 || y->lo < 0 || y->hi > INT64_MAX / 2 || x->hi > INT64_MAX / 2 / (all / part)) return false;
  const tn_node *rest = tn__simplify_index(q->c, tn__sub(q->c, y, times(q->c, x, all / part)));
  return rest->lo >= 0 && rest->hi < all / part;
}

/* x, where x / d and x mod d are the same in both turns, d > 0 in both; or y, where y mod e is, and y / e, which is
 * written as x / d; NULL */
static tn_node *of_digits(const claim *q, const tn__nodes *known, const tn_node *n) {
  if (n->op != OP_IDIV || !is_fixed(q, n->src[1])) return NULL;
  for (uint32_t i = 0; i < known->n; i++) {
    const tn_node *m = known->v[i];
    if (m->op != OP_MOD) continue;
    if (m->src[1] == n->src[1] && have_one_rest(q, n->src[0], m->src[0], n->src[1])) return n->src[0];
    if (is_digit_of(n->src[0], n->src[1], m->src[0], m->src[1])) return m->src[0];
    if (is_finer(q, n->src[0], n->src[1], m->src[0], m->src[1])) return m->src[0];
  }
  return NULL;
}

/* Is what term i moves a sum by more than all others come to, since their loops end where its next turn begins? */
static bool is_above_others(claim *q, const terms *t, uint32_t i) {
  tn_ctx *c = q->c;
  int64_t k = t->v[i].k;
  tn_node *others = tn__int(c, 0);
  if (k <= 1 || (wide)k * (most_apart(q, t->v[i].x) + 1) >= (wide)1 << 64) return false;
  for (uint32_t j = 0; j < t->n; j++) {
    if (j == i) continue;
    if (t->v[j].x == t->v[i].x) return false;
    others = tn__add(c, others, times(c, tn__given_exact(c, &q->given, t->v[j].x), t->v[j].k));
  }
  return tn__given_positive(c, &q->given, tn__simplify_index(c, others)) &&
         tn__given_positive(c, &q->given, tn__simplify_index(c, tn__sub(c, tn__int(c, k - 1), others)));
}

static void learn(claim *q, tn__nodes *known, tn_node *x) {
  if (tn__map_getp(&q->told, x)) return;
  tn__map_putp(&q->told, x, x);
  tn__vec_push(&q->c->scratch, known, x);
}

/* Does n hold what stands in its buffer, in both turns?  What a gate keeps from being loaded is 0. */
static bool is_loaded(const claim *q, const tn_node *n, tn__requirement what) {
  if (n->op != OP_LOAD || !tn__required(q->k, n->src[0], what)) return false;
  return n->nsrc == 2 || tn__given_holds(q->c, &q->given, n->src[2]);
}

/* x, where an integer made of it is the same in both turns, and no other x gives that integer: of a wider or as wide
 * a dtype, or loaded from there out of a buffer without equal elements; NULL */
static tn_node *of_one(const claim *q, tn_node *n) {
  if (is_loaded(q, n, REQ_DISTINCT) || is_loaded(q, n, REQ_PERMUTED)) return n->src[1];
  if (n->op != OP_CAST) return NULL;
  const tn_node *x = n->src[0];
  bool integers = !tn__is_float(n->dtype) && !tn__is_float(x->dtype) && n->dtype != TN_BOOL;
  return integers && tn__size_of(n->dtype) >= tn__size_of(x->dtype) ? n->src[0] : NULL;
}

/* Is low <= high in turns that store?  Of the least of two each must be known to be above, of the greatest below. */
static bool is_in_order(claim *q, tn_node *low, tn_node *high) {
  bool both = true;
  for (int i = 0; i < 2 && high->op == OP_MIN; i++) both &= is_in_order(q, low, high->src[i]);
  for (int i = 0; i < 2 && high->op != OP_MIN && low->op == OP_MAX; i++) both &= is_in_order(q, low->src[i], high);
  if (high->op == OP_MIN || low->op == OP_MAX) return both;
  tn_node *left = tn__sub(q->c, tn__given_exact(q->c, &q->given, high), tn__given_exact(q->c, &q->given, low));
  return tn__given_positive(q->c, &q->given, tn__simplify_index(q->c, left));
}

/* x, where n is at most or at least something that x, in turns that store, is anyway; NULL */
static tn_node *of_clamped(claim *q, const tn_node *n) {
  if (n->dtype != TN__INDEX || (n->op != OP_MIN && n->op != OP_MAX)) return NULL;
  for (int i = 0; i < 2; i++) {
    tn_node *x = n->src[i], *bound = n->src[!i];
    if (n->op == OP_MIN ? is_in_order(q, x, bound) : is_in_order(q, bound, x)) return x;
  }
  return NULL;
}

/* e, where b[e] <= x < b[e + 1] in both turns for a buffer b that is sorted: such spans have no x in common; NULL */
static tn_node *of_span(claim *q, tn_node *x) {
  tn_ctx *c = q->c;
  tn__nodes all = {0}, from = {0}, load = {0};
  if (x->dtype != TN__INDEX) return NULL;
  x = tn__given_exact(c, &q->given, x);
  tn__vec_push(&c->scratch, &from, x);
  for (uint32_t i = 0; i < q->given.positive.n; i++) tn__vec_push(&c->scratch, &from, q->given.positive.v[i]);
  tn__topo(&c->scratch, from.v, from.n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->dtype != TN_U64 && is_loaded(q, all.v[i], REQ_SORTED)) tn__vec_push(&c->scratch, &load, all.v[i]);
  for (uint32_t i = 0; i < load.n; i++)
    for (uint32_t j = 0; j < load.n; j++) {
      tn_node *low = load.v[i], *high = load.v[j];
      if (low->src[0] != high->src[0]) continue;
      if (!tn__is_int_const(tn__given_difference(c, high->src[1], low->src[1]), 1)) continue;
      tn_node *below = tn__sub(c, tn__cast(c, high, TN__INDEX), tn__add(c, x, tn__int(c, 1)));
      tn_node *above = tn__sub(c, x, tn__cast(c, low, TN__INDEX));
      if (tn__given_positive(c, &q->given, above) && tn__given_positive(c, &q->given, below)) return low->src[1];
    }
  return NULL;
}

/* Is s > 0 where this stores?  If it is 0, a loop around has no turns. */
static bool is_positive(const claim *q, tn_node *s) {
  tn_node *zero = tn__int(q->c, 0);
  if (s->lo > 0) return true;
  for (uint32_t i = 0; q->open && s->lo == 0 && i < q->open->n; i++) {
    tn_node *extent = tn__substitute(q->c, q->open->v[i]->src[0], &s, &zero, 1);
    if (tn__simplify_index(q->c, extent)->hi <= 0) return true;
  }
  return false;
}

/* Is 0 <= y < s, of s > 0? */
static bool is_digit(const claim *q, const tn_node *y, tn_node *s) {
  if (y->op == OP_MOD) return y->src[1] == s;
  if (y->op == OP_RANGE) return y->src[0] == s;
  for (uint32_t i = 0; y->op == OP_MIN && y->lo >= 0 && i < 2; i++)
    if (tn__is_int_const(tn__simplify_index(q->c, tn__sub(q->c, s, y->src[i])), 1)) return true;
  return false;
}

/* u, where terms are s * u and of another y with 0 <= y < s at most, which goes to *rest: if their sum is the same in
 * both turns, so are u and y.  NULL: they are not, or the sum may meet itself by wrapping. */
static tn_node *quotient_of(claim *q, const terms *t, tn_node *s, tn_node **rest) {
  tn_node *sum = NULL;
  *rest = NULL;
  for (uint32_t i = 0; i < t->n; i++) {
    tn_node *x = t->v[i].x, *u = NULL;
    for (int f = 0; f < 2 && x->op == OP_MUL && !u; f++)
      if (x->src[f] == s) u = times(q->c, x->src[!f], t->v[i].k);
    if (u) sum = sum ? tn__add(q->c, sum, u) : u;
    else if (*rest || t->v[i].k != 1 || !is_digit(q, x, s)) return NULL;
    else *rest = x;
  }
  if (!sum || !is_positive(q, s)) return NULL;
  return most_apart(q, sum) < ((wide)1 << 64) / s->hi - 1 ? sum : NULL;
}

/* The same of terms that have a factor in common which is no constant, as rows of a symbolic width do. */
static void learn_digits(claim *q, tn__nodes *known, const terms *t) {
  for (uint32_t i = 0; i < t->n; i++) {
    tn_node *x = t->v[i].x, *rest;
    for (int f = 0; f < 2 && x->op == OP_MUL; f++) {
      tn_node *u = is_fixed(q, x->src[f]) ? quotient_of(q, t, x->src[f], &rest) : NULL;
      if (!u) continue;
      learn(q, known, u);
      if (rest) learn(q, known, rest);
    }
  }
}

/* Are the counters equal wherever the addresses are? */
static bool holds_by_form(claim *q) {
  tn__nodes known = {0};
  terms t = {0};
  uint32_t had = 0;
  tn__map_init(&q->told, &q->c->scratch);
  tn__given_find(q->c, q->k, q->gate, &q->given);
  tn__given_loops(q->c, &q->given, q->index);
  learn(q, &known, q->index);
  while (known.n != had && !tn__map_getp(&q->told, q->at_once)) {
    had = known.n;
    for (uint32_t i = 0; i < known.n; i++) {
      tn_node *n = known.v[i], *x = of_digits(q, &known, n);
      if (x) learn(q, &known, x);
      if (q->k->nrequire && (x = of_one(q, n))) learn(q, &known, x);
      if (q->k->nrequire && (x = of_clamped(q, n))) learn(q, &known, x);
      if (q->k->nrequire && (x = of_span(q, n))) learn(q, &known, x);
      if (n->dtype != TN__INDEX || (n->op != OP_ADD && n->op != OP_MUL)) continue; /* others may wrap */
      read_terms(q, n, &t);
      for (uint32_t j = 0; j < t.n; j++)
        if (is_told(q, &t, j) || is_above_others(q, &t, j)) learn(q, &known, t.v[j].x);
      learn_digits(q, &known, &t);
    }
  }
  return tn__map_getp(&q->told, q->at_once);
}

/* ---- by trying ---- */

typedef struct turn {
  int64_t address;
  const int64_t *at; /* counters of the loops, from the outermost */
} turn;

/* Is it made of counters and constants alone? */
static bool is_plain(const claim *q, tn_node *x) {
  tn__nodes all = {0};
  tn__topo(&q->c->scratch, &x, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op != OP_RANGE && all.v[i]->op != OP_CONST && !tn__is_elementwise(all.v[i])) return false;
  return true;
}

static int by_address(const void *x, const void *y) {
  const turn *a = x, *b = y;
  return a->address < b->address ? -1 : a->address > b->address;
}

static int64_t extent_of(const claim *q, const tn_node *range, const int64_t *at) {
  int64_t extent;
  if (tn__const_int(range->src[0], &extent)) return extent;
  return tn__eval_index(range->src[0], &(tn__env){.key = q->open->v, .val = at, .n = q->open->n}, &q->c->scratch);
}

/* The next turn: the innermost loop moves first.  False: there is none. */
static bool step(const claim *q, int64_t *at, bool every) {
  for (uint32_t i = q->open->n; i && i--;) {
    int64_t extent = extent_of(q, q->open->v[i], at);
    at[i]++;
    if (!every && at[i] == SOME_TURNS && at[i] < extent - SOME_TURNS) at[i] = extent - SOME_TURNS;
    if (at[i] < extent) return true;
    at[i] = 0;
  }
  return false;
}

/* The turns that store; *all: there are no others. */
static turn *list_turns(claim *q, uint32_t *n, bool *all) {
  tn__arena *a = &q->c->scratch;
  uint32_t loops = q->open->n;
  tn__vec(turn) out = {0};
  int64_t *at = tn__arena_zalloc(a, (loops + 1) * sizeof *at);
  double product = 1;
  for (uint32_t i = 0; i < loops; i++) product *= (double)q->open->v[i]->hi + 1;
  *all = product <= MOST_TURNS;
  for (uint32_t tries = 0; tries <= MOST_TURNS; tries++) {
    bool inside = true;
    for (uint32_t i = 0; i < loops; i++) inside &= at[i] < extent_of(q, q->open->v[i], at);
    tn__env env = {.key = q->open->v, .val = at, .n = loops};
    if (inside && (!q->gate || tn__eval_index(q->gate, &env, a))) {
      turn t = {tn__eval_index(q->index, &env, a), tn__arena_dup(a, at, (loops + 1) * sizeof *at)};
      tn__vec_push(a, &out, t);
    }
    if (!step(q, at, *all)) break;
  }
  *n = out.n;
  return out.v;
}

/* May both run at once, with different counters of the loop in question? */
static bool are_at_once(const claim *q, const turn *x, const turn *y) {
  bool differ = false;
  for (uint32_t i = 0; i < q->open->n; i++) {
    if (x->at[i] == y->at[i]) continue;
    if (tn__map_getp(&q->fixed, q->open->v[i])) return false;
    differ |= q->open->v[i] == q->at_once;
  }
  return differ;
}

static void complain(claim *q, const tn_node *buf, int64_t a, int64_t b, int64_t place) {
  static const char *const who[AX_COUNT] = {
      [AX_GLOBAL] = "slices", [AX_UPCAST] = "lanes", [AX_UNROLL] = "neighbours"};
  tn__sb s;
  tn__sb_init(&s, &q->c->scratch);
  tn__sb_printf(&s, "kernel %s, part %u, instruction %u: %s %lld and %lld store to one place, element %lld of %s%lld",
                q->k->name, q->part, q->at, who[q->at_once->ints[RANGE_AXIS]], (long long)a, (long long)b,
                (long long)place, buf->op == OP_LOCAL ? "local" : "b", (long long)buf->ints[0]);
  q->why = tn__sb_str(&s);
}

/* True: no two turns meet.  False: that is not known, or `why` says which do. */
static bool holds_by_trying(claim *q, const tn_node *buf) {
  bool all = true;
  uint32_t n = 0, axis = 0;
  if (!is_plain(q, q->index) || (q->gate && !is_plain(q, q->gate))) return false;
  for (uint32_t i = 0; i < q->open->n; i++)
    if (!is_plain(q, q->open->v[i])) return false;
  while (q->open->v[axis] != q->at_once) axis++;
  turn *t = list_turns(q, &n, &all);
  if (n) qsort(t, n, sizeof *t, by_address);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = i + 1; j < n && t[j].address == t[i].address && j < i + MOST_TURNS; j++)
      if (are_at_once(q, &t[i], &t[j])) {
        complain(q, buf, t[i].at[axis], t[j].at[axis], t[i].address);
        return false;
      }
  return all;
}

/* ---- by a solver ---- */

/* Unsatisfiable if no two turns meet: other counters for one of them, and equal addresses. */
static void put_claim(claim *q, const tn__constraint_list *needs, tn__sb *out) {
  tn_ctx *c = q->c;
  tn__nodes from = {0}, to = {0}, around = {0};
  for (uint32_t i = 0; i < q->open->n; i++) {
    tn_node *r = q->open->v[i];
    tn__vec_push(&c->scratch, &around, r);
    if (tn__map_getp(&q->fixed, r)) continue;
    tn_node *extent = tn__substitute(c, r->src[0], from.v, to.v, from.n);
    tn_node *twin = tn__range(c, extent, (int)r->ints[RANGE_AXIS], (tn__role)r->ints[RANGE_ROLE], FIRST_TWIN + i);
    tn__vec_push(&c->scratch, &from, r);
    tn__vec_push(&c->scratch, &to, twin);
    tn__vec_push(&c->scratch, &around, twin);
  }
  tn_node *other = tn__substitute(c, q->at_once, from.v, to.v, from.n);
  tn__vec_push(&c->scratch, &around, tn__op2(c, OP_NE, q->at_once, other));
  tn__vec_push(&c->scratch, &around,
               tn__op2(c, OP_EQ, q->index, tn__substitute(c, q->index, from.v, to.v, from.n)));
  if (q->gate) {
    tn__vec_push(&c->scratch, &around, q->gate);
    tn__vec_push(&c->scratch, &around, tn__substitute(c, q->gate, from.v, to.v, from.n));
  }
  tn__bounds_state(c, q->k, &around, needs, out);
}

/* ---- all stores ---- */

/* Which loops have the same counter in turns of `at_once` that run at the same time?  Those around it, but for a
 * group's threads, of which some may be ahead of others up to the next barrier. */
static void fix_loops(claim *q, uint32_t axis) {
  bool ordered = q->k->part[q->part].ins[q->at]->src[0]->op == OP_LOCAL; /* by barriers, which order no buffers */
  const tn__part *p = &q->k->part[q->part];
  const tn__nodes *open = q->open;
  bool threads = p->group && open->v[axis]->ints[RANGE_AXIS] == AX_UPCAST;
  tn__map_init(&q->fixed, &q->c->scratch);
  for (uint32_t i = 0; i < axis; i++) {
    bool waits = !threads || open->v[i]->ints[RANGE_AXIS] == AX_GLOBAL;
    uint32_t depth = 0, at = 0;
    while (ordered && !waits && p->ins[at] != open->v[i]) at++;
    for (at++; ordered && !waits && at < p->n; at++) { /* of the loop's own instructions */
      bool ends = p->ins[at]->op == OP_END;
      if (ends && !depth) break;
      depth = depth + (p->ins[at]->op == OP_RANGE) - ends;
      waits = !depth && p->ins[at]->op == OP_BARRIER;
    }
    if (waits) tn__map_putp(&q->fixed, open->v[i], open->v[i]);
  }
}

static bool runs_at_once(const tn_node *r, const tn_node *buf) {
  int64_t axis = r->ints[RANGE_AXIS];
  if (axis == AX_GLOBAL && buf->op == OP_LOCAL) return false; /* each slice, or group, has its own */
  return r->hi > 0 && (axis == AX_GLOBAL || axis == AX_UPCAST || axis == AX_UNROLL);
}

bool tn__writers_tell(tn_ctx *c, const tn__kernel *k, uint32_t part, tn_node *index, tn_node *lanes, bool one_group) {
  claim q = {.c = c, .k = k, .part = part, .index = index, .at_once = lanes};
  tn__map_init(&q.fixed, &c->scratch);
  if (k->part[part].global && one_group) tn__map_putp(&q.fixed, k->part[part].global, k->part[part].global);
  return holds_by_form(&q);
}

bool tn__writers_apart(tn_ctx *c, const tn__kernel *k, uint32_t part, uint32_t at, const tn__nodes *open,
                       uint32_t loop) {
  tn_node *store = k->part[part].ins[at];
  claim q = {.c = c, .k = k, .part = part, .at = at, .index = store->src[1], .gate = tn__gate_of(store),
             .at_once = open->v[loop], .open = open};
  fix_loops(&q, loop);
  return holds_by_form(&q);
}

const char *tn__writers_prove(tn_ctx *c, const tn__kernel *k, const tn__constraint_list *needs, tn__writers *count,
                              tn__sb *open) {
  for (uint32_t p = 0; p < k->nparts; p++) {
    tn__nodes around = {0};
    for (uint32_t i = 0; i < k->part[p].n; i++) {
      tn_node *n = k->part[p].ins[i];
      tn__loops_pass(&c->scratch, &around, n);
      if ((n->op != OP_STORE && n->op != OP_STOREADD) || tn__adds_at_once(&k->part[p], n)) continue;
      for (uint32_t r = 0; r < around.n; r++) {
        claim q = {.c = c, .k = k, .part = p, .at = i, .index = n->src[1], .gate = tn__gate_of(n),
                   .at_once = around.v[r], .open = &around};
        if (!runs_at_once(around.v[r], n->src[0]) || tn__adds_in_order(n, around.v[r])) continue;
        if (tn__is_in_step(&k->part[p], n, around.v[r])) continue;
        fix_loops(&q, r);
        count->stores++;
        if (holds_by_form(&q)) count->by_form++;
        else if (holds_by_trying(&q, n->src[0])) count->by_trying++;
        else if (q.why) return q.why;
        else put_claim(&q, needs, open);
      }
    }
  }
  return NULL;
}

bool tn__writers_told(tn_ctx *c, const tn__kernel *k, tn_node *body) {
  tn__ranges r;
  tn__ranges_find(c, &c->scratch, body, &r);
  for (uint32_t i = 0; i < r.order.n; i++) {
    tn_node *n = r.order.v[i];
    uint64_t own = n->op == OP_STORE || n->op == OP_STOREADD ? tn__own_of(&r, n) : 0;
    for (uint32_t j = 0; j < r.n; j++) {
      if (!(own >> j & 1) || tn__axis_of(r.range[j]) == AX_ORDER) continue;
      claim q = {.c = c, .k = k, .index = n->src[1], .gate = tn__gate_of(n), .at_once = r.range[j]};
      tn__map_init(&q.fixed, &c->scratch);
      if (!holds_by_form(&q)) return false;
    }
  }
  return true;
}

/* ---- several accesses to one buffer ---- */

/* What a term is at least and at most */
static void reach_of(const term *t, wide *lo, wide *hi) {
  wide a = t->x ? (wide)t->k * t->x->lo : t->k, b = t->x ? (wide)t->k * t->x->hi : t->k;
  *lo = a < b ? a : b;
  *hi = a < b ? b : a;
}

/* Does no part of the sum come near the ends of 64 bits, where sums wrap? */
static bool stays_small(const terms *t) {
  const wide far = (wide)1 << 62;
  wide least = 0, most = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    wide lo, hi;
    reach_of(&t->v[i], &lo, &hi);
    if (lo < 0) least += lo;
    if (hi > 0) most += hi;
    if (least < -far || most > far) return false;
  }
  return true;
}

/* lo..hi, in which a sum is but for multiples of k: 0 <= lo <= hi < k.  False: it may be anywhere. */
static bool rest_of(const terms *t, int64_t k, wide *lo, wide *hi) {
  *lo = *hi = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    wide least, most;
    if (t->v[i].k % k == 0) continue;
    reach_of(&t->v[i], &least, &most);
    *lo += least, *hi += most;
  }
  wide whole = *lo - (*lo % k + k) % k;
  *lo -= whole, *hi -= whole;
  return *hi < k;
}

bool tn__writers_lie_apart(tn_ctx *c, tn_node *x, tn_node *y) {
  terms a = {0}, b = {0};
  wide lo[2], hi[2];
  if (x->hi < y->lo || y->hi < x->lo) return true;
  list_terms(c, x, &a);
  list_terms(c, y, &b);
  if (!stays_small(&a) || !stays_small(&b)) return false;
  for (uint32_t i = 0; i < a.n; i++) {
    int64_t k = a.v[i].k;
    if (!a.v[i].x || k < 2 || !rest_of(&a, k, &lo[0], &hi[0]) || !rest_of(&b, k, &lo[1], &hi[1])) continue;
    if (hi[0] < lo[1] || hi[1] < lo[0]) return true;
  }
  return false;
}

static bool is_store(const tn_node *n) {
  return (n->op == OP_STORE || n->op == OP_STOREADD) && tn__buffer_of(n)->op == OP_PARAM;
}

/* Do its turns go to places that hang on each of its loops, none of which runs over one place in order? */
static bool moves_with_its_loops(const tn__ranges *r, const tn_node *store) {
  uint64_t own = tn__own_of(r, store), of = tn__free_of(r, store->src[1]);
  for (uint32_t j = 0; j < r->n; j++)
    if ((own >> j & 1) && r->range[j]->hi > 0 && (!(of >> j & 1) || tn__axis_of(r->range[j]) == AX_ORDER)) return false;
  return true;
}

/* The nodes above the load, up to the root, without what is only above `past` */
static tn__map above(tn_ctx *c, const tn__ranges *r, const tn_node *load, const tn_node *past) {
  tn__map on;
  tn__map_init(&on, &c->scratch);
  tn__map_put(&on, (uintptr_t)load, 1);
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    for (uint32_t s = 0; s < n->nsrc && n != past; s++)
      if (tn__map_get(&on, (uintptr_t)n->src[s], NULL)) tn__map_put(&on, (uintptr_t)n, 1);
  }
  return on;
}

/* Is what is loaded the element that the store's turn stores, and has it been loaded before that, for it alone? */
static bool is_for_its_turn(tn_ctx *c, const tn__ranges *r, const tn_node *load, const tn_node *store) {
  uint64_t loops = tn__free_of(r, load);
  bool made_of_it = false;
  if (!tn__is_int_const(tn__simplify_index(c, tn__sub(c, load->src[1], store->src[1])), 0)) return false;
  if (!moves_with_its_loops(r, store)) return false;
  tn__map on = above(c, r, load, store);
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    bool there = tn__map_get(&on, (uintptr_t)n, NULL);
    if (there && n->op == OP_REDUCE && (tn__own_of(r, n) & loops)) return false; /* its loop, but not its turn */
    if (there && (n->op == OP_SINK || is_store(n))) return false;                /* for something else, too */
    for (uint32_t s = 0; s < n->nsrc && n == store; s++) made_of_it |= tn__map_get(&on, (uintptr_t)n->src[s], NULL);
  }
  return made_of_it;
}

const tn_node *tn__writers_loaded(tn_ctx *c, tn_node *body) {
  tn__ranges r;
  tn__ranges_find(c, &c->scratch, body, &r);
  for (uint32_t i = 0; i < r.order.n; i++) {
    const tn_node *store = r.order.v[i];
    if (!is_store(store)) continue;
    for (uint32_t j = 0; j < r.order.n; j++) {
      const tn_node *load = r.order.v[j];
      if (load->op != OP_LOAD || load->src[0] != tn__buffer_of(store)) continue;
      if (!tn__writers_lie_apart(c, load->src[1], store->src[1]) && !is_for_its_turn(c, &r, load, store)) return load;
    }
  }
  return NULL;
}

const tn_node *tn__writers_twice(tn_ctx *c, tn_node *body) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    for (uint32_t j = 0; j < i && is_store(all.v[i]); j++)
      if (is_store(all.v[j]) && tn__buffer_of(all.v[j]) == tn__buffer_of(all.v[i]) &&
          !tn__writers_lie_apart(c, all.v[j]->src[1], all.v[i]->src[1]))
        return all.v[i];
  return NULL;
}
