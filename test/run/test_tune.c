/* Tuning: every variant of a kernel gives right results; the best one is found again by another process; nothing is
 * timed where there is no choice, and a damaged entry is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "lower/lower.h"
#include "support/device.h"
#include "support/files.h"
#include "tenet/tenet.h"
#include <dirent.h>
#include <math.h>
#include <sys/wait.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static tn_ctx *open_for(const char *device, const char *cache, int tune, tn_mode mode) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .cache_dir = cache, .tune = tune, .mode = mode, .quiet = 1});
  assert_non_null(c);
  return c;
}

static uint64_t timed(const tn_ctx *c) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s.kernels_timed;
}

/* ---- what is computed ---- */

static tn_tensor *drawn(tn_ctx *c, const tn_dim *dim, int rank) {
  tn_tensor *t = tn_uniform(c, TN_F32, dim, rank, -1, 1);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static tn_tensor *sum_of_all(tn_ctx *c) { return tn_sum(drawn(c, DIMS(400, 330)), NULL, 0, false); }
static tn_tensor *sum_of_columns(tn_ctx *c) { return tn_sum(drawn(c, DIMS(3300, 40)), (int[]){0}, 1, false); }
static tn_tensor *softmax(tn_ctx *c) { return tn_softmax(drawn(c, DIMS(20, 300)), -1); }
static tn_tensor *elementwise(tn_ctx *c) { return tn_exp(tn_mul_scalar(drawn(c, DIMS(5000)), 0.5)); }
static tn_tensor *product(tn_ctx *c) { return tn_matmul(drawn(c, DIMS(64, 16)), drawn(c, DIMS(16, 256))); }
static tn_tensor *deep_product(tn_ctx *c) { return tn_matmul(drawn(c, DIMS(16, 256)), drawn(c, DIMS(256, 32))); }

static const struct {
  tn_tensor *(*make)(tn_ctx *);
  int terms; /* of each sum */
} work[] = {{sum_of_all, 400 * 330}, {sum_of_columns, 3300}, {softmax, 300},
            {elementwise, 1},        {product, 16},          {deep_product, 256}};
enum { WORK = sizeof work / sizeof *work, MOST = 64 * 256 };

/* The result, and how many elements it has. */
static size_t compute(tn_ctx *c, int which, float *out) {
  size_t n = 0;
  tn_scope(c) {
    tn_tensor *y = work[which].make(c);
    n = (size_t)tn_numel(y);
    assert_true(n <= MOST);
    assert_int_equal(tn_read(y, out, tn_nbytes(y)), TN_OK);
  }
  return n;
}

static void compare(const char *what, int which, const float *x, const float *y, size_t n, bool exact) {
  for (size_t i = 0; i < n; i++)
    if (exact ? memcmp(&x[i], &y[i], sizeof *x) != 0 : !(fabsf(x[i] - y[i]) <= 1e-7f * (float)work[which].terms))
      fail_msg("%s, work %d, element %zu: %g, not %g", what, which, i, (double)x[i], (double)y[i]);
}

/* ---- the entries on disk ---- */

/* Does something to each of the folder's tuning entries; gives their number. */
static int each_entry(tn_ctx *c, const char *dir,
                      void (*what)(tn_ctx *c, const char *path, tn__key key, const char *text), const char *text) {
  DIR *d = opendir(dir);
  int n = 0;
  assert_non_null(d);
  for (const struct dirent *e; (e = readdir(d));) {
    unsigned long long a, b;
    char path[512];
    if (!strstr(e->d_name, ".variant") || sscanf(e->d_name, "%16llx%16llx", &a, &b) != 2) continue;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (what) what(c, path, (tn__key){a, b}, text);
    n++;
  }
  closedir(d);
  return n;
}

static void overwrite(tn_ctx *c, const char *path, tn__key key, const char *text) {
  (void)path;
  tn__cache_write(&c->cache, key, ".variant", text, strlen(text), &c->scratch);
}

static void damage(tn_ctx *c, const char *path, tn__key key, const char *text) {
  (void)c, (void)key, (void)text;
  FILE *f = fopen(path, "r+");
  assert_non_null(f);
  fputs("??", f);
  fclose(f);
}

/* ---- tests ---- */

/* Each variant in turn is what was remembered, for all that has several. */
static void test_variants(void **state) {
  static float usual[WORK][MOST], found[MOST];
  static const tn_mode modes[] = {TN_MODE_DEFAULT, TN_MODE_STRICT};
  const char *device = device_or("cpu");
  unsigned long seen = 0;
  (void)state;
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    const char *dir = test_path(m ? "strict" : "default");
    char cache[160];
    uint32_t at = 0;
    size_t n[WORK];
    strcpy(cache, dir);
    tn_ctx *c = open_for(device, cache, -1, modes[m]);
    for (int w = 0; w < WORK; w++) n[w] = compute(c, w, usual[w]);
    tn_ctx_close(c);
    c = open_for(device, cache, 1, modes[m]);
    for (int w = 0; w < WORK; w++) {
      compute(c, w, found);
      compare("tuned", w, found, usual[w], n[w], m == 1);
    }
    if (m == 0) assert_true(timed(c) > 0);
    tn_ctx_close(c);
    for (const tn__variant *variant; (variant = tn__variant_at(at++));) {
      if (m == 1 && !variant->group && !variant->pack) continue; /* mode strict chooses nothing else */
      if (!is_taken(&seen)) continue;
      c = open_for(device, cache, 0, modes[m]);
      each_entry(c, cache, overwrite, variant->name);
      for (int w = 0; w < WORK; w++) {
        compute(c, w, found);
        compare(variant->name, w, found, usual[w], n[w], m == 1);
      }
      assert_int_equal(timed(c), 0);
      tn_ctx_close(c);
    }
  }
}

