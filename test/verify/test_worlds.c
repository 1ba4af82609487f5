/* A world in which constants round is no world that says nothing: a wrong program beside a sum of constants, or beside
 * a function of bf16, is refused, and so is a wrong value that is smaller than what bf16 rounds elsewhere; a right
 * program whose constants were folded is equal; and where a division by 0 leaves everything open, it is not comparable.
 *
 * A program is made twice, as the user has it and as a mistake in a pass would have made it; what is scheduled is the
 * second one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "run/runtime.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include "verify/value.h"
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { N = 64, OUTPUTS = 2 };

typedef struct outputs {
  tn_tensor *t[OUTPUTS];
} outputs;

static tn_tensor *input(tn_ctx *c, tn_dtype dtype) {
  tn_tensor *x = tn_contiguous(tn_full(c, dtype, DIMS(N), 1.0));
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  return x;
}

/* Which of two is chosen, where they are equal, odd worlds alone can tell. */
static tn_tensor *of_ties(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  (void)c;
  return tn_where(wrong ? tn_le(in[0], in[1]) : tn_lt(in[0], in[1]), in[2], in[0]);
}

static outputs ties(tn_ctx *c, tn_tensor *const *in, bool wrong) { return (outputs){{of_ties(c, in, wrong)}}; }

static outputs beside_constants(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  return (outputs){{of_ties(c, in, wrong), tn_sum(tn_full(c, TN_F32, DIMS(N), 0.1), NULL, 0, false)}};
}

static outputs beside_halves(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  return (outputs){{of_ties(c, in, wrong), tn_sin(tn_exp(in[3]))}};
}

/* 3 % of 100 is more than the ties make. */
static outputs with_halves(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  tn_tensor *x = tn_mul_scalar(tn_cast(in[3], TN_F32), 100);
  return (outputs){{tn_add(of_ties(c, in, wrong), x)}};
}

static outputs scaled(tn_ctx *c, tn_tensor *const *in, bool folded) {
  (void)c;
  tn_tensor *x = in[0];
  return (outputs){{folded ? tn_mul_scalar(x, 0.1 * 0.3) : tn_mul_scalar(tn_mul_scalar(x, 0.1), 0.3)}};
}

static outputs scaled_by_another(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  (void)c;
  tn_tensor *x = tn_mul_scalar(in[0], 0.1);
  return (outputs){{tn_mul_scalar(x, wrong ? 0.3001 : 0.3)}};
}

static outputs by_itself(tn_ctx *c, tn_tensor *const *in, bool one) {
  tn_tensor *x = in[0];
  return (outputs){{tn_sum(one ? tn_full(c, TN_F32, DIMS(N), 1) : tn_div(x, x), NULL, 0, false)}};
}

/* Another sign is wrong; but 0 divides it everywhere. */
static outputs by_nothing(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  (void)c;
  return (outputs){{tn_div(wrong ? tn_neg(in[0]) : in[0], tn_sub(in[2], in[2]))}};
}

static outputs by_product(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  (void)c, (void)wrong; /* so many steps are the library's */
  tn_tensor *both[2] = {tn_reshape(in[0], DIMS(8, 8)), tn_reshape(in[1], DIMS(8, 8))};
  return (outputs){{tn_gelu_tanh(tn_matmul(tn_concatenate(both, 2, 1), tn_concatenate(both, 2, 0)))}};
}

/* Added up as whole numbers of 64 bits, where threads may add to them at once */
static outputs scatter_as(tn_ctx *c, tn_tensor *const *in, bool wrong, tn_dtype dtype) {
  enum { TIMES = 80, PLACES = 1500 };
  tn_tensor *upd = tn_reshape(tn_expand(tn_reshape(in[0], DIMS(1, N)), DIMS(TIMES, N)), DIMS(TIMES * N));
  tn_tensor *to = tn_mod_scalar(tn_arange(c, TN_I64, 0, TIMES * N, 1), PLACES);
  upd = tn_cast(wrong ? tn_abs(upd) : upd, dtype);
  return (outputs){{tn_scatter_add(tn_zeros(c, dtype, DIMS(PLACES)), 0, to, upd)}};
}

