/* What other languages and other versions of the headers lean on: sizes of structs, version numbers, enums, texts as
 * strings, what a program says of itself; and what long use leaves behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/dtype.h"
#include "support/stderr_of.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static const tn_options plain = {.device = "ref", .threads = 1, .cache_dir = "", .quiet = 1};

static void versions(void **state) {
  char text[40];
  (void)state;
  snprintf(text, sizeof text, "%d.%d.%d", TN_VERSION_MAJOR, TN_VERSION_MINOR, TN_VERSION_PATCH);
  assert_string_equal(text, tn_version());
  assert_int_equal(tn_version_number(), TN_VERSION);
#if TN_VERSION < TN_VERSION_NUMBER(0, 1, 0) || TN_VERSION >= TN_VERSION_NUMBER(99, 0, 0)
  fail_msg("%d", TN_VERSION);
#endif
}

/* The names in the headers stand for the rows of the tables. */
static void enums(void **state) {
  (void)state;
#define DTYPE(name, text, bytes, ...)                                                                                  \
  assert_string_equal(tn_dtype_name(TN_##name), text);                                                                 \
  assert_int_equal(tn_dtype_size(TN_##name), bytes);                                                                   \
  dtypes++;
  int dtypes = 0;
  TN__DTYPE_MAP(DTYPE)
  assert_int_equal(dtypes, TN_DTYPE_COUNT);
  static const char *const names[] = {"TN_OK",      "TN_EINVAL", "TN_ESHAPE",  "TN_EDTYPE", "TN_EDEVICE",
                                      "TN_ENOMEM",  "TN_ECOMPILE", "TN_EIO",   "TN_EFORMAT", "TN_EBOUND",
                                      "TN_EGRAD",   "TN_ESTATE", "TN_ENOTSUP", "TN_ERUN"};
  int n = sizeof names / sizeof *names;
  for (int i = 0; i < n; i++) assert_string_equal(tn_status_name((tn_status)-i), names[i]);
  assert_int_equal(TN_ERUN, 1 - n);
  assert_string_equal(tn_status_name((tn_status)-n), "?");
  assert_string_equal(tn_status_name((tn_status)1), "?");
}

static void sized_structs(void **state) {
  struct {
    tn_options known;
    uint64_t later; /* as wide as the struct's alignment: what pads a struct may hold anything */
  } newer = {.known = plain};
  struct {
    tn_stats known;
    uint64_t later;
  } stats;
  size_t first = offsetof(tn_options, check); /* where the struct of version 0.1 ended */
  (void)state;
  tn_ctx *c = (tn_ctx_open)(&plain); /* as a binary calls it that was compiled for that */
  assert_non_null(c);
  tn_ctx_close(c);
  tn_options *older = malloc(first);
  assert_non_null(older);
  memcpy(older, &plain, first);
  c = tn_ctx_open_sized(older, first);
  assert_non_null(c);
  tn_ctx_close(c);
  free(older);
  c = tn_ctx_open_sized((tn_options *)&newer, sizeof newer);
  assert_non_null(c);
  memset(&stats, 0x5a, sizeof stats);
  tn_ctx_stats_sized(c, (tn_stats *)&stats, sizeof stats);
  assert_true(stats.later == 0 && stats.known.heap_bytes > 0);
  memset(&stats, 0x5a, sizeof stats);
  tn_ctx_stats_sized(c, (tn_stats *)&stats, 2 * sizeof(uint64_t));
  assert_true(stats.known.kernels_compiled == 0x5a5a5a5a5a5a5a5a && stats.known.schedules_compiled == 0);
  memset(&stats, 0x5a, sizeof stats);
  (tn_ctx_stats)(c, &stats.known);
  assert_true(stats.known.heap_peak >= stats.known.heap_bytes && stats.known.pool_bytes == 0);
  tn_ctx_close(c);
  newer.later = 1; /* something that this library cannot do */
  assert_null(tn_ctx_open_sized((tn_options *)&newer, sizeof newer));
  assert_null(tn_ctx_open_sized(&plain, 4));
  assert_null(tn_ctx_open_sized(&plain, 0));
  assert_int_equal(tn_with_best_device_sized(&plain, NULL, NULL, sizeof plain), TN_EINVAL);
  c = tn_ctx_open_sized(NULL, 0);
  assert_non_null(c);
  tn_ctx_close(c);
}

static char *text_of(FILE *f, char **text) {
  fclose(f);
  return *text;
}

static void strings(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  char *want = NULL, *got;
  size_t size;
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 2), (float[]){1, 2.5f, NAN, -3}), *y = tn_exp(x);
  FILE *f = open_memstream(&want, &size);
  assert_int_equal(tn_print(x, f), TN_OK);
  got = tn_print_string(x);
  assert_string_equal(got, text_of(f, &want));
  assert_string_equal(got, "[[1, 2.5],\n [nan, -3]] : f32[2,2]\n");
  tn_string_free(got);
  free(want);
  f = open_memstream(&want, &size);
  assert_int_equal(tn_explain(&y, 1, f), TN_OK);
  got = tn_explain_string(&y, 1);
  assert_string_equal(got, text_of(f, &want));
  char *again = tn_explain_text_string(c, got);
  assert_string_equal(again, got);
  tn_string_free(got);
  tn_string_free(again);
  free(want);
  tn_program *p = tn_program_begin(c);
  assert_int_equal(tn_program_output(p, "y", y), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  f = open_memstream(&want, &size);
  assert_int_equal(tn_program_explain(p, f), TN_OK);
  got = tn_program_explain_string(p);
  assert_string_equal(got, text_of(f, &want));
  free(want);
  assert_null(tn_print_string(NULL));
  assert_null(tn_explain_string(NULL, 0));
  assert_null(tn_explain_text_string(c, "no node"));
  assert_int_equal(tn_last_error(c)->status, TN_EFORMAT);
  assert_null(tn_program_explain_string(NULL));
  tn_ctx_close(c);
  assert_memory_equal(got, "# graph\n", 8); /* it outlives the context */
  tn_string_free(got);
  tn_string_free(NULL);
}

static void introspection(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *w = tn_from(c, TN_F64, DIMS(3), (double[]){1, 2, 3});
  tn_program *p = tn_program_begin(c);
  tn_dim n = tn_dim_var(c, "n", 1, 9);
  tn_tensor *x = tn_program_input(p, "x", TN_F64, DIMS(n, 3)), *i = tn_program_input(p, "i", TN_I32, NULL, 0);
  assert_int_equal(tn_program_count(p, TN_PROGRAM_INPUT), -1); /* it has not ended */
  tn_clear_error(c);
  assert_int_equal(tn_program_output(p, "sum", tn_add(tn_mul(x, w), tn_uniform(c, TN_F64, DIMS(3), 0, 1))), TN_OK);
  assert_int_equal(tn_program_output(p, "i", tn_neg(i)), TN_OK);
  assert_int_equal(tn_assign(w, tn_add_scalar(w, 1)), TN_OK);
  if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
  static const struct {
    tn_program_part part;
    int index;
    const char *name;
    tn_dtype dtype;
    int rank;
  } row[] = {{TN_PROGRAM_INPUT, 0, "x", TN_F64, 2},  {TN_PROGRAM_INPUT, 1, "i", TN_I32, 0},
             {TN_PROGRAM_OUTPUT, 0, "sum", TN_F64, 2}, {TN_PROGRAM_OUTPUT, 1, "i", TN_I32, 0},
             {TN_PROGRAM_STATE, 0, "", TN_F64, 1},   {TN_PROGRAM_STATE, 1, "", TN_U64, 1}};
  tn_program_value v;
  for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
    assert_int_equal(tn_program_count(p, row[r].part), 2);
    assert_int_equal(tn_program_describe(p, row[r].part, row[r].index, &v), TN_OK);
    assert_string_equal(v.name, row[r].name);
    assert_true(v.dtype == row[r].dtype && v.rank == row[r].rank);
    assert_true(v.tensor == (r == 4 ? w : NULL));
    if (r == 0 || r == 2) assert_true(v.shape[0] == n && v.shape[1] == 3);
  }
  assert_int_equal(tn_program_describe(p, TN_PROGRAM_INPUT, 2, &v), TN_EINVAL);
  assert_int_equal(tn_program_describe(p, TN_PROGRAM_INPUT, -1, &v), TN_EINVAL);
  assert_int_equal(tn_program_describe(p, (tn_program_part)7, 0, &v), TN_EINVAL);
  assert_int_equal(tn_program_describe(p, TN_PROGRAM_INPUT, 0, NULL), TN_EINVAL);
  assert_int_equal(tn_program_count(NULL, TN_PROGRAM_INPUT), -1);
  tn_ctx_close(c);
}

static void numbers_in_where(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(3), (float[]){-1, 0, 2}), *up = tn_gt_scalar(x, 0);
  float got[3];
  int8_t few[3];
  assert_int_equal(tn_read(tn_where_scalar(up, x, 0), got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){0, 0, 2}), sizeof got);
  assert_int_equal(tn_read(tn_rwhere_scalar(up, -INFINITY, x), got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){-1, 0, -INFINITY}), sizeof got);
  assert_int_equal(tn_read(tn_where_scalars(up, TN_I8, 1, -1), few, sizeof few), TN_OK);
  assert_memory_equal(few, ((int8_t[]){-1, -1, 1}), sizeof few);
  assert_null(tn_where_scalar(x, x, 0));
  assert_int_equal(tn_last_error(c)->status, TN_EDTYPE);
  tn_clear_error(c);
  assert_null(tn_where_scalars(up, TN_I8, 300, 0));
  assert_int_equal(tn_last_error(c)->status, TN_EDTYPE);
  tn_clear_error(c);
  assert_null(tn_where_scalar(tn_ones(c, TN_BOOL, DIMS(2)), x, 0));
  assert_int_equal(tn_last_error(c)->status, TN_ESHAPE);
  tn_ctx_close(c);
}

