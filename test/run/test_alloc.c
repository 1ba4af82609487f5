/* Memory that runs out: each scenario is run with its n-th allocation failing, and all after it, for n = 1, 2, ...
 * until it comes through. Whatever n: the error is TN_ENOMEM, nothing is lost, and the context goes on working once
 * there is memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/ctx.h"
#include "support/files.h"
#include "tenet/tenet.h"
#include <malloc.h>
#include <math.h>

static const float six[6] = {1, 2, 3, 4, 5, 6};
#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static tn_tensor *matrix(tn_ctx *c) { return tn_from(c, TN_F32, DIMS(2, 3), six); }
static tn_tensor *row(tn_ctx *c) { return tn_from(c, TN_F32, DIMS(3), six); }

/* The sum of all elements, in *out; false on an error. */
static bool total(tn_tensor *t, double *out) { return tn_item(tn_sum(t, NULL, 0, false), out) == TN_OK; }

/* ---- scenarios: false on an error; *out is what must be the same whenever there is none ---- */

static bool elementwise(tn_ctx *c, double *out) {
  tn_tensor *x = matrix(c);
  return total(tn_mul_scalar(tn_sqrt(tn_add(tn_square(x), tn_abs(row(c)))), 2), out);
}

static bool movement(tn_ctx *c, double *out) {
  tn_tensor *x = tn_pad(tn_transpose(matrix(c), 0, 1), (const tn_dim[]){1, 1, 0, 2}, 3);
  x = tn_concatenate((tn_tensor *[]){x, tn_flip(x, NULL, 0)}, 2, 1);
  return total(tn_slice(tn_reshape(x, DIMS(-1, 2)), 0, 1, INT64_MAX, 2), out);
}

static bool matmul(tn_ctx *c, double *out) {
  tn_tensor *x = matrix(c);
  return total(tn_matmul(x, tn_exp(tn_transpose(tn_mul_scalar(x, 0.1), 0, 1))), out);
}

static bool softmax(tn_ctx *c, double *out) { return total(tn_mul(tn_softmax(matrix(c), -1), matrix(c)), out); }

static bool einsum(tn_ctx *c, double *out) {
  return total(tn_einsum("ij,kj->ik", (tn_tensor *[]){matrix(c), matrix(c)}, 2), out);
}

static bool gather(tn_ctx *c, double *out) {
  tn_tensor *idx = tn_from(c, TN_I32, DIMS(2), (const int32_t[]){2, 0}), *base = tn_zeros(c, TN_F32, DIMS(3, 3));
  return total(
      tn_mul(tn_take(matrix(c), idx, 1), tn_take(tn_take(tn_index_add(base, 0, idx, matrix(c)), idx, 0), idx, 1)), out);
}

static bool select_now(tn_ctx *c, double *out) {
  tn_tensor *values = NULL, *counts = NULL, *x = tn_sub_scalar(matrix(c), 3), *places = tn_nonzero_now(x);
  return tn_unique_now(tn_abs(x), &values, NULL, &counts) == TN_OK &&
         total(tn_add(tn_mul(values, tn_cast(counts, TN_F32)), tn_cast(tn_sum(places, NULL, 0, false), TN_F32)), out);
}

static bool gradient(tn_ctx *c, double *out) {
  tn_tensor *x = matrix(c), *w = row(c), *g[2] = {NULL};
  tn_tensor *loss = tn_sum(tn_tanh(tn_mul(x, w)), NULL, 0, false);
  if (tn_grad(loss, 2, (tn_tensor *[]){x, w}, g) != TN_OK) {
    assert_null(g[0]);
    assert_null(g[1]);
    return false;
  }
  return total(tn_matmul(g[0], g[1]), out);
}

static bool assign(tn_ctx *c, double *out) {
  tn_tensor *x = matrix(c), *before = tn_add_scalar(x, 1);
  double old = 0;
  bool ok = tn_assign(x, tn_mul(x, x)) == TN_OK && tn_assign(tn_select(x, 0, 1), row(c)) == TN_OK;
  return ok && total(before, &old) && old == 27 && total(x, out);
}

static bool realise_twice(tn_ctx *c, double *out) {
  tn_tensor *x = tn_exp(matrix(c)), *y = tn_add(x, x);
  double first = 0;
  return tn_realize((tn_tensor *[]){x, y}, 2) == TN_OK && total(tn_sub(y, x), &first) && tn_realize(&x, 1) == TN_OK &&
         total(x, out) && fabs(first - *out) < 1e-3;
}