static outputs scattered(tn_ctx *c, tn_tensor *const *in, bool wrong) { return scatter_as(c, in, wrong, TN_F32); }

/* f16 has whole numbers of 2^-24, and drawn ones have more digits. */
static outputs beside_folded(tn_ctx *c, tn_tensor *const *in, bool folded) {
  outputs o = scatter_as(c, in, false, TN_F16);
  o.t[1] = scaled(c, in, folded).t[0];
  return o;
}

static outputs wrong_beside_folded(tn_ctx *c, tn_tensor *const *in, bool wrong) {
  outputs o = scatter_as(c, in, wrong, TN_F16);
  o.t[1] = scaled(c, in, wrong).t[0];
  return o;
}

typedef struct row {
  const char *name;
  outputs (*make)(tn_ctx *c, tn_tensor *const *in, bool wrong);
  tn_mode mode;
  bool wrong, shorter; /* shorter: what a library is to sum */
  tn__verify_result result;
} row;

#define RIGHT(make, mode) {#make ", as it is", make, mode, false, false, TN__VERIFY_EQUAL}
#define WRONG(make, mode) {#make, make, mode, true, false, TN__VERIFY_DIFFERS}
static const row rows[] = {
    RIGHT(ties, TN_MODE_DEFAULT),
    WRONG(ties, TN_MODE_DEFAULT),
    RIGHT(beside_constants, TN_MODE_DEFAULT),
    WRONG(beside_constants, TN_MODE_DEFAULT),
    RIGHT(beside_halves, TN_MODE_DEFAULT),
    WRONG(beside_halves, TN_MODE_DEFAULT),
    RIGHT(with_halves, TN_MODE_FAST),
    WRONG(with_halves, TN_MODE_FAST),
    RIGHT(scaled_by_another, TN_MODE_FAST),
    WRONG(scaled_by_another, TN_MODE_FAST),
    {"scaled", scaled, TN_MODE_FAST, true, false, TN__VERIFY_EQUAL},
    {"by itself", by_itself, TN_MODE_FAST, true, false, TN__VERIFY_EQUAL},
    {"by nothing", by_nothing, TN_MODE_FAST, true, false, TN__VERIFY_UNKNOWN},
    RIGHT(scattered, TN_MODE_DEFAULT),
    WRONG(scattered, TN_MODE_DEFAULT),
    {"scattered beside folded constants", beside_folded, TN_MODE_FAST, true, false, TN__VERIFY_EQUAL},
    WRONG(wrong_beside_folded, TN_MODE_FAST),
    RIGHT(by_product, TN_MODE_DEFAULT),
    {"by product, shorter", by_product, TN_MODE_DEFAULT, false, true, TN__VERIFY_DIFFERS},
};

/* ---- a row ---- */

typedef struct trial {
  const row *r;
  outputs want, done;
  tn__verify_result result;
  char why[300];
} trial;

static tn_node *key_of(tn_ctx *c, const outputs *out) {
  tn__nodes roots = {0}, in = {0};
  for (int i = 0; i < OUTPUTS && out->t[i]; i++) tn__vec_push(&c->scratch, &roots, out->t[i]->node);
  return tn__plan_key(c, roots.v, roots.n, &in);
}

static void compare(tn_ctx *c, void *arg) {
  trial *t = arg;
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = key_of(c, &t->done)};
  uint32_t products = 0;
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  pipeline_lower(&p);
  p.key = key_of(c, &t->want);
  pipeline_place(&p);
  for (uint32_t i = 0; i < p.s->items.n; i++) {
    products += p.subject.item[i].product && p.product[i].after == TN__AFTER_GELU;
    if (t->r->shorter) p.product[i].k--;
  }
  assert_int_equal(products, t->r->make == by_product);
  const tn__verdict *v = pipeline_verify(&p);
  t->result = v->result;
  snprintf(t->why, sizeof t->why, "%s", v->why ? v->why : "");
}