/* Steps outside of programs, of which only something is read that was made before the assignment. */
static void assigned_chains(void **state) {
  enum { STEPS = 400, SETTLED = 200 }; /* ended handles rest a while before they serve again */
  tn_stats early, late;
  double v = 0;
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *w = tn_from(c, TN_F64, DIMS(4), (double[]){0, 0, 0, 0});
  tn_tensor *other = tn_from(c, TN_F64, DIMS(4), (double[]){0, 0, 0, 0}), *kept = tn_slice(other, 0, 2, 4, 1);
  for (int step = 0; step < STEPS; step++) {
    if (step == SETTLED) tn_ctx_stats(c, &early);
    tn_scope(c) {
      tn_tensor *sum = tn_sum(w, NULL, 0, false);
      assert_int_equal(tn_assign(w, tn_add_scalar(w, 1)), TN_OK);
      tn_tensor *half = tn_slice(w, 0, 0, 2, 1);
      assert_int_equal(tn_assign(half, tn_add_scalar(half, 1)), TN_OK);
      assert_int_equal(tn_assign(kept, tn_add_scalar(kept, 1)), TN_OK); /* a view that stays */
      assert_int_equal(tn_item(sum, &v), TN_OK);
      assert_true(v == 6.0 * step);
    }
  }
  tn_ctx_stats(c, &late);
  assert_true(late.nodes_live <= early.nodes_live && late.heap_bytes <= early.heap_bytes + 4096);
  assert_true(late.schedules_compiled == early.schedules_compiled);
  assert_int_equal(tn_item(tn_sum(kept, NULL, 0, false), &v), TN_OK);
  assert_true(v == 2.0 * STEPS);
  assert_int_equal(tn_item(tn_sum(other, NULL, 0, false), &v), TN_OK);
  assert_true(v == 2.0 * STEPS);
  assert_int_equal(tn_item(tn_sum(w, NULL, 0, false), &v), TN_OK);
  assert_true(v == 6.0 * STEPS);
  tn_ctx_close(c);
}