static bool read_write(tn_ctx *c, double *out) {
  tn_tensor *x = matrix(c), *held = tn_neg(x);
  float got[6];
  if (tn_write(x, (const float[]){6, 5, 4, 3, 2, 1}, sizeof got) != TN_OK ||
      tn_read(tn_add(x, held), got, sizeof got) != TN_OK)
    return false;
  for (int i = 0; i < 6; i++) assert_int_equal((int)got[i], 5 - 2 * i);
  *out = got[0];
  return true;
}

static bool random_numbers(tn_ctx *c, double *out) {
  double more = 0;
  tn_manual_seed(c, 7);
  if (!total(tn_normal(c, TN_F32, DIMS(5), 0, 1), out) ||
      !total(tn_cast(tn_randint(c, TN_I32, DIMS(3), 0, 10), TN_F64), &more))
    return false;
  *out += more;
  return true;
}

static bool scopes(tn_ctx *c, double *out) {
  tn_tensor *kept = NULL;
  tn_scope(c) {
    tn_tensor *x = matrix(c);
    tn_scope(c) kept = tn_keep(tn_mul(x, row(c)));
  }
  bool ok = total(kept, out);
  tn_release(kept);
  return ok;
}

static bool other_device(tn_ctx *c, double *out) {
  return total(tn_to(tn_square(tn_to(tn_exp(matrix(c)), "cpu")), "ref"), out);
}

static bool print(tn_ctx *c, double *out) {
  FILE *f = tmpfile();
  bool ok = tn_print(tn_div(matrix(c), row(c)), f) == TN_OK;
  *out = (double)ftell(f);
  fclose(f);
  return ok;
}

static bool explain(tn_ctx *c, double *out) {
  FILE *f = tmpfile();
  tn_tensor *x = tn_softmax(matrix(c), 0);
  bool ok = tn_explain(&x, 1, f) == TN_OK;
  *out = ftell(f) > 500;
  fclose(f);
  return ok;
}

static bool explain_text(tn_ctx *c, double *out) {
  FILE *f = tmpfile();
  bool ok = tn_explain_text(c,
                            "%1 = param f32[4,3] 4 3 {0 0}\n%2 = exp f32[4,3] %1\n%3 = sum f32[4] %2 {1}\n%4 = sink "
                            "void %3 {\"outputs\"}\n",
                            f) == TN_OK;
  *out = ftell(f) > 500;
  fclose(f);
  return ok;
}

static bool random_elsewhere(tn_ctx *c, double *out) {
  tn_manual_seed(c, 1);
  return total(tn_dropout(tn_to(matrix(c), "cpu"), 0.5, true), out);
}

/* A step with state, an output and random numbers, run twice. */
static bool program(tn_ctx *c, double *out) {
  tn_manual_seed(c, 1);
  tn_tensor *w = matrix(c), *shared = tn_add_scalar(w, 0);
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2, 3));
  tn_assign(w, tn_add(w, tn_mul(x, tn_uniform(c, TN_F32, DIMS(3), 0, 1))));
  bool ok = tn_program_output(p, "sum", tn_sum(w, NULL, 0, false)) == TN_OK;
  ok = tn_program_end(p) == TN_OK && ok;
  float sum = 0;
  double old = 0;
  ok = ok && tn_program_write(p, "x", DIMS(2, 3), six, sizeof six) == TN_OK;
  ok = ok && tn_program_run(p) == TN_OK && tn_program_run(p) == TN_OK;
  ok = ok && tn_program_read(p, "sum", &sum, sizeof sum) == TN_OK;
  ok = ok && total(tn_program_result(p, "sum"), out) && *out == (double)sum && total(shared, &old) && old == 21;
  tn_program_close(p);
  return ok;
}

static bool symbolic(tn_ctx *c, double *out) {
  tn_program *p = tn_program_begin(c);
  tn_dim b = tn_dim_var(c, "B", 1, 8);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(b, 3));
  bool ok = tn_program_output(p, "y", tn_matmul(tn_softmax(x, 1), tn_transpose(x, 0, 1))) == TN_OK;
  ok = tn_program_end(p) == TN_OK && ok;
  for (tn_dim n = 1; n <= 2 && ok; n++) {
    ok =
        tn_program_write(p, "x", (const tn_dim[]){n, 3}, 2, six, (size_t)n * 12) == TN_OK && tn_program_run(p) == TN_OK;
    ok = ok && total(tn_program_result(p, "y"), out);
  }
  tn_program_close(p);
  return ok;
}

