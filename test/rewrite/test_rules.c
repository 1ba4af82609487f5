/* The engine, and what the index rules make of the expressions that lowering writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/text.h"
#include "rewrite/table.h"
#include "support/ctx.h"

static tn_ctx ctx;
static tn_ctx *const c = &ctx;

static int setup(void **state) {
  (void)state;
  return !test_ctx_open(c);
}

static int teardown(void **state) {
  (void)state;
  tn__rules_close(c);
  return test_ctx_close(c) != 0;
}

static void in_run(void (*body)(tn_ctx *, void *), void *arg) {
  if (!tn__ctx_run(c, "test", body, arg)) fail_msg("%s", c->err_text);
}

static const char *fails(void (*body)(tn_ctx *, void *), void *arg) {
  tn_clear_error(c);
  assert_false(tn__ctx_run(c, "test", body, arg));
  return c->err_text;
}

/* ---- expressions as text, for index scalars ---- */

/* r0 < 8, r1 < 64, r2 < 12, r3 < 12, r4 < 4, r5 < 3, r6 < B, r7 < B*4; B, T in 1..512; x any in -1000..1000 */
static tn_node *range(int i) {
  static const int extent[] = {8, 64, 12, 12, 4, 3};
  tn_node *B = tn__var(c, "B", 1, 512);
  tn_node *size = i < 6 ? tn__int(c, extent[i]) : i == 6 ? B : tn__mul(c, B, tn__int(c, 4));
  return tn__range(c, size, AX_LOOP, ROLE_OUTPUT, i);
}

static const char *at;
static tn_node *expression(int level);

static bool take(const char *word) {
  while (*at == ' ') at++;
  size_t n = strlen(word);
  if (strncmp(at, word, n)) return false;
  at += n;
  return true;
}

static tn_node *call(int op, int n) {
  tn_node *k[3];
  for (int i = 0; i < n; i++) {
    k[i] = expression(0);
    assert_true(take(i == n - 1 ? ")" : ","));
  }
  return n == 2 ? tn__op2(c, (tn__op)op, k[0], k[1]) : tn__op3(c, (tn__op)op, k[0], k[1], k[2]);
}

static tn_node *atom(void) {
  if (take("(")) {
    tn_node *n = expression(0);
    assert_true(take(")"));
    return n;
  }
  if (take("!")) return tn__op1(c, OP_NOT, atom());
  if (take("-")) return tn__neg(c, atom());
  if (take("min(")) return call(OP_MIN, 2);
  if (take("max(")) return call(OP_MAX, 2);
  if (take("where(")) return call(OP_WHERE, 3);
  if (take("r")) return range(*at++ - '0');
  if (take("B")) return tn__var(c, "B", 1, 512);
  if (take("T")) return tn__var(c, "T", 1, 512);
  if (take("x")) return tn__var(c, "x", -1000, 1000);
  assert_true(isdigit((unsigned char)*at));
  char *end;
  long v = strtol(at, &end, 10);
  at = end;
  return tn__int(c, v);
}

static tn_node *expression(int level) {
  static const struct {
    const char *text;
    int op, level;
  } infix[] = {{"|", OP_OR, 0}, {"&", OP_AND, 1}, {"==", OP_EQ, 2}, {"!=", OP_NE, 2}, {"<=", OP_LE, 3}, {"<", OP_LT, 3},
               {"+", OP_ADD, 4}, {"-", OP_NEG, 4}, {"*", OP_MUL, 5}, {"/", OP_IDIV, 5}, {"%", OP_MOD, 5}};
  if (level == 6) return atom();
  tn_node *n = expression(level + 1);
  for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
    if (infix[i].level == level && take(infix[i].text)) {
      tn_node *y = expression(level + 1);
      n = infix[i].op == OP_NEG ? tn__sub(c, n, y) : tn__op2(c, (tn__op)infix[i].op, n, y);
      i = (size_t)-1;
    }
  return n;
}

static const char *text_of(tn_node *n) {
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__print_expr(&s, n);
  return tn__sb_str(&s);
}

