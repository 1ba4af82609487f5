#include "verify/bounds.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "verify/given.h"

static bool stays_within(tn_ctx *c, const tn__kernel *k, tn_node *index, tn_node *size, tn_node *gate) {
  tn__given given;
  int64_t lo, hi;
  if (index->lo >= 0 && index->hi < size->lo) return true;
  tn__given_find(c, k, gate, &given);
  tn__given_loops(c, &given, index);
  tn__given_range(c, &given, index, &lo, &hi);
  if (lo >= 0 && hi < size->lo) return true;
  index = tn__given_bounded(c, &given, tn__given_exact(c, &given, index));
  for (uint32_t i = 0; i < given.positive.n; i++)
    given.positive.v[i] = tn__given_bounded(c, &given, given.positive.v[i]);
  if (!tn__given_positive(c, &given, index)) return false;
  if (index->hi < size->lo || tn__is_int_const(tn__simplify_index(c, tn__op2(c, OP_LT, index, size)), 1)) return true;
  return tn__given_positive(c, &given, tn__sub(c, tn__add(c, size, tn__int(c, -1)), index));
}

/* ---- as SMT-LIB ---- */

/* What an op is there; the others are whatever their interval allows. */
static const struct {
  const char *text;
  bool divides; /* floors, as here, where the divisor is positive; 0 is apart */
} words[OP_COUNT] = {
    [OP_ADD] = {"+", false},       [OP_MUL] = {"*", false},   [OP_NEG] = {"-", false}, [OP_IDIV] = {"div", true},
    [OP_MOD] = {"mod", true},      [OP_LT] = {"<", false},    [OP_LE] = {"<=", false}, [OP_EQ] = {"=", false},
    [OP_NE] = {"distinct", false}, [OP_AND] = {"and", false}, [OP_OR] = {"or", false}, [OP_NOT] = {"not", false},
    [OP_WHERE] = {"ite", false},
};

typedef struct script {
  tn__sb *out;
  const tn__kernel *k; /* and what it requires */
  tn__map number;      /* node -> its name's */
} script;

static void put_name(script *s, const tn_node *n) {
  uint64_t at = 0;
  tn__map_get(&s->number, (uintptr_t)n, &at);
  tn__sb_printf(s->out, " x%llu", (unsigned long long)at);
}

static void put_int(script *s, int64_t v) {
  tn__sb_printf(s->out, v < 0 ? " (- %llu)" : " %llu", (unsigned long long)tn__magnitude(v));
}

static bool is_term(const tn_node *n) {
  return n->dtype == TN__INDEX || n->dtype == TN_BOOL || !tn__is_float(n->dtype);
}

/* Integers of a memory type wrap: only where they are compared or chosen is it known what they are. */
static bool is_known(const tn_node *n) {
  const tn_node *x = n->nsrc ? n->src[n->op == OP_WHERE] : NULL;
  if (!x || !is_term(x)) return false;
  if (n->op == OP_MIN || n->op == OP_MAX) return n->dtype != TN_BOOL;
  if (n->op == OP_CAST)
    return n->dtype != TN_BOOL && x->dtype != TN_BOOL && (n->dtype == TN__INDEX || n->dtype == TN_I64) &&
           x->dtype != TN_U64;
  if (!words[n->op].text) return false;
  if (words[n->op].divides && n->src[1]->lo < 0) return false;
  if (n->dtype == TN_BOOL)
    return x->dtype != TN_BOOL || n->op == OP_AND || n->op == OP_OR || n->op == OP_NOT || n->op == OP_EQ ||
           n->op == OP_NE || n->op == OP_WHERE;
  return n->op == OP_WHERE || (n->dtype == TN__INDEX && n->op != OP_AND && n->op != OP_OR && n->op != OP_NOT);
}