static bool bound_input(tn_ctx *c, double *out) {
  tn_tensor *v = matrix(c);
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2, 3));
  bool ok = tn_program_output(p, "y", tn_exp(x)) == TN_OK;
  ok = tn_program_end(p) == TN_OK && ok && tn_program_bind(p, "x", v) == TN_OK && tn_program_run(p) == TN_OK;
  ok = ok && total(tn_program_result(p, "y"), out);
  tn_program_close(p);
  return ok;
}

static bool safetensors(tn_ctx *c, double *out) {
  const char *path = test_path("a.safetensors"), *const names[] = {"w", "b"};
  tn_tensor *two[] = {tn_add_scalar(matrix(c), 1), row(c)};
  if (!two[0] || !two[1]) return false;
  if (tn_save_safetensors(c, path, 2, names, two, 1, &(tn_meta){"key", "value"}) != TN_OK) return false;
  tn_file *f = tn_load_safetensors(c, path);
  bool ok = f && total(tn_file_tensor(f, "w"), out) && tn_file_read(f, "b", two[1]) == TN_OK;
  tn_file_close(f);
  return ok;
}

static bool idx(tn_ctx *c, double *out) {
  static const unsigned char file[] = {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
  tn_array a;
  if (tn_idx_read(c, test_write_file("a.idx", file, sizeof file), &a) != TN_OK) return false;
  tn_batches *b = tn_batches_open(c, 1, &a, 2, true, 3);
  *out = (double)tn_batches_next(b);
  bool ok = b && total(tn_cast(tn_from(c, TN_U8, DIMS(2), tn_batches_rows(b, 0)), TN_F32), out) &&
            tn_idx_write(c, test_path("b.idx.gz"), &a) == TN_OK;
  tn_batches_close(b);
  tn_array_free(c, &a);
  return ok;
}

static bool optimiser(tn_ctx *c, double *out) {
  tn_params *p = tn_params_open(c);
  tn_tensor *w = tn_params_add(p, "w", matrix(c)), *g = NULL;
  tn_optim *o = w ? tn_adam(p, 0.1, 0.9, 0.999, 1e-8, 0) : NULL;
  bool ok = o && tn_grad(tn_sum(tn_square(w), NULL, 0, false), 1, &w, &g) == TN_OK && tn_optim_step(o, &g) == TN_OK;
  ok = ok && tn_optim_realize(o, NULL) == TN_OK && total(w, out);
  tn_optim_close(o);
  tn_params_close(p);
  return ok;
}

/* An error in the middle: what was tried must not be what is reported when memory is out first. */
static bool misfit(tn_ctx *c, double *out) {
  tn_tensor *bad = tn_add(matrix(c), tn_from(c, TN_F32, DIMS(2), six));
  assert_null(bad);
  if (tn_last_error(c)->status != TN_ESHAPE) return false;
  *out = (double)strlen(tn_last_error(c)->text);
  tn_clear_error(c);
  return true;
}

typedef struct scenario {
  const char *name;
  bool (*run)(tn_ctx *c, double *out);
} scenario;

static const scenario scenarios[] = {
    {"elementwise", elementwise},
    {"movement", movement},
    {"matmul", matmul},
    {"softmax", softmax},
    {"einsum", einsum},
    {"gather", gather},
    {"select now", select_now},
    {"gradient", gradient},
    {"assign", assign},
    {"realise twice", realise_twice},
    {"read and write", read_write},
    {"random", random_numbers},
    {"scopes", scopes},
    {"other device", other_device},
    {"print", print},
    {"explain", explain},
    {"explain text", explain_text},
    {"random elsewhere", random_elsewhere},
    {"program", program},
    {"symbolic program", symbolic},
    {"bound input", bound_input},
    {"safetensors", safetensors},
    {"idx", idx},
    {"optimiser", optimiser},
    {"misfit", misfit},
};

/* ---- the harness ---- */

static const tn_options plain = {.device = "ref", .threads = 1, .cc = "", .cache_dir = "", .quiet = 1};

/* Once, with allocation n from now on failing (0: none), in a scope of its own.  The scope ends with memory back. */
static bool attempt(tn_ctx *c, const scenario *s, int64_t n, double *out) {
  bool ok = false;
  tn_scope(c) {
    c->mem.fail_at = n ? c->mem.count + n : 0;
    ok = s->run(c, out);
    c->mem.fail_at = 0;
  }
  tn_status status = tn_last_error(c)->status;
  if (status != (ok ? TN_OK : TN_ENOMEM))
    fail_msg("%s, allocation %ld fails: %s", s->name, (long)n, tn_last_error(c)->text);
  tn_clear_error(c);
  assert_int_equal(tn_scope_begin(c), TN_OK); /* what was given back takes effect with the next call */
  assert_int_equal(tn_scope_end(c), TN_OK);
  return ok;
}

/* No more than before; less, where the random state has not been written again. */
static void check_no_more(const scenario *s, int64_t n, const tn_stats *a, const tn_stats *b) {
  if (a->handles_live < b->handles_live || a->buffer_bytes < b->buffer_bytes || a->nodes_live < b->nodes_live)
    fail_msg("%s, allocation %ld failed: handles %ld -> %ld, buffers %zu -> %zu bytes, nodes %ld -> %ld", s->name,
             (long)n, (long)a->handles_live, (long)b->handles_live, a->buffer_bytes, b->buffer_bytes,
             (long)a->nodes_live, (long)b->nodes_live);
}

static void run_scenario(const scenario *s, const tn_options *o) {
  tn_ctx *whole = tn_ctx_open(o), *c = tn_ctx_open(o);
  double want = 0, got = 0;
  assert_true(attempt(whole, s, 0, &want));
  tn_ctx_close(whole);
  /* Whenever an attempt got as far as to leave another compiled schedule behind, the next one takes another way:
   * start again. */
  tn_stats before, after;
  int64_t n = 1, tries = 0;
  for (tn_ctx_stats(c, &before); !attempt(c, s, n, &got); before = after, tries++) {
    tn_ctx_stats(c, &after);
    n = after.schedules_compiled > before.schedules_compiled ? 1 : n + 1;
  }
  assert_true(got == want);
  /* Now nothing new is kept, so after a failure nothing may be held that was not. */
  assert_true(attempt(c, s, 0, &got));
  tn_ctx_stats(c, &before);
  for (n = 1; !attempt(c, s, n, &got); n++, tries++) {
    tn_ctx_stats(c, &after);
    check_no_more(s, n, &before, &after);
  }
  assert_true(got == want);
  tn_ctx_close(c);
  assert_true(tries > 5);
}

/* What malloc has given out and not got back; 0 where a sanitizer, which finds leaks itself, has replaced it. */
static size_t held(void) { return mallinfo2().uordblks; }

static void test_scenarios(void **state) {
  (void)state;
  run_scenario(&scenarios[0], &plain); /* the C library keeps some memory for good */
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
    size_t at_first = held();
    run_scenario(&scenarios[i], &plain);
    if (held() > at_first + 8192)
      fail_msg("%s: %zu bytes are held after tn_ctx_close", scenarios[i].name, held() - at_first);
  }
}