enum { KERNELS = 2 }; /* of the first work: what is drawn, and its sum */

/* What a kernel's head says was done */
static void note(tn_ctx *c, int which, char *out, size_t size) {
  tn_scope(c) {
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    tn_tensor *y = work[which].make(c);
    assert_int_equal(tn_explain(&y, 1, f), TN_OK);
    fclose(f);
    const char *at = strstr(text, "# k0");
    snprintf(out, size, "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
    free(text);
  }
}

static int tune_in_another_process(const char *cache) {
  pid_t child = fork();
  if (child == 0) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cache_dir = cache, .tune = 1, .quiet = 1});
    float out[1];
    if (!c) _exit(1);
    compute(c, 0, out);
    bool some = timed(c) > 0;
    tn_ctx_close(c);
    _exit(some ? 0 : 2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void test_remembered(void **state) {
  char usual[256], other[256], cache[160];
  float out[1];
  (void)state;
  strcpy(cache, test_path("remembered"));
  if (getenv("TENET_DEVICE")) skip(); /* of the CPU */
  tn_ctx *c = open_for("cpu", cache, -1, TN_MODE_DEFAULT);
  note(c, 0, usual, sizeof usual);
  tn_ctx_close(c);
  assert_non_null(strstr(usual, "lanes("));
  assert_int_equal(tune_in_another_process(cache), 0);
  c = open_for("cpu", cache, 1, TN_MODE_DEFAULT); /* nothing is left to be timed */
  compute(c, 0, out);
  assert_int_equal(timed(c), 0);
  assert_int_equal(each_entry(c, cache, overwrite, "whole"), KERNELS);
  tn_ctx_close(c);
  c = open_for("cpu", cache, 0, TN_MODE_DEFAULT);
  note(c, 0, other, sizeof other);
  assert_null(strstr(other, "split("));
  assert_non_null(strstr(usual, "split("));
  tn_ctx_close(c);
  c = open_for("cpu", cache, -1, TN_MODE_DEFAULT); /* not to be looked at */
  note(c, 0, other, sizeof other);
  assert_string_equal(other, usual);
  tn_ctx_close(c);
}

/* Bytes that are no entry, and an entry that names nothing */
static void test_damaged(void **state) {
  char usual[256], other[256], cache[160];
  float out[1];
  (void)state;
  strcpy(cache, test_path("damaged"));
  if (getenv("TENET_DEVICE")) skip();
  tn_ctx *c = open_for("cpu", cache, 1, TN_MODE_DEFAULT);
  compute(c, 0, out);
  assert_int_equal(each_entry(c, cache, overwrite, "whole"), KERNELS);
  each_entry(c, cache, damage, NULL);
  tn_ctx_close(c);
  for (int round = 0; round < 2; round++) {
    c = open_for("cpu", cache, -1, TN_MODE_DEFAULT);
    note(c, 0, usual, sizeof usual);
    tn_ctx_close(c);
    c = open_for("cpu", cache, 0, TN_MODE_DEFAULT);
    note(c, 0, other, sizeof other);
    assert_string_equal(other, usual);
    assert_int_equal(tn_last_error(c)->status, TN_OK);
    tn_ctx_close(c);
    c = open_for("cpu", cache, 1, TN_MODE_DEFAULT);
    compute(c, 0, out);
    assert_true(timed(c) > 0);
    assert_int_equal(each_entry(c, cache, overwrite, "no such thing"), KERNELS);
    tn_ctx_close(c);
  }
}

static void test_no_choice(void **state) {
  char cache[160];
  (void)state;
  strcpy(cache, test_path("none"));
  if (getenv("TENET_DEVICE")) skip();
  tn_ctx *c = open_for("cpu", cache, 1, TN_MODE_DEFAULT);
  tn_scope(c) {
    tn_tensor *y = tn_exp(drawn(c, DIMS(10))); /* one short loop */
    assert_int_equal(tn_realize(&y, 1), TN_OK);
  }
  assert_int_equal(timed(c), 0);
  assert_int_equal(each_entry(c, cache, NULL, NULL), 0);
  tn_ctx_close(c);
}

static void test_environment(void **state) {
  static const struct {
    const char *text;
    int tune;
  } rows[] = {{"1", 1}, {"on", 1}, {"0", -1}, {"off", -1}, {"", 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    setenv("TENET_TUNE", rows[i].text, 1);
    tn_ctx *c = open_for("ref", "", 0, TN_MODE_DEFAULT);
    assert_int_equal(c->opt.tune, rows[i].tune);
    tn_ctx_close(c);
    c = open_for("ref", "", -1, TN_MODE_DEFAULT);
    assert_int_equal(c->opt.tune, -1);
    tn_ctx_close(c);
  }
  unsetenv("TENET_TUNE");
}

/* A size that is known only when data comes: timed at one of its values, right at all; and again without timing. */
static void test_symbolic(void **state) {
  static float x[70 * 2000];
  const char *device = device_or("cpu");
  char cache[160];
  (void)state;
  strcpy(cache, test_path("symbolic"));
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i % 7) - 3;
  for (int round = 0; round < 2; round++) {
    tn_ctx *c = open_for(device, cache, round ? 0 : 1, TN_MODE_DEFAULT);
    tn_program *p = tn_program_begin(c);
    tn_tensor *in = tn_program_input(p, "x", TN_F32, (tn_dim[]){tn_dim_var(c, "rows", 1, 70), 2000}, 2);
    assert_int_equal(tn_program_output(p, "sums", tn_sum(in, (int[]){1}, 1, false)), TN_OK);
    if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
    for (int rows = 1; rows <= 70; rows += 23) {
      float got[70];
      assert_int_equal(tn_program_write(p, "x", (tn_dim[]){rows, 2000}, 2, x, (size_t)rows * 2000 * sizeof *x), TN_OK);
      assert_int_equal(tn_program_run(p), TN_OK);
      assert_int_equal(tn_program_read(p, "sums", got, (size_t)rows * sizeof *got), TN_OK);
      for (int i = 0; i < rows; i++) {
        double want = 0; /* small integers: exact in any order */
        for (int k = 0; k < 2000; k++) want += (double)x[i * 2000 + k];
        assert_true((double)got[i] == want);
      }
    }
    assert_true(round ? timed(c) == 0 : timed(c) > 0);
    tn_program_close(p);
    tn_ctx_close(c);
  }
}

/* Memory that runs out while variants are tried leaves no error and nothing behind. */
static void test_no_memory(void **state) {
  float usual[1], out[1];
  (void)state;
  if (getenv("TENET_DEVICE")) skip();
  tn_ctx *c = open_for("cpu", "", -1, TN_MODE_DEFAULT);
  compute(c, 0, usual);
  tn_stats s;
  tn_ctx_stats(c, &s);
  size_t most = s.heap_peak + s.buffer_bytes + s.pool_bytes;
  tn_ctx_close(c);
  for (size_t more = 10; more < 100; more += 10) { /* per cent: it runs out here and there */
    size_t limit = most + most * more / 100;
    c = tn_ctx_open(&(tn_options){.device = "cpu", .cache_dir = "", .tune = 1, .quiet = 1, .mem_limit = limit});
    assert_non_null(c);
    compute(c, 0, out);
    assert_int_equal(tn_last_error(c)->status, TN_OK);
    compare("little memory", 0, out, usual, 1, false);
    tn_ctx_close(c);
  }
}

static int remove_files(void **state) {
  (void)state;
  test_remove_files();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_variants),    cmocka_unit_test(test_remembered),
                                     cmocka_unit_test(test_damaged),     cmocka_unit_test(test_no_choice),
                                     cmocka_unit_test(test_environment), cmocka_unit_test(test_symbolic),
                                     cmocka_unit_test(test_no_memory)};
  return cmocka_run_group_tests(tests, NULL, remove_files);
}
