#include "ir/index.h"
#include "ir/build.h"
#include "ir/eval.h"
#include <string.h>

typedef struct term {
  int64_t k;
  tn_node *product; /* NULL: the constant */
} term;

/* Lists start in the caller's frame and move to scratch if they outgrow it. */
enum { SHORT = 16 };
typedef tn__vec(term) term_list;
typedef tn__vec(tn_node *) atom_list;
#define START(list, buf) (*(list) = (__typeof__(*(list))){.v = (buf), .cap = SHORT})

static tn_node *raw(tn_ctx *c, tn__op op, tn_node *x, tn_node *y) {
  tn_node *src[] = {x, y};
  return tn__node_make(c, &(tn__make){.op = op, .src = src, .nsrc = 2});
}

_Noreturn static void overflow(tn_ctx *c) {
  tn__fail(c, TN_ESHAPE, "a size or an index does not fit in 64 bits");
}

static int64_t times(tn_ctx *c, int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) overflow(c);
  return r;
}

static int64_t plus(tn_ctx *c, int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) overflow(c);
  return r;
}

/* ---- order ---- */

static int kind(const tn_node *n) {
  return n->op == OP_DATUM ? 0 : n->op == OP_VAR ? 1 : n->op == OP_RANGE ? 2 : 3;
}
static int order64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* The first source in which two nodes of one op differ; nsrc: none */
static uint32_t first_difference(const tn_node *a, const tn_node *b) {
  uint32_t s = 0;
  if (a->op != b->op || a->nsrc != b->nsrc) return a->nsrc;
  while (s < a->nsrc && a->src[s] == b->src[s]) s++;
  return s;
}

/* Data by number, variables by name, loops by number, then the rest, by its op and by what it is made of: what a reader
 * expects, and the same in every context, whatever numbers the loops have. */
static int order_atoms(const tn_node *a, const tn_node *b) {
  if (a == b) return 0;
  while (kind(a) == 3 && kind(b) == 3) {
    uint32_t s = first_difference(a, b);
    if (s == a->nsrc) break;
    const tn_node *x = a->src[s];
    b = b->src[s];
    a = x;
  }
  int r = kind(a) - kind(b);
  if (!r && a->op == OP_VAR) r = strcmp(a->name, b->name);
  if (!r && a->op == OP_DATUM) r = order64((uint64_t)a->ints[0], (uint64_t)b->ints[0]);
  if (!r && a->op == OP_RANGE) r = order64((uint64_t)a->ints[1], (uint64_t)b->ints[1]);
  if (!r) r = strcmp(tn__ops[a->op].text, tn__ops[b->op].text);
  if (!r && a->op == OP_CONST) r = order64((uint64_t)a->ints[0], (uint64_t)b->ints[0]);
  if (!r) r = order64(a->hash, b->hash);
  return r ? r : order64(a->serial, b->serial);
}

/* Products as words of atoms, read from the right, where the loops stand. */
static int order_products(const tn_node *a, const tn_node *b) {
  for (; a != b; a = a->src[0], b = b->src[0]) {
    bool more_a = a->op == OP_MUL, more_b = b->op == OP_MUL;
    int r = order_atoms(more_a ? a->src[1] : a, more_b ? b->src[1] : b);
    if (r) return r;
    if (!more_a || !more_b) return more_a - more_b;
  }
  return 0;
}

static int order_terms(const term *a, const term *b) {
  if (!a->product || !b->product) return !a->product - !b->product;
  return order_products(a->product, b->product);
}

/* ---- reading ---- */

static term read_term(tn_node *n) {
  int64_t k;
  if (tn__const_int(n, &k)) return (term){k, NULL};
  if (n->op == OP_MUL && tn__const_int(n->src[1], &k)) return (term){k, n->src[0]};
  return (term){1, n};
}