static void step_by_literals(void *steps) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = ""});
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2), (float[]){1, 2});
  for (int i = 0; i < *(int *)steps; i++)
    tn_scope(c) {
      tn_tensor *y = *(int *)steps > 50 ? tn_mul(x, tn_scalar(c, TN_F32, 1 + i)) : tn_mul_scalar(x, 1 + i);
      tn_realize(&y, 1);
    }
  tn_ctx_close(c);
}

/* Names come back in texts as UTF-8, whatever they were. */
static void texts_are_utf8(void **state) {
  static const struct {
    const char *name, *said;
  } of[] = {{"plain", "'plain'"},
            {"gr\xc3\xb6\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "'gr\xc3\xb6\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80'"},
            {"a\xff" "b", "'a?b'"},          {"\x80", "'?'"},     {"\xc3", "'?'"},
            {"\xc0\x80", "'\?\?'"},            {"\xe0\x9f\xbf", "'\?\?\?'"},  {"\xed\xa0\x80", "'\?\?\?'"},
            {"\xf5\x80\x80\x80", "'\?\?\?\?'"}, {"\xe2\x82", "'\?\?'"}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tn_ctx *c = tn_ctx_open(&plain);
    tn_program *p = tn_program_begin(c);
    assert_non_null(tn_program_input(p, of[i].name, TN_F32, NULL, 0));
    assert_null(tn_program_input(p, of[i].name, TN_F32, NULL, 0));
    if (!strstr(tn_last_error(c)->text, of[i].said)) fail_msg("%zu: %s", i, tn_last_error(c)->text);
    tn_ctx_close(c);
  }
  char longer[4000] = "";
  for (size_t i = 0; i + 3 < sizeof longer; i += 3) memcpy(longer + i, "\xe2\x82\xac", 4);
  tn_ctx *c = tn_ctx_open(&plain);
  assert_null(tn_to(tn_ones(c, TN_F32, NULL, 0), longer));
  const char *text = tn_last_error(c)->text;
  for (size_t n = strlen(text), i = n < 3 ? 0 : n - 3; i < n; i++)
    assert_true(text[n - 1] == '?' || !strcmp(text + n - 3, "\xe2\x82\xac"));
  tn_ctx_close(c);
}

static void open_with_cache(void *dir) {
  tn_ctx_close(tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = dir}));
}