static void put_known(script *s, const tn_node *n) {
  tn__sb_printf(s->out, " %s", n->dtype == TN_BOOL ? "Bool" : "Int");
  if (n->op == OP_CAST) {
    put_name(s, n->src[0]);
  } else if (n->op == OP_MIN || n->op == OP_MAX) {
    tn__sb_printf(s->out, " (ite (%s", n->op == OP_MIN ? "<=" : ">=");
    for (int i = 0; i < 4; i++) {
      put_name(s, n->src[i % 2]);
      if (i == 1) tn__sb_puts(s->out, ")");
    }
    tn__sb_puts(s->out, ")");
  } else {
    bool by_zero = words[n->op].divides && n->src[1]->lo == 0;
    if (by_zero) {
      tn__sb_puts(s->out, " (ite (= 0");
      put_name(s, n->src[1]);
      tn__sb_puts(s->out, ")");
      if (n->op == OP_MOD) put_name(s, n->src[0]);
      else tn__sb_puts(s->out, " 0");
    }
    tn__sb_printf(s->out, " (%s", words[n->op].text);
    for (uint32_t i = 0; i < n->nsrc; i++) put_name(s, n->src[i]);
    tn__sb_puts(s->out, by_zero ? "))" : ")");
  }
}

static void put_between(script *s, const tn_node *n, const tn_node *extent) {
  tn__sb_puts(s->out, "(assert (<=");
  put_int(s, extent ? 0 : n->lo);
  put_name(s, n);
  if (!extent) put_int(s, n->hi);
  tn__sb_puts(s->out, "))");
  if (!extent) return;
  tn__sb_puts(s->out, "(assert (<");
  put_name(s, n);
  put_name(s, extent);
  tn__sb_puts(s->out, "))");
}

/* A sum or product of what is loaded that may be beyond 64 bits: with so many times 2^64 less, it is not. */
static void put_wrapped(script *s, const tn_node *n) {
  uint64_t at = 0;
  tn__map_get(&s->number, (uintptr_t)n, &at);
  tn__sb_printf(s->out, "(declare-const x%llu Int)(declare-const w%llu Int)(assert (= x%llu (- (%s",
                (unsigned long long)at, (unsigned long long)at, (unsigned long long)at, words[n->op].text);
  for (uint32_t i = 0; i < n->nsrc; i++) put_name(s, n->src[i]);
  tn__sb_printf(s->out, ") (* 18446744073709551616 w%llu))))", (unsigned long long)at);
  put_between(s, n, NULL);
}

static bool may_wrap(const tn_node *n) {
  int64_t lo[2] = {0}, hi[2] = {0};
  if (!is_known(n) || !n->loaded) return false;
  for (uint32_t i = 0; i < n->nsrc && i < 2; i++) lo[i] = n->src[i]->lo, hi[i] = n->src[i]->hi;
  return tn__given_wraps(n, lo, hi);
}

static void put_node(script *s, const tn_node *n) {
  bool truth = n->dtype == TN_BOOL;
  if (may_wrap(n)) {
    put_wrapped(s, n);
    return;
  }
  if (n->op == OP_CONST || is_known(n)) {
    tn__sb_puts(s->out, "(define-fun");
    put_name(s, n);
    tn__sb_puts(s->out, " ()");
    if (n->op != OP_CONST) put_known(s, n);
    else if (truth) tn__sb_printf(s->out, " Bool %s", n->ints[0] ? "true" : "false");
    else tn__sb_puts(s->out, " Int"), put_int(s, n->ints[0]);
    tn__sb_puts(s->out, ")");
    return;
  }
  tn__sb_puts(s->out, "(declare-const");
  put_name(s, n);
  tn__sb_printf(s->out, " %s)", truth ? "Bool" : "Int");
  if (!truth) put_between(s, n, n->op == OP_RANGE ? n->src[0] : NULL);
}

/* Is anything required of what is loaded?  As signed numbers, which those of u64 are not. */
static bool is_required(const tn__kernel *k, const tn_node *n) {
  bool any = false;
  for (int what = 0; n->op == OP_LOAD && n->dtype != TN_U64 && what < REQ_COUNT; what++)
    any |= tn__required(k, n->src[0], (tn__requirement)what) != NULL;
  return any;
}