static void read_sum(tn_ctx *c, tn_node *n, term_list *out) {
  for (; n->op == OP_ADD; n = n->src[0]) tn__vec_push(&c->scratch, out, read_term(n->src[1]));
  tn__vec_push(&c->scratch, out, read_term(n));
  for (uint32_t i = 0, j = out->n - 1; i < j; i++, j--) {
    term t = out->v[i];
    out->v[i] = out->v[j];
    out->v[j] = t;
  }
}

static void read_product(tn_ctx *c, tn_node *n, atom_list *out) {
  for (; n->op == OP_MUL; n = n->src[0]) tn__vec_push(&c->scratch, out, n->src[1]);
  tn__vec_push(&c->scratch, out, n);
  for (uint32_t i = 0, j = out->n - 1; i < j; i++, j--) {
    tn_node *t = out->v[i];
    out->v[i] = out->v[j];
    out->v[j] = t;
  }
}

/* ---- writing ---- */

static tn_node *write_term(tn_ctx *c, term t) {
  if (!t.product) return tn__int(c, t.k);
  return t.k == 1 ? t.product : raw(c, OP_MUL, t.product, tn__int(c, t.k));
}

static tn_node *write_sum(tn_ctx *c, const term_list *l) {
  tn_node *sum = NULL;
  for (uint32_t i = 0; i < l->n; i++) {
    if (l->v[i].k == 0) continue;
    tn_node *t = write_term(c, l->v[i]);
    sum = sum ? raw(c, OP_ADD, sum, t) : t;
  }
  return sum ? sum : tn__int(c, 0);
}

static tn_node *write_product(tn_ctx *c, const atom_list *l) {
  tn_node *p = l->n ? l->v[0] : NULL;
  for (uint32_t i = 1; i < l->n; i++) p = raw(c, OP_MUL, p, l->v[i]);
  return p;
}

/* ---- arithmetic ---- */

static tn_node *add(tn_ctx *c, tn_node *x, tn_node *y) {
  if (tn__is_int_const(x, 0)) return y;
  if (tn__is_int_const(y, 0)) return x;
  term xs[SHORT], ys[SHORT], zs[SHORT];
  term_list a, b, sum;
  START(&a, xs), START(&b, ys), START(&sum, zs);
  read_sum(c, x, &a);
  read_sum(c, y, &b);
  for (uint32_t i = 0, j = 0; i < a.n || j < b.n;) {
    int r = i == a.n ? 1 : j == b.n ? -1 : order_terms(&a.v[i], &b.v[j]);
    term t = r <= 0 ? a.v[i] : b.v[j];
    if (r == 0) t.k = plus(c, t.k, b.v[j].k);
    tn__vec_push(&c->scratch, &sum, t);
    i += r <= 0;
    j += r >= 0;
  }
  return write_sum(c, &sum);
}

static tn_node *scale(tn_ctx *c, tn_node *x, int64_t k) {
  term xs[SHORT];
  term_list a;
  START(&a, xs);
  read_sum(c, x, &a);
  for (uint32_t i = 0; i < a.n; i++) a.v[i].k = times(c, a.v[i].k, k);
  return write_sum(c, &a);
}

/* x as k * product; a sum gives the common factor of its coefficients, with the sign of the first. */
static term factor(tn_ctx *c, tn_node *x) {
  if (x->op != OP_ADD) return read_term(x);
  term xs[SHORT];
  term_list a;
  START(&a, xs);
  read_sum(c, x, &a);
  uint64_t g = 0;
  for (uint32_t i = 0; i < a.n; i++) g = tn__gcd(g, tn__magnitude(a.v[i].k));
  if (g == 0) return (term){1, x}; /* only a sum that was not built here: 0 + 0 from a text */
  int64_t k = g > INT64_MAX ? 1 : (int64_t)g;
  if (a.v[0].k < 0) k = -k;
  if (k == 1) return (term){1, x};
  for (uint32_t i = 0; i < a.n; i++) a.v[i].k = k < 0 ? times(c, a.v[i].k / -k, -1) : a.v[i].k / k;
  return (term){k, write_sum(c, &a)};
}

