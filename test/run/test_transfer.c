/* Values go from any device to any other and are the same there; the best device is one that works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/opencl/opencl.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <stdio.h>

enum { DEVICES = 4, LONG = 300007 };

static void ok(tn_ctx *c, bool good, int line) {
  if (!good) fail_msg("line %d: %s", line, tn_last_error(c)->text);
}
#define OK(x) ok(c, (x) == TN_OK, __LINE__)

/* What there is here, and $TENET_DEVICE. */
static int list_devices(const char **name) {
  static const char *const always[] = {"cpu", "ref"};
  const char *named = device_or("cpu");
  int n = 0;
  if (strcmp(named, "cpu") && strcmp(named, "ref")) name[n++] = named;
  for (int i = 0; i < 2; i++) name[n++] = always[i];
  if (strcmp(named, "opencl:0") && !*tn__opencl_missing()) name[n++] = "opencl:0";
  if (n == 2) print_message("no OpenCL device: %s\n", tn__opencl_missing());
  return n;
}

static void fill(float *v, int n, int salt) {
  for (int i = 0; i < n; i++) v[i] = (float)(i * 37 % 1009 + salt) / 8;
}

static void expect(tn_ctx *c, tn_tensor *t, const char *device, const float *want, int n) {
  static float got[LONG];
  if (!t) fail_msg("%s: %s", device, tn_last_error(c)->text);
  assert_string_equal(tn_device_of(t), device);
  OK(tn_read(t, got, (size_t)n * sizeof *got));
  assert_memory_equal(got, want, (size_t)n * sizeof *got);
}

/* Of all sizes, computed there or here, and back again. */
static void all_pairs(void **state) {
  static const int sizes[] = {0, 1, 5, 1024, LONG};
  static float v[LONG], twice[LONG];
  const char *device[DEVICES];
  (void)state;
  int n = list_devices(device);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[0], .quiet = 1});
  assert_non_null(c);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) tn_scope(c) {
          fill(v, sizes[s], a * 4 + b);
          for (int i = 0; i < sizes[s]; i++) twice[i] = v[i] + v[i];
          tn_tensor *x = tn_to(tn_from(c, TN_F32, (tn_dim[]){sizes[s]}, 1, v), device[a]), *y = tn_to(x, device[b]);
          expect(c, x, device[a], v, sizes[s]);
          expect(c, y, device[b], v, sizes[s]);
          expect(c, tn_to(tn_add(x, x), device[b]), device[b], twice, sizes[s]);
          expect(c, tn_to(tn_add(y, y), device[a]), device[a], twice, sizes[s]);
        }
  tn_ctx_close(c);
}

/* What was sent stays as it was, whatever becomes of the source at once; what arrives is used at once. */
static void sources_change(void **state) {
  enum { N = 2000, ROUNDS = 40 };
  static float v[N], w[ROUNDS][N];
  const char *device[DEVICES];
  (void)state;
  int n = list_devices(device);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[0], .quiet = 1});
  assert_non_null(c);
  for (int a = 0; a < n; a++)
    for (int b = 0; b < n; b++) tn_scope(c) {
        tn_tensor *sent[ROUNDS], *x = tn_to(tn_zeros(c, TN_F32, (tn_dim[]){N}, 1), device[a]);
        OK(tn_realize(&x, 1));
        for (int r = 0; r < ROUNDS; r++) {
          fill(w[r], N, r);
          memcpy(v, w[r], sizeof v);
          OK(tn_write(x, v, sizeof v));
          sent[r] = tn_neg(tn_to(x, device[b]));
          OK(tn_realize(&sent[r], 1));
          memset(v, 0, sizeof v);
        }
        for (int r = 0; r < ROUNDS; r++) {
          for (int i = 0; i < N; i++) v[i] = -w[r][i];
          expect(c, sent[r], device[b], v, N);
        }
      }
  tn_ctx_close(c);
}

static tn_status note_device(tn_ctx *c, void *arg) {
  tn_device_info info;
  float one = 0;
  OK(tn_device_get_info(c, 0, &info));
  snprintf(arg, 32, "%s", info.name);
  OK(tn_read(tn_exp(tn_zeros(c, TN_F32, (tn_dim[]){1}, 1)), &one, sizeof one));
  return one == 1.0f ? TN_EBOUND : TN_ERUN; /* any status of its own */
}

static void best_device(void **state) {
  char name[32] = "", named[32];
  (void)state;
  snprintf(named, sizeof named, "%s", device_or(""));
  assert_int_equal(tn_with_best_device(&(tn_options){.device = "ref", .quiet = 1}, note_device, name), TN_EBOUND);
  assert_string_equal(name, "ref");
  assert_int_equal(tn_with_best_device(&(tn_options){.device = "abacus", .quiet = 1}, note_device, name), TN_EDEVICE);
  assert_int_equal(tn_with_best_device(NULL, NULL, NULL), TN_EINVAL);
  assert_int_equal(tn_with_best_device(&(tn_options){.quiet = 1}, note_device, name), TN_EBOUND);
  if (*named) assert_string_equal(name, named);
  unsetenv("TENET_DEVICE");
  assert_int_equal(tn_with_best_device(&(tn_options){.quiet = 1}, note_device, name), TN_EBOUND);
  print_message("the best device here is %s\n", name);
  assert_true(!strcmp(name, "cuda:0") || tn__opencl_gpu() >= 0 ? is_gpu(name) : !strcmp(name, "cpu"));
  setenv("TENET_DEVICE", named, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs), cmocka_unit_test(sources_change),
                                     cmocka_unit_test(best_device)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