/* A folder in which nothing can be kept is said once, with the reason; one that is not wanted is not. */
static void caches(void **state) {
  char said[2000], dir[] = "/tmp/tenet-test-interface-XXXXXX", below[80];
  (void)state;
  assert_non_null(mkdtemp(dir));
  assert_int_equal(stderr_of(open_with_cache, "", said, sizeof said), 0);
  assert_int_equal(stderr_of(open_with_cache, dir, said, sizeof said), 0);
  snprintf(below, sizeof below, "%s/file", dir);
  FILE *f = fopen(below, "w");
  assert_true(f && fclose(f) == 0);
  assert_true(stderr_of(open_with_cache, below, said, sizeof said) > 0);
  if (!strstr(said, below) || !strstr(said, "are not kept") || !strstr(said, "it is not a folder"))
    fail_msg("%s", said);
  assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
  unlink(below);
  rmdir(dir);
}

static void step_by_slices(void *steps) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref"});
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(100, 4));
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  for (int i = 0; i < *(const int *)steps; i++) tn_scope(c) {
      double v;
      assert_int_equal(tn_item(tn_sum(tn_exp(tn_slice(x, 0, i, i + 3, 1)), NULL, 0, false), &v), TN_OK);
    }
  tn_ctx_close(c);
}

/* Said once, and not of what is as it should be. */
static void literals(void **state) {
  char said[2000];
  int few = 5, many = 40, scalars = 60;
  (void)state;
  assert_int_equal(stderr_of(step_by_literals, &few, said, sizeof said), 0);
  assert_int_equal(stderr_of(step_by_literals, &scalars, said, sizeof said), 0);
  assert_true(stderr_of(step_by_literals, &many, said, sizeof said) > 0);
  const char *at = strstr(said, "tn_scalar");
  assert_non_null(at);
  assert_null(strstr(at + 1, "tn_scalar"));
  assert_int_equal(stderr_of(step_by_slices, &few, said, sizeof said), 0);
  assert_true(stderr_of(step_by_slices, &many, said, sizeof said) > 0);
  assert_non_null(strstr(said, "tn_take"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(versions),        cmocka_unit_test(enums),           cmocka_unit_test(sized_structs),
      cmocka_unit_test(strings),         cmocka_unit_test(introspection),   cmocka_unit_test(numbers_in_where),
      cmocka_unit_test(assigned_chains), cmocka_unit_test(literals),        cmocka_unit_test(texts_are_utf8),
      cmocka_unit_test(caches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