static bool has_gemm(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }
static bool has_after(tn__device *d, int dtype, tn__after after) { return (void)d, (void)dtype, (void)after, true; }
static tn_status no_gemm(tn__device *d, const tn__product *g) { return (void)d, (void)g, TN_ENOTSUP; }

static void try_row(const row *r) {
  bool groups = r->make == scattered || r->make == beside_folded || r->make == wrong_beside_folded;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = groups ? "ref:sm_90" : "ref", .quiet = 1, .mode = r->mode});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  tn__device_ops ops = *d->ops;
  ops.has_gemm = has_gemm, ops.has_after = has_after, ops.gemm = no_gemm;
  if (r->make == by_product) d->ops = &ops;
  tn_scope(c) {
    tn_tensor *const in[] = {input(c, TN_F32), input(c, TN_F32), input(c, TN_F32), input(c, TN_BF16)};
    trial t = {.r = r, .want = r->make(c, in, false), .done = r->make(c, in, r->wrong)};
    if (!tn__ctx_run(c, "compare", compare, &t)) fail_msg("%s: %s", r->name, tn_last_error(c)->text);
    if (t.result != r->result) fail_msg("%s: verdict %d, should be %d: %s", r->name, t.result, r->result, t.why);
  }
  tn_ctx_close(c);
}

static void worlds(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_row(&rows[i]);
}

/* Unknowns that are sorted by others go as bits, and come back as what they were. */
static void go_as_bits(tn_ctx *c, void *arg) {
  static const struct {
    int dtype, bits;
    int64_t n;
  } of[] = {{TN_F16, TN_U16, 3000}, {TN_BF16, TN_I16, 3000}, {TN_F32, TN_U32, 200000}, {TN_F64, TN_I64, 3000}};
  (void)arg;
  for (uint32_t number = 0; number < 4; number++)
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
      int dtype = of[k].dtype, as = of[k].bits;
      int64_t n = of[k].n;
      tn__world w;
      tn__world_open(c, number, NULL, &w);
      tn__val *x = tn__arena_alloc(&c->scratch, (size_t)n * sizeof *x),
              *bits = tn__arena_alloc(&c->scratch, (size_t)n * sizeof *x);
      for (int64_t i = 0; i < n; i++) x[i] = tn__val_input(&w, dtype, 1, i);
      for (int64_t i = 0; i < n; i++) bits[i] = tn__val_eval(&w, OP_BITCAST, as, dtype, &x[i]);
      for (int64_t i = 0; i < n; i++) {
        tn__val again = tn__val_eval(&w, OP_BITCAST, as, dtype, &x[i]);
        tn__val back = tn__val_eval(&w, OP_BITCAST, dtype, as, &bits[i]);
        assert_int_equal(again.v, bits[i].v);
        if (!tn__val_same(dtype, back, x[i]))
          fail_msg("world %u, dtype %d: unknown %lld is another", number, dtype, (long long)i);
      }
      assert_false(w.rounded);
    }
}

/* Half floats have 65536 patterns: where they run out, the world says that it does not tell. */
static void run_out_of_bits(tn_ctx *c, void *arg) {
  tn__world w;
  (void)arg;
  tn__world_open(c, 0, NULL, &w);
  for (int64_t i = 0; i < 200000; i++) {
    tn__val x = tn__val_input(&w, TN_F16, 1, i);
    tn__val_eval(&w, OP_BITCAST, TN_U16, TN_F16, &x);
  }
  assert_true(w.rounded);
}

static void bits_of_unknowns(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  assert_true(tn__ctx_run(c, "tn_test", go_as_bits, NULL));
  assert_true(tn__ctx_run(c, "tn_test", run_out_of_bits, NULL));
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(worlds), cmocka_unit_test(bits_of_unknowns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
