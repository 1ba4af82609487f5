#include "verify/term.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

enum { MOST_TERMS = 1 << 21, DEGREE = 6, MOST_PRODUCTS = 48, SHOWN = 4, DEPTH = 3 };

void tn__terms_open(tn__arena *a, tn__terms *t) {
  *t = (tn__terms){.arena = a};
  tn__map_init(&t->known, a);
  tn__vec_push(a, &t->v, (tn__term_node){0});
}

static uint32_t intern(tn__terms *t, const tn__term_node *n) {
  uint64_t key = tn__hash_bytes(n, sizeof *n, 0), known;
  if (tn__map_get(&t->known, key, &known)) return (uint32_t)known;
  if (t->v.n == MOST_TERMS) return 0;
  tn__vec_push(t->arena, &t->v, *n);
  tn__map_put(&t->known, key, t->v.n - 1);
  return t->v.n - 1;
}

uint32_t tn__term_leaf(tn__terms *t, int op, int dtype, uint64_t a, uint64_t b) {
  tn__term_node n;
  memset(&n, 0, sizeof n); /* its padding is hashed, too */
  n.op = (uint8_t)op, n.dtype = (uint8_t)dtype, n.a = a, n.b = b;
  return intern(t, &n);
}

uint32_t tn__term_of(tn__terms *t, int op, int dtype, const uint32_t *src, uint32_t count) {
  tn__term_node n;
  memset(&n, 0, sizeof n);
  n.op = (uint8_t)op, n.dtype = (uint8_t)dtype, n.n = (uint8_t)count;
  memcpy(n.src, src, count * sizeof *src);
  return intern(t, &n);
}

/* ---- normal form: a sum of products of atoms ---- */

typedef struct product {
  double factor;
  uint32_t n, atom[DEGREE]; /* ascending */
} product;

typedef struct sum {
  product *v;
  uint32_t n;
} sum;

typedef struct normal {
  const tn__terms *t;
  tn__arena *a;
  sum *form;    /* by term */
  uint8_t *on;
  tn__map atom; /* function and hashes of its arguments' forms -> the first term that is so */
} normal;

static void add_product(sum *s, const product *p, double by) {
  for (uint32_t i = 0; i < s->n; i++) {
    if (s->v[i].n != p->n || memcmp(s->v[i].atom, p->atom, p->n * sizeof *p->atom)) continue;
    s->v[i].factor += by * p->factor;
    if (s->v[i].factor == 0) s->v[i] = s->v[--s->n];
    return;
  }
  s->v[s->n] = *p;
  s->v[s->n++].factor *= by;
}

static bool add_all(normal *f, sum *out, const sum *x, const sum *y, double by) {
  *out = (sum){.v = tn__arena_alloc(f->a, (x->n + y->n + 1) * sizeof *out->v)};
  for (uint32_t i = 0; i < x->n; i++) add_product(out, &x->v[i], 1);
  for (uint32_t i = 0; i < y->n; i++) add_product(out, &y->v[i], by);
  return out->n <= MOST_PRODUCTS;
}

static bool multiply(normal *f, sum *out, const sum *x, const sum *y) {
  *out = (sum){.v = tn__arena_alloc(f->a, (x->n * y->n + 1) * sizeof *out->v)};
  for (uint32_t i = 0; i < x->n; i++)
    for (uint32_t j = 0; j < y->n; j++) {
      const product *p = &x->v[i], *q = &y->v[j];
      product r = {.factor = p->factor * q->factor};
      if (p->n + q->n > DEGREE) return false;
      for (uint32_t a = 0, b = 0; a < p->n || b < q->n;)
        r.atom[r.n++] = b == q->n || (a < p->n && p->atom[a] <= q->atom[b]) ? p->atom[a++] : q->atom[b++];
      add_product(out, &r, 1);
    }
  return out->n <= MOST_PRODUCTS;
}

static uint64_t hash_of(const sum *s) {
  uint64_t h = 0;
  for (uint32_t i = 0; i < s->n; i++)
    h += tn__hash_bytes(s->v[i].atom, s->v[i].n * sizeof(uint32_t), tn__hash_bytes(&s->v[i].factor, sizeof(double), 1));
  return h;
}

static sum as_atom(normal *f, uint32_t at) {
  const tn__term_node *n = &f->t->v.v[at];
  uint64_t key = tn__hash_mix(tn__hash_mix(n->op, n->n ? 0 : at), n->n), known = at;
  for (uint32_t i = 0; i < n->n; i++) key = tn__hash_mix(key, hash_of(&f->form[n->src[i]]));
  if (!tn__map_get(&f->atom, key, &known)) tn__map_put(&f->atom, key, at);
  sum s = {.v = tn__arena_alloc(f->a, sizeof *s.v), .n = 1};
  s.v[0] = (product){.factor = 1, .n = 1, .atom = {(uint32_t)known}};
  return s;
}

