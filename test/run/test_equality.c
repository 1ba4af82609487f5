/* Equality, its opposite and negation of integers on the device that $TENET_DEVICE names: of the ends of every dtype,
 * beside each other, and where one is cut by a minimum and a maximum, which assemblers have taken for one thing with
 * the comparison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

/* Those of each dtype are their lower bits. */
static const uint64_t patterns[] = {
    0, 1, 2, 15, 16, 17, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
    0x80000001, 0xfffffffe, 0xffffffff, 0x100000000, 0x100000001, 0x100000010, 0x7fffffff00000000, 0x7fffffffffffffff,
    0x8000000000000000, 0x8000000000000001, 0xffffffff00000000, 0xffffffff80000000, 0xfffffffffffffffe,
    0xffffffffffffffff};
enum { N = sizeof patterns / sizeof *patterns };

static const struct {
  tn_dtype dtype;
  int bits;
  bool is_signed;
} dtypes[] = {{TN_I8, 8, true},   {TN_I16, 16, true},  {TN_I32, 32, true},  {TN_I64, 64, true},
              {TN_U8, 8, false},  {TN_U16, 16, false}, {TN_U32, 32, false}, {TN_U64, 64, false}};

static uint64_t value_of(uint64_t pattern, int bits, bool is_signed) { /* as 64 bits */
  uint64_t low = bits == 64 ? pattern : pattern & ((UINT64_C(1) << bits) - 1);
  return is_signed && bits < 64 && low >> (bits - 1) ? low - (UINT64_C(1) << bits) : low;
}

static bool is_below(uint64_t x, uint64_t y, bool is_signed) {
  uint64_t turned = is_signed ? UINT64_C(1) << 63 : 0;
  return (x ^ turned) < (y ^ turned);
}

static uint64_t cut(uint64_t x, bool is_signed) { /* max(min(x, 16), 0) */
  if (is_below(16, x, is_signed)) x = 16;
  return is_below(x, 0, is_signed) ? 0 : x;
}

static void read_all(tn_tensor *t, void *got, size_t bytes) {
  if (!t || tn_read(t, got, bytes) != TN_OK) fail_msg("%s", t ? tn_last_error(tn_ctx_of(t))->text : "no tensor");
}

static void one_dtype(tn_ctx *c, size_t d) {
  const char *name = tn_dtype_name(dtypes[d].dtype);
  int bits = dtypes[d].bits;
  bool is_signed = dtypes[d].is_signed;
  uint8_t mem[N * 8], eq[N * N], ne[N * N], hit[N], miss[N], negative[N * 8];
  uint64_t v[N];
  for (int i = 0; i < N; i++) {
    v[i] = value_of(patterns[i], bits, is_signed);
    memcpy(mem + i * (bits / 8), &v[i], (size_t)bits / 8); /* the lower bytes come first */
  }
  tn_tensor *x = tn_from(c, dtypes[d].dtype, DIMS(N), mem), *column = tn_reshape(x, DIMS(N, 1));
  tn_tensor *within = tn_maximum_scalar(tn_minimum_scalar(x, 16), 0);
  read_all(tn_eq(column, x), eq, sizeof eq);
  read_all(tn_ne(column, x), ne, sizeof ne);
  read_all(tn_eq_scalar(within, 16), hit, sizeof hit);
  read_all(tn_ne_scalar(within, 16), miss, sizeof miss);
  read_all(tn_neg(x), negative, (size_t)N * (size_t)bits / 8);
  for (int i = 0; i < N; i++) {
    bool most = cut(v[i], is_signed) == 16;
    uint64_t minus = 0 - v[i];
    if (hit[i] != most || miss[i] != !most)
      fail_msg("%s: max(min(%llx, 16), 0) and 16", name, (unsigned long long)v[i]);
    if (memcmp(negative + i * (bits / 8), &minus, (size_t)bits / 8))
      fail_msg("%s: -%llx", name, (unsigned long long)v[i]);
    for (int j = 0; j < N; j++)
      if (eq[i * N + j] != (v[i] == v[j]) || ne[i * N + j] != (v[i] != v[j]))
        fail_msg("%s: %llx and %llx", name, (unsigned long long)v[i], (unsigned long long)v[j]);
  }
}

static void ends_of_dtypes(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  assert_non_null(c);
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) one_dtype(c, d);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ends_of_dtypes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