/* What the statement is about, sources first; nothing below what may be anything. */
static void find_terms(tn_ctx *c, const tn__kernel *k, tn__nodes *root, tn__nodes *out) {
  tn__nodes all = {0};
  tn__map wanted;
  tn__map_init(&wanted, &c->scratch);
  tn__topo(&c->scratch, root->v, root->n, &all);
  for (uint32_t i = 0; i < root->n; i++) tn__map_putp(&wanted, root->v[i], root->v[i]);
  for (uint32_t i = all.n; i && i--;) {
    tn_node *n = all.v[i];
    if (!tn__map_getp(&wanted, n)) continue;
    bool required = is_required(k, n); /* index and gate */
    uint32_t used = n->op == OP_RANGE ? 1 : is_known(n) || required ? n->nsrc : 0;
    for (uint32_t s = required; s < used; s++) tn__map_putp(&wanted, n->src[s], n->src[s]);
  }
  for (uint32_t i = 0; i < all.n; i++)
    if (tn__map_getp(&wanted, all.v[i])) tn__vec_push(&c->scratch, out, all.v[i]);
}

/* Of the loads, if there are two, that they are of elements */
static void put_if_loaded(script *s, const tn_node *x, const tn_node *y) {
  tn__sb_puts(s->out, "(assert (=> (and true");
  if (x->nsrc > 2) put_name(s, x->src[2]);
  if (y && y->nsrc > 2) put_name(s, y->src[2]);
  tn__sb_puts(s->out, ")");
}

static void put_relation(script *s, const char *op, const tn_node *x, const tn_node *y) {
  tn__sb_printf(s->out, " (%s", op);
  put_name(s, x);
  put_name(s, y);
  tn__sb_puts(s->out, ")");
}

/* From the loads' indices follows how the loaded compare, and the other way round. */
static void put_pair(script *s, const tn_node *x, const tn_node *y) {
  if (tn__required(s->k, x->src[0], REQ_DISTINCT)) {
    put_if_loaded(s, x, y);
    tn__sb_puts(s->out, " (=>");
    put_relation(s, "=", x, y);
    put_relation(s, "=", x->src[1], y->src[1]);
    tn__sb_puts(s->out, ")))");
  }
  for (int turned = 0; turned < 2 && tn__required(s->k, x->src[0], REQ_SORTED); turned++) {
    put_if_loaded(s, x, y);
    tn__sb_puts(s->out, " (=>");
    put_relation(s, "<=", turned ? y->src[1] : x->src[1], turned ? x->src[1] : y->src[1]);
    put_relation(s, "<=", turned ? y : x, turned ? x : y);
    tn__sb_puts(s->out, ")))");
  }
}

/* What is required of memory, for each load and each two of a buffer */
static void put_required(script *s, const tn__nodes *term) {
  for (uint32_t i = 0; i < term->n; i++) {
    const tn_node *x = term->v[i], *in;
    if (!is_required(s->k, x)) continue;
    if ((in = tn__required(s->k, x->src[0], REQ_IN))) {
      put_if_loaded(s, x, NULL);
      tn__sb_puts(s->out, " (and");
      put_relation(s, "<=", in->src[1], x);
      put_relation(s, "<", x, in->src[2]);
      tn__sb_puts(s->out, ")))");
    }
    for (uint32_t j = 0; j < i; j++)
      if (is_required(s->k, term->v[j]) && term->v[j]->src[0] == x->src[0]) put_pair(s, term->v[j], x);
  }
}

/* `root`: what else is talked of. */
static script put_around(tn_ctx *c, const tn__kernel *k, tn__nodes root, const tn__nodes *around,
                         const tn__constraint_list *needs, tn__sb *out) {
  script s = {.out = out, .k = k};
  tn__nodes term = {0};
  for (uint32_t i = 0; i < k->nrequire; i++)
    for (uint32_t n = 1; n < k->require[i]->nsrc; n++) tn__vec_push(&c->scratch, &root, k->require[i]->src[n]);
  for (uint32_t i = 0; i < around->n; i++)
    if (around->v[i]->op != OP_RANGE || !tn__is_const(around->v[i]->src[0]))
      tn__vec_push(&c->scratch, &root, around->v[i]);
  for (uint32_t i = 0; needs && i < needs->n; i++) {
    tn__vec_push(&c->scratch, &root, needs->v[i].left);
    tn__vec_push(&c->scratch, &root, needs->v[i].right);
  }
  find_terms(c, k, &root, &term);
  tn__map_init(&s.number, &c->scratch);
  for (uint32_t i = 0; i < term.n; i++) {
    tn__map_put(&s.number, (uintptr_t)term.v[i], i);
    put_node(&s, term.v[i]);
  }
  put_required(&s, &term);
  for (uint32_t i = 0; i < around->n; i++) {
    if (around->v[i]->op == OP_RANGE) continue;
    tn__sb_puts(out, "(assert");
    put_name(&s, around->v[i]);
    tn__sb_puts(out, ")");
  }
  for (uint32_t i = 0; needs && i < needs->n; i++) {
    tn__sb_printf(out, "(assert (%s", needs->v[i].equal ? "=" : "<=");
    put_name(&s, needs->v[i].left);
    put_name(&s, needs->v[i].right);
    tn__sb_puts(out, "))");
  }
  return s;
}