static const struct {
  const char *from, *to;
} folds[] = {
    /* tiled loops */
    {"(r0*32 + r2)/32", "r0"},
    {"(r0*32 + r2)%32", "r2"},
    {"r0*32 + r2 < 256", "1"},
    {"(((r0*12 + r2)*12 + r3)*64 + r1)%64", "r1"},
    {"(((r0*12 + r2)*12 + r3)*64 + r1)/64", "r0*144 + r2*12 + r3"},
    {"(r0*9216 + r1*144 + r2*12 + r3)/144%64", "r1"},
    {"(r0*9216 + r1*144 + r2*12 + r3)/12%12", "r2"},
    {"(r0*9216 + r1*144 + r2*12 + r3)/9216", "r0"},
    {"(r0*9216 + r1*144 + r2*12 + r3)%9216", "r1*144 + r2*12 + r3"},
    {"(r0*9216 + r1*144 + r2*12 + r3)%144/12", "r2"},
    {"(r0*9216 + r1*144 + r2*12 + r3)%12", "r3"},
    {"(r0*9216 + r1*144 + r2*12 + r3)/48", "r0*192 + r1*3 + r2/4"},
    /* reshape there and back: 144 = 12 x 12 of 96 x 96 */
    {"r1/8*8 + r1%8", "r1"},
    {"(r1/8*8 + r1%8)/16", "r1/16"},
    {"r1/12*144 + r1%12*12 + r3", "r1*12 + r3"},
    {"x/144*144 + x/12%12*12 + x%12", "x"},
    {"x/144*288 + x/12%12*24 + x%12*2 + r3*1000", "x*2 + r3*1000"},
    {"x/12%12*12 + x%12", "x%144"},
    {"x/144*12 + x/12%12", "x/12"},
    {"(x/144*144 + x%144)/12", "x/12"},
    /* nested */
    {"x/3/4", "x/12"},
    {"x%144/12", "x/12%12"},
    {"x%144%12", "x%12"},
    {"(x%64*3 + r1)%64", "(x*3 + r1)%64"},
    {"(x*33)%32", "x%32"},
    {"(x*6 + r1*4 + 3)/8", "(x*3 + r1*2 + 1)/4"},
    {"(r0*12 + r2)/144", "0"},
    {"(r0*24 + r2)/36", "r0*2/3"},
    {"(x/4 + r2)/2", "(x + r2*4)/8"},
    /* padded and windowed views */
    {"(x - 1)/3", "(x + 2)/3 - 1"},
    {"(x + 5)%4", "(x + 1)%4"},
    {"r2 - 1 < 12 & 1 <= r2", "0 < r2"},
    {"r2 + 1 < 13", "1"},
    {"where(r2 + 1 < 13, r2, 5)", "r2"},
    {"1 <= r2 + 1", "1"},
    {"(r4*3 + r5 - 1)/3*3 < 12", "1"},
    {"r0*12 + r2 < 60", "r0 < 5"},
    {"59 < r0*12 + r2", "4 < r0"},
    {"r0/4 < 1", "r0 < 4"},
    {"r0*8 < 12", "r0 < 2"},
    {"!(x < 5)", "4 < x"},
    {"!(x <= 5) | x == 5 & x != 5", "5 < x | x == 5 & x != 5"},
    {"x < 5 & x < 3", "x < 3"},
    {"3 < x & x < 4", "0"},
    {"x + r2 < x + 12", "1"},
    {"x*3 + r2 < x*3 + 5", "r2 < 5"},
    {"min(x, x + 1)", "x"},
    {"max(min(x, 7), 9)", "9"},
    {"min(min(x, 7), 9)", "min(x, 7)"},
    {"x + 4 == 9", "x == 5"},
    /* symbolic sizes */
    {"(r1*B + r6)/B", "r1"},
    {"(r1*B + r6)%B", "r6"},
    {"(r1*B + r6)/(B*4)", "r1/4"},
    {"(r1*B + r6)%(B*4)", "r6 + B*(r1%4)"},
    {"(r1*B*T + r6*T)/T", "B*r1 + r6"},
    {"r1*B + r6 < B*64", "1"},
    {"r6 < B", "1"},
    {"B <= r6", "0"},
    {"(r6*12 + r2)/12", "r6"},
    {"r6*12 + r2 < B*12", "1"},
    {"r7/4*4 + r7%4", "r7"},
    {"r7 < B*4", "1"},
    {"B - 1 - r6 < B", "1"},
    {"B - 1 - r6 < 0", "0"},
    {"r1*B + r6 < B*12", "r1 < 12"},
    {"x/B*B + x%B", "x"},
};

