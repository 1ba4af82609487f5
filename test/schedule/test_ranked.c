/* Bits that all set at once, and ranks made of them (schedule/ranked.c): on every device, against what one loop gives;
 * sums by rank in one digit, as they are chosen for f16 of few updates beside many places, which no test could run. */
#include "device/device.h"
#include "schedule/fixed.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include "tensor/operands.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PLACES = 2100, UPDATES = 700, F16_WIDTH = 40, F16_LOWEST = -24 };
static const char *const devices[] = {"cpu", "ref", "ref:opencl", "ref:sm_80", "ref:sm_90"};
static const int64_t sizes[][2] = {{1, 1}, {31, 5}, {32, 40}, {33, 700}, {64, 1}, {2100, 1}, {2100, 700}};

static uint64_t seed;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Where so many updates go: to places, or none, below and beyond them, as far as no 32 bits hold */
static void draw_places(int64_t *to, int64_t places, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    to[i] = below(4) ? below(places + 8) - 4 : below(3);
    if (i % 50 == 49) to[i] += (below(2) ? 1 : -1) * ((int64_t)1 << 32);
  }
}

/* fn of inputs, read into `got`, of so many bytes, compared with its graph over unknowns, too */
static void compute(const char *device, tn_node *(*fn)(tn_ctx *c, tn__call *k), int64_t how, const int64_t *to,
                    const int64_t *size, tn_dtype dtype, const void *values, void *got, size_t bytes) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = tn_from(c, dtype == TN_F16 ? TN_F32 : dtype, &size[1], 1, values);
    tn_tensor *in[] = {tn_from(c, TN_I64, &size[1], 1, to), tn_cast(x, dtype)};
    tn_tensor *y = tn__build(&(tn__call){.name = "test", .fn = fn, .in = in, .nin = 2, .i = {size[0], how}});
    if (tn_read(y, got, bytes) != TN_OK)
      fail_msg("%s, %lld to %lld: %s", device, (long long)size[1], (long long)size[0], tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

/* {to, bits}, i {places} */
static tn_node *set_bits(tn_ctx *c, tn__call *k) {
  tn_node *places = tn__int(c, k->i[0]);
  return tn__scatter_by(c, OP_OR, tn__scalar_to(c, tn__const_bits(c, TN_U32, 0x80), &places, 1), k->x[0], k->x[1]);
}

static void test_bits(void **s) {
  static int64_t to[UPDATES];
  static uint32_t by[UPDATES], want[PLACES], got[PLACES];
  (void)s;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    seed = i;
    int64_t places = sizes[i][0], n = sizes[i][1];
    draw_places(to, places, n);
    for (int64_t p = 0; p < places; p++) want[p] = 0x80;
    for (int64_t u = 0; u < n; u++) {
      by[u] = (uint32_t)1 << below(32) | (uint32_t)below(2);
      if (to[u] >= 0 && to[u] < places) want[to[u]] |= by[u];
    }
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
      compute(devices[d], set_bits, 0, to, sizes[i], TN_U32, by, got, (size_t)places * sizeof *got);
      for (int64_t p = 0; p < places; p++)
        if (got[p] != want[p])
          fail_msg("%s, size %zu, place %lld: %x, not %x", devices[d], i, (long long)p, got[p], want[p]);
    }
  }
}

/* {to, any}, i {places, whether of places}: ranks of updates, or of places */
static tn_node *find_ranks(tn_ctx *c, tn__call *k) {
  tn_node *places = tn__int(c, k->i[0]), *ranks = tn__ranks_of(c, places, k->x[0]);
  return k->i[1] ? tn__ranks_of_places(c, ranks, places) : tn__ranks_at(c, ranks, k->x[0]);
}

static void test_ranks(void **s) {
  static int64_t to[UPDATES];
  static int32_t rank[PLACES], got[PLACES];
  static float none[UPDATES];
  (void)s;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    seed = 100 + i;
    int64_t places = sizes[i][0], n = sizes[i][1];
    int32_t before = 0;
    draw_places(to, places, n);
    for (int64_t p = 0; p < places; p++) {
      bool any = false;
      for (int64_t u = 0; u < n; u++) any |= to[u] == p;
      rank[p] = any ? before++ : -1;
    }
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
      for (int of_places = 0; of_places < 2; of_places++) {
        int64_t count = of_places ? places : n;
        compute(devices[d], find_ranks, of_places, to, sizes[i], TN_F32, none, got, (size_t)count * sizeof *got);
        for (int64_t k = 0; k < count; k++) {
          int64_t at = of_places ? k : to[k];
          int32_t want = at >= 0 && at < places ? rank[at] : -1;
          if (got[k] != want)
            fail_msg("%s, size %zu, %lld of %s: %d, not %d", devices[d], i, (long long)k,
                     of_places ? "places" : "updates", got[k], want);
        }
      }
  }
}

/* {to, upd}, i {places}: sums in one digit */
static tn_node *add_digits(tn_ctx *c, tn__call *k) {
  const tn__fixed f = {.digits = 1, .width = F16_WIDTH, .lowest = F16_LOWEST};
  tn_node *places = tn__int(c, k->i[0]), *upd = k->x[1], *ranks = tn__ranks_of(c, places, k->x[0]);
  tn_node *rank = tn__cast(c, tn__ranks_at(c, ranks, k->x[0]), TN_I64);
  tn_node *sum = tn__op1(c, OP_CONTIG, tn__fixed_sums(c, &f, upd->dim[0], rank, tn__acc(c, upd)));
  return tn__gather(c, sum, tn__ranks_of_places(c, ranks, places));
}

static void test_sums(void **s) {
  static int64_t to[UPDATES];
  static float upd[UPDATES], want[PLACES], got[PLACES];
  (void)s;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    seed = 200 + i;
    int64_t places = sizes[i][0], n = sizes[i][1];
    draw_places(to, places, n);
    memset(want, 0, sizeof want);
    for (int64_t u = 0; u < n; u++) {
      upd[u] = (float)(below(2001) - 1000) * (below(2) ? 0x1p-3f : 1); /* sums are exact */
      if (i % 2 && below(40) == 0) upd[u] = (float[]){INFINITY, -INFINITY, NAN}[below(3)];
      if (to[u] >= 0 && to[u] < places) want[to[u]] += upd[u];
    }
    for (size_t d = 3; d < sizeof devices / sizeof *devices; d++) {
      compute(devices[d], add_digits, 0, to, sizes[i], TN_F16, upd, got, (size_t)places * sizeof *got);
      for (int64_t p = 0; p < places; p++)
        if (!(got[p] == want[p] || (isnan(got[p]) && isnan(want[p]))))
          fail_msg("%s, size %zu, place %lld: %g, not %g", devices[d], i, (long long)p, (double)got[p],
                   (double)want[p]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits), cmocka_unit_test(test_ranks),
                                     cmocka_unit_test(test_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
