/* Graphs whose generated kernels a C compiler once got wrong, at many sizes, against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <stdlib.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

/* A sum over b of x[b,e,h,w] with a line of zeros above, or below, and a column of ones on the right: masked loads in
 * short loops. */
static void padded_sum(tn_ctx *c, int64_t b, int64_t e, int64_t h, int64_t w, bool below, bool twice) {
  size_t n = (size_t)(b * e * h * w), m = (size_t)(e * (h + 1) * (w + 1));
  float *x = malloc(n * sizeof *x), *y = malloc(m * sizeof *y);
  for (size_t i = 0; i < n; i++) x[i] = (float)(i % 17 + 1);
  tn_scope(c) {
    tn_tensor *t = tn_from(c, TN_F32, DIMS(b, e, h, w), x);
    if (twice) t = tn_mul_scalar(t, 2);
    t = tn_pad(t, (const tn_dim[]){0, 0, 0, 0, !below, below, 0, 0}, 0);
    t = tn_sum(tn_pad(t, (const tn_dim[]){0, 0, 0, 0, 0, 0, 0, 1}, 1), (const int[]){0}, 1, false);
    if (tn_read(t, y, m * sizeof *y) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  }
  for (int64_t k = 0; k < e; k++)
    for (int64_t i = 0; i <= h; i++)
      for (int64_t j = 0; j <= w; j++) {
        float want = j == w ? (float)b : 0;
        int64_t row = below ? i : i - 1;
        for (int64_t p = 0; p < b && j < w && row >= 0 && row < h; p++)
          want += x[((p * e + k) * h + row) * w + j] * (twice ? 2 : 1);
        if (y[(k * (h + 1) + i) * (w + 1) + j] != want)
          fail_msg("%dx%dx%dx%d: element %d,%d,%d", (int)b, (int)e, (int)h, (int)w, (int)k, (int)i, (int)j);
      }
  free(x);
  free(y);
}

static void padded_sums(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  assert_non_null(c);
  for (int64_t b = 2; b < 4; b++)
    for (int64_t side = 2; side < 8; side++)
      for (int way = 0; way < 4; way++) {
        static unsigned long seen;
        if (!is_taken(&seen)) continue;
        padded_sum(c, b, 6, side, side == 7 ? 9 : side, way & 1, way & 2);
      }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(padded_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