static void fold_all(tn_ctx *k, void *arg) {
  (void)k;
  int *wrong = arg;
  for (size_t i = 0; i < sizeof folds / sizeof *folds; i++) {
    at = folds[i].from;
    const char *got = text_of(tn__simplify_index(c, expression(0)));
    if (!strcmp(got, folds[i].to)) continue;
    print_error("%s\n  gives %s\n  not   %s\n", folds[i].from, got, folds[i].to);
    ++*wrong;
  }
}

static void texts(void **state) {
  (void)state;
  int wrong = 0;
  in_run(fold_all, &wrong);
  assert_int_equal(wrong, 0);
}

/* ---- random expressions ---- */

static uint64_t rng;
static uint32_t rnd(uint32_t n) {
  rng = rng * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(rng >> 33) % n;
}

static tn_node *random_index(int depth);
static tn_node *random_bool(int depth) {
  static const int ops[] = {OP_LT, OP_LE, OP_EQ, OP_NE};
  if (depth > 0 && rnd(4) == 0)
    return tn__op2(c, rnd(2) ? OP_AND : OP_OR, random_bool(depth - 1), random_bool(depth - 1));
  if (depth > 0 && rnd(8) == 0) return tn__op1(c, OP_NOT, random_bool(depth - 1));
  return tn__op2(c, (tn__op)ops[rnd(4)], random_index(depth - 1), random_index(depth - 1));
}

static tn_node *random_index(int depth) {
  static const int64_t k[] = {0, 1, 2, 3, 4, 6, 8, 12, 24, 64, 144, -1, -2, -12};
  tn_node *x, *B = tn__var(c, "B", 1, 512);
  if (depth <= 0 || rnd(6) == 0)
    return rnd(5) == 0   ? tn__int(c, k[rnd(14)])
           : rnd(8) == 0 ? B
           : rnd(6) == 0 ? tn__var(c, "x", -1000, 1000)
                         : range((int)rnd(8));
  x = random_index(depth - 1);
  switch (rnd(10)) {
  case 0:
  case 1: return tn__add(c, x, random_index(depth - 1));
  case 2: return tn__mul(c, x, tn__int(c, k[rnd(14)]));
  case 3: return tn__add(c, tn__mul(c, x, tn__int(c, k[rnd(11)])), random_index(depth - 1));
  case 4: return tn__op2(c, OP_IDIV, x, rnd(6) ? tn__int(c, k[rnd(14)]) : B);
  case 5: return tn__op2(c, OP_MOD, x, rnd(6) ? tn__int(c, k[rnd(14)]) : B);
  case 6: return tn__op2(c, rnd(2) ? OP_MIN : OP_MAX, x, random_index(depth - 1));
  case 7: return tn__where(c, random_bool(depth - 1), x, random_index(depth - 1));
  case 8: return tn__add(c, tn__mul(c, x, B), range(6));
  default: return tn__sub(c, x, random_index(depth - 1));
  }
}

