/* The constructors of index arithmetic (ir/index.c) on every expression of up to three operators over two variables and
 * some constants.  What they make (1) has the value that was asked for, over the integers, at all values of the
 * variables from -8 to 7, (2) is the same whatever the order of a sum's or product's operands, and (3) has no division,
 * remainder, min or max but those of the operands and the one asked for, on these very operands: so that nothing of it
 * wraps at 64 bits that did not before.
 *
 * Of sums and products of up to three operators no more than (1) is needed: polynomials of such degrees that agree at
 * 16 points of each variable are one. */
#include "ir/eval.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/in_ctx.h"

enum { FROM = -8, SIDE = 16, POINTS = SIDE * SIDE, OPS = 6, MAX_NODES = 64 };
static const tn__op ops[OPS] = {OP_ADD, OP_MUL, OP_IDIV, OP_MOD, OP_MIN, OP_MAX};

/* What was asked for: a node and the values that it must have. */
typedef struct asked {
  tn_node *node;
  int64_t value[POINTS];
} asked;

typedef struct bench {
  tn_ctx *c;
  tn_node *var[2];
  uint64_t made, kept; /* expressions; of which the constructor left the operator asked for */
} bench;

static int64_t floor_of(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

static int64_t apply(tn__op op, int64_t x, int64_t y) {
  switch (op) {
  case OP_ADD: return x + y;
  case OP_MUL: return x * y;
  case OP_IDIV: return y ? floor_of(x, y) : 0;
  case OP_MOD: return y ? x - y * floor_of(x, y) : x;
  case OP_MIN: return x < y ? x : y;
  default: return x > y ? x : y;
  }
}

static bool is_exact(const tn_node *n) {
  return n->op == OP_IDIV || n->op == OP_MOD || n->op == OP_MIN || n->op == OP_MAX;
}

/* The nodes of n, sources first, each once. */
static uint32_t nodes_of(tn_node *n, tn_node **out, uint32_t have) {
  for (uint32_t i = 0; i < have; i++)
    if (out[i] == n) return have;
  for (uint32_t i = 0; i < n->nsrc; i++) have = nodes_of(n->src[i], out, have);
  if (have == MAX_NODES) fail_msg("too many nodes");
  out[have] = n;
  return have + 1;
}

static void check_value(const bench *b, const asked *a) {
  tn_node *node[MAX_NODES];
  int64_t v[MAX_NODES], k;
  uint8_t of[MAX_NODES][2] = {{0}};
  uint32_t n = nodes_of(a->node, node, 0);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t s = 0; s < node[i]->nsrc; s++)
      while (node[of[i][s]] != node[i]->src[s]) of[i][s]++;
  for (int p = 0; p < POINTS; p++) {
    for (uint32_t i = 0; i < n; i++)
      v[i] = node[i] == b->var[0]         ? FROM + p % SIDE
             : node[i] == b->var[1]       ? FROM + p / SIDE
             : tn__const_int(node[i], &k) ? k
                                          : apply(node[i]->op, v[of[i][0]], v[of[i][1]]);
    if (v[n - 1] != a->value[p])
      fail_msg("%lld instead of %lld at %d, %d", (long long)v[n - 1], (long long)a->value[p], FROM + p % SIDE,
               FROM + p / SIDE);
    if (v[n - 1] < a->node->lo || v[n - 1] > a->node->hi) fail_msg("%lld is outside its interval", (long long)v[n - 1]);
  }
}

static void check_operators(tn__op op, tn_node *x, tn_node *y, tn_node *made) {
  tn_node *of_made[MAX_NODES], *given[2 * MAX_NODES];
  uint32_t n = nodes_of(made, of_made, 0), m = nodes_of(y, given, nodes_of(x, given, 0));
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *d = of_made[i];
    bool known = !is_exact(d) || (d->op == op && d->src[0] == x && d->src[1] == y);
    for (uint32_t j = 0; j < m && !known; j++) known = given[j] == d;
    if (!known) fail_msg("%s made another %s", tn__ops[op].text, tn__ops[d->op].text);
  }
}