void tn__bounds_state(tn_ctx *c, const tn__kernel *k, const tn__nodes *around, const tn__constraint_list *needs,
                      tn__sb *out) {
  put_around(c, k, (tn__nodes){0}, around, needs, out);
  tn__sb_puts(out, "\n");
}

/* `around`: the loops that are open, and the gate. */
static void put_access(tn_ctx *c, const tn__kernel *k, tn_node *index, tn_node *size,
                       const tn__nodes *around, const tn__constraint_list *needs, tn__sb *out) {
  tn__nodes root = {0};
  tn__vec_push(&c->scratch, &root, index);
  tn__vec_push(&c->scratch, &root, size);
  script s = put_around(c, k, root, around, needs, out);
  tn__sb_puts(out, "(assert (not (and (<= 0");
  put_name(&s, index);
  tn__sb_puts(out, ") (<");
  put_name(&s, index);
  put_name(&s, size);
  tn__sb_puts(out, "))))\n");
}

/* ---- all accesses ---- */

enum { FROM_BELOW = 1, FROM_ABOVE = 2 };

/* Does the gate compare x with something, on these sides?  What x is made of must be gone from what it is compared
 * with: the normal form takes sums apart, so that x itself is not there in any case. */
static int sides_given(tn_ctx *c, tn__given *given, tn_node *x) {
  tn__nodes own = {0};
  tn__map loaded;
  int sides = 0;
  x = tn__given_exact(c, given, x);
  tn__map_init(&loaded, &c->scratch);
  tn__topo(&c->scratch, &x, 1, &own);
  for (uint32_t i = 0; i < own.n; i++)
    if (tn__given_is_data(own.v[i]) || tn__is_stand_in(own.v[i]))
      tn__map_putp(&loaded, own.v[i], own.v[i]);
  for (uint32_t i = 0; x->dtype == TN__INDEX && i < given->positive.n; i++)
    for (int side = FROM_BELOW; side <= FROM_ABOVE; side++) {
      tn__nodes all = {0};
      tn_node *f = given->positive.v[i], *rest = side == FROM_BELOW ? tn__sub(c, f, x) : tn__add(c, f, x);
      rest = tn__simplify_index(c, rest);
      tn__topo(&c->scratch, &rest, 1, &all);
      uint32_t k = 0;
      while (k < all.n && !tn__map_getp(&loaded, all.v[k])) k++;
      if (k == all.n) sides |= side;
    }
  return sides;
}

/* On which sides must a source be bounded for n to be, on these? */
static int sides_of_source(const tn_node *n, int sides) {
  int64_t k = 0;
  bool known = (n->op == OP_MUL || n->op == OP_IDIV) && tn__const_int(n->src[1], &k) && k;
  bool same = n->op == OP_ADD || n->op == OP_MIN || n->op == OP_MAX || n->op == OP_WHERE || n->op == OP_CAST;
  if (same || (known && k > 0)) return sides;
  if (!known && n->op != OP_NEG) return FROM_BELOW | FROM_ABOVE;
  return (sides & FROM_BELOW ? FROM_ABOVE : 0) | (sides & FROM_ABOVE ? FROM_BELOW : 0);
}

typedef struct unbounded { /* on these sides */
  tn_node *n;
  int sides;
} unbounded;