static void try_random(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *n = rnd(3) ? random_index(4) : random_bool(4), *m = tn__simplify_index(c, n);
  assert_ptr_equal(tn__simplify_index(c, m), m); /* a fixpoint */
  tn_node *key[10] = {tn__var(c, "B", 1, 512), tn__var(c, "x", -1000, 1000)};
  for (int i = 0; i < 8; i++) key[2 + i] = range(i);
  for (int point = 0; point < 20; point++) {
    int64_t val[10] = {1 + rnd(rnd(2) ? 512 : 3), (int64_t)rnd(2001) - 1000};
    for (int i = 0; i < 8; i++)
      val[2 + i] = rnd((uint32_t)(i < 6 ? key[2 + i]->src[0]->lo : i == 6 ? val[0] : val[0] * 4));
    tn__env env = {key, val, 10};
    int64_t a = tn__eval_index(n, &env, &c->scratch), b = tn__eval_index(m, &env, &c->scratch);
    if (a != b)
      fail_msg("%s\nbecame %s\n%lld, not %lld, at B=%lld x=%lld", text_of(n), text_of(m), (long long)b, (long long)a,
               (long long)val[0], (long long)val[1]);
    if (a < n->lo || a > n->hi)
      fail_msg("%s: %lld is not in %lld..%lld", text_of(n), (long long)a, (long long)n->lo, (long long)n->hi);
    if (b < m->lo || b > m->hi)
      fail_msg("%s: %lld is not in %lld..%lld", text_of(m), (long long)b, (long long)m->lo, (long long)m->hi);
  }
}

static void random_expressions(void **state) {
  (void)state;
  rng = 7;
  for (int i = 0; i < 4000; i++) in_run(try_random, NULL);
}

/* ---- the engine ---- */

static tn_node *f32_param(int64_t slot) {
  tn_node *dims[] = {tn__int(c, 3), tn__int(c, 2)};
  return tn__param(c, TN_F32, slot, 0, dims, 2);
}
static tn_node *splat(double v) {
  tn_node *dims[] = {tn__int(c, 3), tn__int(c, 2)};
  return tn__scalar_to(c, tn__const_num(c, TN_F32, v), dims, 2);
}

static void cycle(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__ruleset *s = tn__rules_parse(
      c, "cycle", "rule to_cos (sin x) -> (cos x)\nrule to_sin (cos x) -> (sin x)\nrule still (exp x) -> x");
  tn__rewrite(c, tn__op1(c, OP_SIN, f32_param(0)), &s, 1);
}
static void cycles_are_named(void **state) {
  (void)state;
  const char *e = fails(cycle, NULL);
  assert_non_null(strstr(e, "to_cos"));
  assert_non_null(strstr(e, "to_sin"));
  assert_null(strstr(e, "still"));
}

static void growth(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__ruleset *s = tn__rules_parse(c, "growth", "rule grow (sin x) -> (sin (add x 1))");
  tn__rewrite(c, tn__op1(c, OP_SIN, f32_param(0)), &s, 1);
}
static void growth_is_named(void **state) {
  (void)state;
  assert_non_null(strstr(fails(growth, NULL), "grow"));
}

static void bad_dtype(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__ruleset *s = tn__rules_parse(c, "wrong", "rule wrong (lt x y) -> x");
  tn__rewrite(c, tn__op2(c, OP_LT, f32_param(0), f32_param(1)), &s, 1);
}
static void bad_shape(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__ruleset *s = tn__rules_parse(c, "wrong", "rule wrong (permute x p) -> x");
  tn__rewrite(c, tn__permute(c, f32_param(0), (int64_t[]){1, 0}), &s, 1);
}
static void type_is_kept(void **state) {
  (void)state;
  assert_non_null(strstr(fails(bad_dtype, NULL), "rule wrong"));
  assert_non_null(strstr(fails(bad_shape, NULL), "rule wrong"));
}