/* x op y; in *out, if there is one. */
static void make(bench *b, tn__op op, const asked *x, const asked *y, asked *out) {
  asked here, *a = out ? out : &here;
  a->node = tn__op2(b->c, op, x->node, y->node);
  for (int p = 0; p < POINTS; p++) a->value[p] = apply(op, x->value[p], y->value[p]);
  check_value(b, a);
  check_operators(op, x->node, y->node, a->node);
  if ((op == OP_ADD || op == OP_MUL) && tn__op2(b->c, op, y->node, x->node) != a->node)
    fail_msg("%s depends on the order", tn__ops[op].text);
  b->made++;
  b->kept += a->node->op == op;
}

static void variable(bench *b, int i, asked *out) {
  out->node = b->var[i];
  for (int p = 0; p < POINTS; p++) out->value[p] = FROM + (i ? p / SIDE : p % SIDE);
}

static void number(bench *b, int64_t v, asked *out) {
  out->node = tn__int(b->c, v);
  for (int p = 0; p < POINTS; p++) out->value[p] = v;
}

/* All x op y of two lists; returns how many. */
static uint32_t pairs(bench *b, const asked *x, uint32_t nx, const asked *y, uint32_t ny, asked *out) {
  uint32_t n = 0;
  for (int o = 0; o < OPS; o++)
    for (uint32_t i = 0; i < nx; i++)
      for (uint32_t j = 0; j < ny; j++, n++) make(b, ops[o], &x[i], &y[j], out ? &out[n] : NULL);
  return n;
}

static void begin(bench *b, tn_ctx *c) {
  *b = (bench){.c = c, .var = {tn__var(c, "B", FROM, FROM + SIDE - 1), tn__var(c, "T", FROM, FROM + SIDE - 1)}};
}

static uint32_t leaves(bench *b, const int64_t *numbers, uint32_t n, asked *out) {
  variable(b, 0, &out[0]), variable(b, 1, &out[1]);
  for (uint32_t i = 0; i < n; i++) number(b, numbers[i], &out[2 + i]);
  return n + 2;
}

static void report(const bench *b) {
  print_message("%llu expressions, %llu of them with the operator asked for at the top\n", (unsigned long long)b->made,
                (unsigned long long)b->kept);
  assert_true(b->kept > b->made / 4 && b->kept < b->made);
}

static void two_operators(tn_ctx *c, void *arg) {
  (void)arg;
  static const int64_t numbers[] = {-4, -3, -2, -1, 0, 1, 2, 3, 4, 6};
  bench b;
  asked *one = tn__arena_zalloc(&c->scratch, 12 * sizeof *one),
        *two = tn__arena_zalloc(&c->scratch, OPS * 144 * sizeof *two);
  begin(&b, c);
  uint32_t n = leaves(&b, numbers, 10, one), m = pairs(&b, one, n, one, n, two);
  pairs(&b, two, m, one, n, NULL);
  pairs(&b, one, n, two, m, NULL);
  report(&b);
}

static void three_operators(tn_ctx *c, void *arg) {
  (void)arg;
  static const int64_t numbers[] = {-2, 3};
  enum { LEAVES = 4, TWO = OPS * LEAVES * LEAVES, THREE = OPS * TWO * LEAVES };
  bench b;
  asked *one = tn__arena_zalloc(&c->scratch, LEAVES * sizeof *one),
        *two = tn__arena_zalloc(&c->scratch, TWO * sizeof *two),
        *three = tn__arena_zalloc(&c->scratch, THREE * sizeof *three);
  begin(&b, c);
  uint32_t n = leaves(&b, numbers, 2, one), m = pairs(&b, one, n, one, n, two);
  pairs(&b, two, m, two, m, NULL);
  for (int flipped = 0; flipped < 2; flipped++) {
    uint32_t k = flipped ? pairs(&b, one, n, two, m, three) : pairs(&b, two, m, one, n, three);
    pairs(&b, three, k, one, n, NULL);
    pairs(&b, one, n, three, k, NULL);
  }
  report(&b);
}

static void test_two_operators(void **state) { (void)state, test_in_ctx(two_operators, NULL); }
static void test_three_operators(void **state) { (void)state, test_in_ctx(three_operators, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_operators), cmocka_unit_test(test_three_operators)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