/* Is each loaded value that the index is made of bounded on both sides: cut, or compared by the gate, or required to be
 * in a range, or by a short type, where the buffer's size is a number?  By what, the intervals and the solver tell. */
static bool is_bounded(tn_ctx *c, const tn__kernel *k, tn_node *index, const tn_node *size, tn_node *gate) {
  tn__given given;
  tn__map seen; /* node -> sides */
  tn__vec(unbounded) todo = {0};
  tn__map_init(&seen, &c->scratch);
  tn__given_find(c, k, gate, &given);
  tn__vec_push(&c->scratch, &todo, ((unbounded){index, FROM_BELOW | FROM_ABOVE}));
  while (todo.n) {
    unbounded t = todo.v[--todo.n];
    tn_node *n = t.n;
    uint64_t sides = 0;
    tn__map_get(&seen, (uintptr_t)n, &sides);
    if (!((uint64_t)t.sides & ~sides)) continue;
    tn__map_put(&seen, (uintptr_t)n, sides | (uint64_t)t.sides);
    if (!n->loaded || (n->op == OP_MOD && !n->src[1]->loaded)) continue;
    t.sides &= ~sides_given(c, &given, n);
    if (n->lo >= 0 && n->dtype != TN_U64) t.sides &= ~FROM_BELOW; /* nothing is left of a cut that cuts nothing */
    bool cuts = (n->op == OP_MIN || n->op == OP_MAX) &&
                !(n->src[0]->loaded && n->src[1]->loaded);
    if (cuts) t.sides &= n->op == OP_MIN ? ~FROM_ABOVE : ~FROM_BELOW;
    if (!t.sides) continue;
    if (tn__given_is_data(n)) {
      if (n->op == OP_LOAD && tn__required(k, n->src[0], REQ_IN)) continue;
      if (tn__is_const(size) && tn__is_int(n->dtype) && tn__size_of(n->dtype) < sizeof(int32_t)) continue;
      return false;
    }
    for (uint32_t s = n->op == OP_WHERE; s < n->nsrc; s++)
      tn__vec_push(&c->scratch, &todo, ((unbounded){n->src[s], sides_of_source(n, t.sides)}));
  }
  return true;
}

static const char *complain(tn_ctx *c, const tn__kernel *k, uint32_t part, uint32_t at) {
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, "kernel %s, part %u, instruction %u: an address that is loaded is neither cut to its buffer, nor "
                "gated, nor required to be within", k->name, part, at);
  return tn__sb_str(&s);
}

static tn_node *size_of_buffer(const tn__bounds *b, const tn_node *buf) {
  return buf->op == OP_PARAM && buf->ints[0] < (int64_t)b->nbuf ? b->size[buf->ints[0]] : buf->src[0];
}

const char *tn__bounds_prove(tn_ctx *c, const tn__kernel *k, const tn__bounds *b, uint32_t *accesses, uint32_t *proved,
                             tn__sb *open) {
  const char *wrong = NULL;
  for (uint32_t p = 0; p < k->nparts; p++) {
    tn__nodes around = {0};
    for (uint32_t i = 0; i < k->part[p].n; i++) {
      tn_node *n = k->part[p].ins[i];
      tn__loops_pass(&c->scratch, &around, n);
      if (!tn__is_access(n)) continue;
      tn_node *size = size_of_buffer(b, n->src[0]), *gate = tn__gate_of(n);
      bool good = stays_within(c, k, n->src[1], size, gate);
      (*accesses)++;
      *proved += good;
      if (good) continue;
      if (!wrong && !is_bounded(c, k, n->src[1], size, gate)) wrong = complain(c, k, p, i);
      if (gate) tn__vec_push(&c->scratch, &around, gate);
      put_access(c, k, n->src[1], size, &around, b->needs, open);
      around.n -= gate != NULL;
    }
  }
  return wrong;
}

bool tn__bounds_prove_body(tn_ctx *c, const tn__kernel *k, tn_node *body, const tn__bounds *b) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (tn__is_access(n) && !stays_within(c, k, n->src[1], size_of_buffer(b, tn__buffer_of(n)), tn__gate_of(n)))
      return false;
  }
  return true;
}