static void parse_text(tn_ctx *k, void *arg) {
  (void)k;
  tn__rules_parse(c, "t", arg);
}
static void bad_tables(void **state) {
  (void)state;
  static const char *const bad[][2] = {
      {"\nrule a (add x 0) -> y", "line 2"},
      {"rule a (plus x 0) -> x", "no such op"},
      {"rule a (add x) -> x", "expected"},
      {"rule a (add x 0) -> x when x:complex", "no such dtype class"},
      {"rule a (add x 0) -> x rule a (mul x 1) -> x", "earlier"},
      {"rule a (add x 0) -> x when x", "comparison"},
      {"rule a (add x 0) -> x mode quick", "mode"},
      {"rule a (reshape x s) -> s", "argument"},
      {"rule a (add x 0) -> x assume x!=0", "fast"},
      {"rule a x -> x", "starts with an op"},
      {"grad reshape x -> g", "scalar op"},
      {"grad sin y -> g", "source"},
      {"grad sin x -> forbidden because", "quotes"},
      {"grad log x -> (div g x) domain", "a clause has conditions"},
      {"grad log x -> (div g x) domain w>0", "does not bind"},
      {"grad log x -> (div g x) domain x>0 proof slope_row", "quotes"},
      {"rule a (add x 0) -> x when (whole x)", "other kind of rows"},
      {"grad log x -> (div g x) domain (same_shape x)", "other kind of rows"},
      {"rule a (add x 99999999999999999999) -> x", "fit"},
      {"rule a (add x 0) -> (#add x", "expected"},
      {"rule a (add x @) -> x", "no such character"},
      {"add", "row starts"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *e = fails(parse_text, (void *)(uintptr_t)bad[i][0]);
    if (!strstr(e, bad[i][1])) fail_msg("%s: %s", bad[i][0], e);
  }
}

static void clauses(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  const tn__ruleset *s = tn__rules_parse(c, "clauses",
                                         "grad abs x -> (mul g (sign x)) domain x>0 x!=1 domain x<0 kink x=0 proof "
                                         "\"by hand.\" grad exp x -> (mul g out)");
  const tn__rule *r = &s->rule[0];
  assert_int_equal(s->n, 2);
  assert_int_equal(r->nclause, 3);
  assert_int_equal(r->clause[0].n, 2);
  assert_int_equal(r->clause[1].first, 2);
  assert_int_equal(r->cond[2].kind, TC_LT);
  assert_false(r->clause[1].kink);
  assert_true(r->clause[2].kink);
  assert_string_equal(r->proof, "by hand.");
  assert_int_equal(r->ncond, 0); /* nothing for the engine to check */
  assert_int_equal(s->rule[1].nclause, 0);
}
static void gradient_clauses(void **state) { (void)state, in_run(clauses, NULL); }

static void tensors(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *x = f32_param(0), *zero = splat(0), *one = splat(1), *minus_zero = splat(-0.0);
  assert_ptr_equal(tn__simplify_graph(c, tn__mul(c, one, x)), x);
  assert_ptr_equal(tn__simplify_graph(c, tn__add(c, x, minus_zero)), x);
  assert_ptr_not_equal(tn__simplify_graph(c, tn__add(c, x, zero)), x);
  assert_ptr_not_equal(tn__simplify_graph(c, tn__mul(c, x, zero)), zero);
  assert_ptr_equal(tn__simplify_graph(c, tn__add(c, one, splat(2))), splat(3));
  /* parents are tried again: mul(neg(neg 1), x) */
  assert_ptr_equal(tn__simplify_graph(c, tn__mul(c, tn__neg(c, tn__neg(c, one)), x)), x);
  int64_t swap[] = {1, 0};
  tn_node *p = tn__permute(c, x, swap);
  assert_ptr_equal(tn__simplify_graph(c, tn__permute(c, tn__add(c, p, tn__permute(c, minus_zero, swap)), swap)), x);
  tn_node *detached = tn__node_make(c, &(tn__make){.op = OP_DETACH, .src = &x, .nsrc = 1});
  assert_ptr_equal(tn__simplify_graph(c, detached), detached);
  c->mode = TN_MODE_FAST;
  assert_ptr_equal(tn__simplify_graph(c, tn__add(c, x, zero)), x);
  assert_ptr_equal(tn__simplify_graph(c, tn__mul(c, x, zero)), zero);
  c->mode = TN_MODE_DEFAULT;
}
static void tensor_graphs(void **state) { (void)state, in_run(tensors, NULL); }

/* What a buffer or a loop is stays; only values are rewritten. */
static void identities(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *B = tn__var(c, "B", 1, 512), *x = tn__var(c, "x", 0, 999);
  tn_node *odd = tn__op2(c, OP_IDIV, tn__add(c, tn__mul(c, x, tn__int(c, 4)), range(4)), tn__int(c, 4));
  tn_node *dims[] = {odd, B}, *s = tn__storage(c, TN_F32, 9, 0, dims, 2),
          *r = tn__range(c, odd, AX_LOOP, ROLE_OUTPUT, 1);
  assert_ptr_equal(tn__simplify_graph(c, tn__neg(c, tn__neg(c, s))), s);
  assert_ptr_equal(tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__mul(c, r, tn__int(c, 2)), tn__int(c, 2))), r);
}
static void identity_nodes(void **state) { (void)state, in_run(identities, NULL); }