static sum constant(normal *f, double d) {
  sum s = {.v = tn__arena_alloc(f->a, sizeof *s.v), .n = d != 0};
  s.v[0] = (product){.factor = d};
  return s;
}

static sum form_of(normal *f, uint32_t at) {
  const tn__term_node *n = &f->t->v.v[at];
  const sum none = {0}, *x = n->n ? &f->form[n->src[0]] : &none, *y = n->n > 1 ? &f->form[n->src[1]] : &none;
  sum s = {0}, xy;
  double d = n->op == OP_CONST ? tn__eval_to_double(n->dtype, n->a) : 0;
  bool good = false;
  if (n->op == OP_CONST && isfinite(d)) return constant(f, d);
  if (n->op == OP_CAST && tn__is_float(n->dtype)) return *x;
  if (n->dtype != TN_BOOL) {
    if (n->op == OP_ADD) good = add_all(f, &s, x, y, 1);
    if (n->op == OP_NEG) good = add_all(f, &s, &none, x, -1);
    if (n->op == OP_MUL) good = multiply(f, &s, x, y);
    if (n->op == OP_FMA) good = multiply(f, &xy, x, y) && add_all(f, &s, &xy, &f->form[n->src[2]], 1);
  }
  return good ? s : as_atom(f, at);
}

/* ---- text ---- */

static void write_sum(const normal *f, const sum *s, tn__sb *out, int depth);

static void write_atom(const normal *f, uint32_t at, tn__sb *out, int depth) {
  const tn__term_node *n = &f->t->v.v[at];
  if (at == 0) {
    tn__sb_puts(out, "...");
  } else if (n->op == OP_PARAM) {
    tn__sb_printf(out, "p%llu[%llu]", (unsigned long long)n->a, (unsigned long long)n->b);
  } else if (n->op == OP_CONST) {
    tn__sb_printf(out, "%g", tn__eval_to_double(n->dtype, n->a));
  } else {
    tn__sb_printf(out, "%s(", tn__ops[n->op].text);
    for (uint32_t i = 0; i < n->n; i++) {
      tn__sb_puts(out, i ? ", " : "");
      if (depth) write_sum(f, &f->form[n->src[i]], out, depth - 1);
      else tn__sb_puts(out, "...");
    }
    tn__sb_puts(out, ")");
  }
}

static void write_sum(const normal *f, const sum *s, tn__sb *out, int depth) {
  if (!s->n) tn__sb_puts(out, "0");
  for (uint32_t i = 0; i < s->n; i++) {
    const product *p = &s->v[i];
    double size = fabs(p->factor);
    if (i == SHOWN) {
      tn__sb_printf(out, " and %u more", s->n - i);
      return;
    }
    tn__sb_puts(out, p->factor < 0 ? i ? " - " : "-" : i ? " + " : "");
    if (size != 1 || !p->n) tn__sb_printf(out, "%g", size);
    for (uint32_t a = 0; a < p->n; a++) {
      if (a || size != 1) tn__sb_puts(out, "*");
      write_atom(f, p->atom[a], out, depth);
    }
  }
}

static void find_forms(normal *f, const uint32_t *root, uint32_t n) {
  tn__vec(uint32_t) todo = {0};
  for (uint32_t i = 0; i < n; i++) tn__vec_push(f->a, &todo, root[i]);
  while (todo.n) {
    uint32_t at = todo.v[--todo.n];
    if (f->on[at]) continue;
    f->on[at] = 1;
    for (uint32_t i = 0; i < f->t->v.v[at].n; i++) tn__vec_push(f->a, &todo, f->t->v.v[at].src[i]);
  }
  for (uint32_t i = 0; i < f->t->v.n; i++) /* sources have smaller numbers */
    if (f->on[i]) f->form[i] = form_of(f, i);
}

void tn__term_difference(const tn__terms *t, uint32_t want, uint32_t got, tn__sb *out) {
  normal f = {.t = t, .a = t->arena};
  f.form = tn__arena_zalloc(f.a, t->v.n * sizeof *f.form);
  f.on = tn__arena_zalloc(f.a, t->v.n);
  tn__map_init(&f.atom, f.a);
  find_forms(&f, (uint32_t[]){want, got}, 2);
  sum more;
  add_all(&f, &more, &f.form[got], &f.form[want], -1);
  tn__sb_puts(out, "is ");
  write_sum(&f, &f.form[got], out, DEPTH);
  tn__sb_puts(out, ", should be ");
  write_sum(&f, &f.form[want], out, DEPTH);
  if (f.form[got].n > 1 || f.form[want].n > 1) {
    tn__sb_puts(out, "; the first less the second: ");
    write_sum(&f, &more, out, DEPTH);
  }
}