static tn_node *mul(tn_ctx *c, tn_node *x, tn_node *y) {
  int64_t k;
  if (tn__const_int(y, &k)) return k == 1 ? x : scale(c, x, k);
  if (tn__const_int(x, &k)) return k == 1 ? y : scale(c, y, k);
  term tx = factor(c, x), ty = factor(c, y);
  tn_node *xs[SHORT], *ys[SHORT], *zs[SHORT];
  atom_list a, b, product;
  START(&a, xs), START(&b, ys), START(&product, zs);
  read_product(c, tx.product, &a);
  read_product(c, ty.product, &b);
  for (uint32_t i = 0, j = 0; i < a.n || j < b.n;) {
    bool left = j == b.n || (i < a.n && order_atoms(a.v[i], b.v[j]) <= 0);
    tn__vec_push(&c->scratch, &product, left ? a.v[i++] : b.v[j++]);
  }
  return write_term(c, (term){times(c, tx.k, ty.k), write_product(c, &product)});
}

static tn_node *value(tn_ctx *c, term t) {
  return t.product && t.k != 1 ? scale(c, t.product, t.k) : write_term(c, t);
}

/* x / d if it is a term with an integer coefficient. */
static bool divide_term(tn_ctx *c, term x, term d, term *q) {
  if (x.k % d.k != 0) return false;
  q->k = d.k == -1 ? times(c, x.k, -1) : x.k / d.k;
  q->product = x.product;
  if (!d.product) return true;
  if (!x.product) return false;
  tn_node *xs[SHORT], *ds[SHORT], *rest[SHORT];
  atom_list a, b, left;
  START(&a, xs), START(&b, ds), START(&left, rest);
  read_product(c, x.product, &a);
  read_product(c, d.product, &b);
  uint32_t j = 0;
  for (uint32_t i = 0; i < a.n; i++)
    if (j < b.n && a.v[i] == b.v[j]) j++;
    else tn__vec_push(&c->scratch, &left, a.v[i]);
  q->product = write_product(c, &left);
  return j == b.n;
}

/* x / d where d certainly divides x and is not 0; else NULL. */
static tn_node *quotient(tn_ctx *c, tn_node *x, tn_node *y) {
  if ((y->lo <= 0 && y->hi >= 0) || tn__may_wrap(x)) return NULL;
  term d = factor(c, y), q;
  if (!d.product && x->op != OP_ADD && tn__is_const(x)) return NULL; /* two constants: folding does it */
  if (divide_term(c, factor(c, x), d, &q)) return value(c, q);
  if (x->op != OP_ADD) return NULL;
  term xs[SHORT];
  term_list a;
  START(&a, xs);
  read_sum(c, x, &a);
  for (uint32_t i = 0; i < a.n; i++)
    if (!divide_term(c, a.v[i], d, &a.v[i])) return NULL;
  /* Terms may have changed places: an atom common to all went. */
  tn_node *sum = tn__int(c, 0);
  for (uint32_t i = 0; i < a.n; i++) sum = add(c, sum, value(c, a.v[i]));
  return sum;
}

tn_node *tn__index_op2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y) {
  switch (op) {
  case OP_ADD: return add(c, x, y);
  case OP_MUL: return mul(c, x, y);
  case OP_IDIV: return tn__is_int_const(x, 0) ? x : quotient(c, x, y);
  case OP_MOD: return tn__is_int_const(x, 0) || quotient(c, x, y) ? tn__int(c, 0) : NULL;
  case OP_MIN: return x == y || x->hi <= y->lo ? x : y->hi <= x->lo ? y : NULL;
  case OP_MAX: return x == y || x->lo >= y->hi ? x : y->lo >= x->hi ? y : NULL;
  default: return NULL;
  }
}