static void deep(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *x = f32_param(0), *y = f32_param(1), *n = x;
  for (int i = 0; i < 200000; i++) n = tn__op1(c, i % 2 ? OP_NEG : OP_SIN, tn__mul(c, n, splat(1)));
  tn_node *m = tn__simplify_graph(c, n), *want = x;
  for (int i = 0; i < 200000; i++) want = tn__op1(c, i % 2 ? OP_NEG : OP_SIN, want);
  assert_ptr_equal(m, want);
  m = tn__substitute(c, m, &x, &y, 1);
  for (int i = 0; i < 200000; i++) m = m->src[0];
  assert_ptr_equal(m, y);
}
static void deep_graphs(void **state) { (void)state, in_run(deep, NULL); }

static void substitute(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *x = tn__var(c, "x", -1000, 1000), *B = tn__var(c, "B", 1, 512), *r = range(0);
  tn_node *e = tn__op2(c, OP_LT, tn__add(c, tn__mul(c, x, B), r), tn__mul(c, B, x));
  tn_node *old[] = {x, r}, *new_[] = {r, x}; /* at once, not one after the other */
  assert_ptr_equal(tn__substitute(c, e, old, new_, 2),
                   tn__op2(c, OP_LT, tn__add(c, tn__mul(c, r, B), x), tn__mul(c, B, r)));
  tn_node *three = tn__int(c, 3), *four = tn__int(c, 4);
  tn_node *both[] = {B, x}, *values[] = {three, four};
  assert_ptr_equal(tn__substitute(c, tn__add(c, tn__mul(c, B, x), r), both, values, 2), tn__add(c, r, tn__int(c, 12)));
  tn_node *dims[] = {B}, *s = tn__storage(c, TN_F32, 1, 0, dims, 1);
  assert_ptr_equal(tn__substitute(c, s, &B, &three, 1)->dim[0], three);
  assert_ptr_equal(tn__substitute(c, s, &x, &three, 1), s);
}
static void substitution(void **state) { (void)state, in_run(substitute, NULL); }

static void hits(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__ruleset *s = tn__rules_get(c, "simplify");
  assert_ptr_equal(s, tn__rules_get(c, "simplify"));
  uint64_t before = 0, after = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < tn__rules_count(s); i++)
      if (!strcmp(tn__rules_name(s, i), "neg_neg")) *(pass ? &after : &before) = tn__rules_hits(s, i);
    if (!pass) tn__simplify_graph(c, tn__neg(c, tn__neg(c, f32_param(77))));
  }
  assert_int_equal(after, before + 1);
}
static void hits_are_counted(void **state) { (void)state, in_run(hits, NULL); }

/* ---- rows whose right side may wrap ---- */

static uint64_t hits_of(const char *row) {
  const tn__ruleset *s = tn__rules_get(c, "index");
  for (uint32_t i = 0; i < s->n; i++)
    if (!strcmp(s->rule[i].name, row)) return s->rule[i].hits;
  fail_msg("there is no row %s", row);
  return 0;
}

/* One graph for each of three rows that say (fits), over a variable v: its right side takes 8 v, -v or 2 v to a
 * division. */
static tn_node *tempting(int which, tn_node *v) {
  tn_node *w = tn__var(c, "w", 0, 5);
  switch (which) {
  case 0:
    return tn__op2(c, OP_MOD, tn__add(c, tn__mul(c, tn__op2(c, OP_MOD, v, tn__int(c, 3)), tn__int(c, 8)), w),
                   tn__int(c, 12));
  case 1: return tn__op2(c, OP_IDIV, tn__add(c, v, w), tn__int(c, -8));
  default: return tn__op2(c, OP_IDIV, tn__add(c, tn__op2(c, OP_IDIV, w, tn__int(c, 2)), v), tn__int(c, 9));
  }
}