/* Through the C compiler, with threads. */
static void test_compiled(void **state) {
  (void)state;
  const tn_options o = {.device = "cpu", .threads = 2, .quiet = 1};
  const scenario some[] = {{"softmax", softmax}, {"program", program}, {"matmul", matmul}};
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) run_scenario(&some[i], &o);
}

static void test_open(void **state) {
  (void)state;
  tn_options o = plain;
  size_t at_first = held();
  for (int round = 0; round < 2; round++) {
    tn_ctx *c = NULL;
    o.threads = 1 + round;
    for (o.fail_alloc_at = 1; !(c = tn_ctx_open(&o)); o.fail_alloc_at++) assert_true(o.fail_alloc_at < 1000);
    assert_true(o.fail_alloc_at > 5);
    tn_ctx_close(c);
  }
  assert_true(held() <= at_first + 8192);
}

/* The n-th allocation counted from the start, as tn_options has it. */
static void test_option(void **state) {
  (void)state;
  tn_options o = plain;
  o.fail_alloc_at = 200;
  tn_ctx *c = tn_ctx_open(&o);
  double out;
  assert_non_null(c);
  for (int i = 0; i < 50 && !tn_last_error(c)->status; i++) elementwise(c, &out);
  assert_int_equal(tn_last_error(c)->status, TN_ENOMEM);
  assert_null(matrix(c));
  tn_ctx_close(c);
}

static int remove_files(void **state) {
  (void)state;
  test_remove_files();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_open), cmocka_unit_test(test_option),
                                     cmocka_unit_test(test_scenarios), cmocka_unit_test(test_compiled)};
  return cmocka_run_group_tests(tests, NULL, remove_files);
}