static void refusals(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  static const char *const rows[] = {"mod_mod", "idiv_negative", "idiv_idiv"};
  const int64_t far[][2] = {{0, INT64_MAX / 4}, {INT64_MIN, INT64_MAX - 5}, {0, INT64_MAX - 5}};
  for (int i = 0; i < 3; i++) {
    uint64_t before = hits_of(rows[i]);
    tn_node *v = tn__var(c, "v", far[i][0], far[i][1]), *n = tempting(i, v);
    tn_node *w = tn__var(c, "w", 0, 5), *key[] = {v, w}, *m = tn__simplify_index(c, n);
    if (hits_of(rows[i]) != before) fail_msg("%s fired where its right side may wrap", rows[i]);
    for (int end = 0; end < 2; end++) {
      int64_t value[] = {far[i][end], end};
      tn__env env = {key, value, 2};
      assert_int_equal(tn__eval_index(n, &env, &c->scratch), tn__eval_index(m, &env, &c->scratch));
    }
    tn__simplify_index(c, tempting(i, tn__var(c, "v", 0, 1000))); /* the row is one for this graph */
    if (hits_of(rows[i]) == before) fail_msg("%s does not fire at all", rows[i]);
  }
}
static void rows_that_may_wrap(void **state) { (void)state, in_run(refusals, NULL); }

static void missing_set(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn__rules_get(c, "nothing");
}
static void unknown_table(void **state) {
  (void)state;
  assert_non_null(strstr(fails(missing_set, NULL), "nothing"));
}

/* ---- gradient rows ---- */

static void gradients(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  tn_node *x = f32_param(0), *y = f32_param(1), *g = f32_param(2), *xy[] = {x, y};
  tn_node *prod = tn__mul(c, x, y), *e2 = tn__op1(c, OP_EXP2, x), *less = tn__op2(c, OP_LT, x, y);
  assert_ptr_equal(tn__rules_gradient(c, prod, 0, g), tn__mul(c, g, xy[1]));
  assert_ptr_equal(tn__rules_gradient(c, prod, 1, g), tn__mul(c, g, xy[0]));
  assert_null(tn__rules_gradient(c, less, 0, g));
  tn_node *d = tn__rules_gradient(c, e2, 0, g), *ln2 = NULL;
  assert_int_equal(d->op, OP_MUL);
  for (int i = 0; i < 2; i++)
    if (d->src[i]->op == OP_EXPAND) ln2 = d->src[i]->src[0]->src[0];
  assert_non_null(ln2);
  float want = 0.693147180559945309417232121458176568f, got;
  memcpy(&got, &ln2->ints[0], sizeof got); /* little-endian; the bits stand low */
  assert_memory_equal(&got, &want, sizeof want);
  assert_int_equal(d->rank, 2);
}
static void gradient_rows(void **state) { (void)state, in_run(gradients, NULL); }

static void no_gradient(tn_ctx *k, void *arg) {
  (void)k;
  tn__rules_gradient(c, arg ? tn__contract(c, f32_param(0), f32_param(1), 0, 1, 1, 1) : f32_param(0), 0, f32_param(2));
}
static void missing_gradient(void **state) {
  (void)state;
  assert_non_null(strstr(fails(no_gradient, NULL), "param"));
  assert_int_equal(c->err.status, TN_EGRAD);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts),           cmocka_unit_test(random_expressions), cmocka_unit_test(cycles_are_named),
      cmocka_unit_test(growth_is_named), cmocka_unit_test(type_is_kept),       cmocka_unit_test(bad_tables),
      cmocka_unit_test(tensor_graphs),   cmocka_unit_test(identity_nodes),     cmocka_unit_test(deep_graphs),
      cmocka_unit_test(substitution),    cmocka_unit_test(hits_are_counted),   cmocka_unit_test(unknown_table),
      cmocka_unit_test(gradient_clauses), cmocka_unit_test(gradient_rows),   cmocka_unit_test(missing_gradient),
      cmocka_unit_test(rows_that_may_wrap),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
