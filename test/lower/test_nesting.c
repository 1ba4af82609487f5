/* A loop of a body is closed in one place: two closers that want it under different loops, or before and after another
 * loop, or one that names it twice, are an error, never a kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/spec.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const device[] = {"ref", "cpu", "ref:cpu", "ref:sm_90", "ref:opencl"};

/* out[i] = sum_j p[j] + sum_j q[I(i), j], both sums in the loop j of that name */
#define BODY(j) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = param f32[4] 4 {1 -1}\n" \
  "%4 = range index 4 {reduce 1 reduction}\n%5 = load f32 %3 %4\n%6 = reduce f32 %5 %4 {add 1}\n" \
  "%7 = param f32[32] 32 {2 -1}\n%8 = range index 4 {reduce " j " reduction}\n%9 = mul index %2 4\n" \
  "%10 = add index %9 %8\n%11 = load f32 %7 %10\n%12 = reduce f32 %11 %8 {add 1}\n%13 = add f32 %6 %12\n" \
  "%14 = store void %1 %2 %13 %2\n%15 = sink void %14 {\"kernel\"}\n"

/* out = sum_1 p[j] b, b = sum_2 q[k] a, where b is made before that sum and after a, a sum of loop `j` */
#define TURNS(j) \
  "%1 = param f32[1] 1 {0 -1}\n%2 = param f32[4] 4 {1 -1}\n%3 = range index 4 {reduce 1 reduction}\n" \
  "%4 = load f32 %2 %3\n%5 = param f32[5] 5 {2 -1}\n%6 = range index 5 {reduce 2 reduction}\n" \
  "%7 = load f32 %5 %6\n%8 = range index 4 {reduce " j " reduction}\n%9 = load f32 %2 %8\n" \
  "%10 = reduce f32 %9 %8 {add 1}\n%11 = mul f32 %7 %10\n%12 = reduce f32 %11 %6 {add 1}\n" \
  "%13 = reduce f32 %7 %6 {max 1}\n%14 = mul f32 %4 %13\n%15 = reduce f32 %14 %3 {add 1}\n" \
  "%16 = add f32 %12 %15\n%17 = store void %1 0 %16\n%18 = sink void %17 {\"kernel\"}\n"

/* out[i, j] = p[j] as one store of both loops, and of the inner one once more */
#define TWICE(j) \
  "%1 = param f32[32] 32 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = range index 4 {reduce 1 reduction}\n" \
  "%4 = mul index %2 4\n%5 = add index %4 %3\n%6 = param f32[4] 4 {1 -1}\n%7 = load f32 %6 %3\n" \
  "%8 = store void %1 %5 %7 %2 %3" j "\n%9 = sink void %8 {\"kernel\"}\n"

/* Rows of x and of exp(y) are wanted in loops 1 and 2, of which the second needs a maximum by the first, and both would
 * do but for that: the first has to keep them. */
#define ROWS \
  "%1 = param f32[64] 64 {0 -1}\n%2 = range index 64 {loop 0 output}\n%3 = param f32[2048] 2048 {1 -1}\n" \
  "%4 = range index 32 {reduce 1 reduction}\n%5 = range index 32 {reduce 2 reduction}\n" \
  "%6 = mul index %2 32\n%7 = add index %6 %4\n%8 = add index %6 %5\n%9 = load f32 %3 %7\n" \
  "%10 = reduce f32 %9 %4 {max 1}\n%11 = param f32[2048] 2048 {2 -1}\n%12 = load f32 %11 %8\n" \
  "%13 = exp f32 %12\n%14 = load f32 %3 %8\n%15 = eq bool %14 %10\n%16 = const f32 {0.0}\n" \
  "%17 = where f32 %15 %13 %16\n%18 = reduce f32 %17 %5 {add 1}\n%19 = param f32[7] 7 {3 -1}\n" \
  "%20 = range index 7 {reduce 3 reduction}\n%21 = load f32 %19 %20\n%22 = reduce f32 %21 %20 {add 1}\n" \
  "%23 = load f32 %11 %7\n%24 = exp f32 %23\n%25 = mul f32 %24 %22\n%26 = reduce f32 %25 %4 {add 1}\n" \
  "%27 = add f32 %18 %26\n%28 = store void %1 %2 %27 %2\n%29 = sink void %28 {\"kernel\"}\n"

static tn_ctx *open_on(const char *on, int mode) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = on, .mode = (tn_mode)mode, .quiet = 1});
  assert_non_null(c);
  return c;
}

typedef struct lowering {
  const char *text;
  const tn__target *target;
} lowering;

static void lower(tn_ctx *c, void *arg) {
  const lowering *l = arg;
  tn__lower(c, &c->scratch, tn__parse(c, l->text), l->target, NULL, 0);
}

/* As a schedule's body is lowered, whose loops are said to be as they should be. */
static void lowered(const char *on, int mode, const char *text, const char *objection) {
  tn_ctx *c = open_on(on, mode);
  lowering l = {text, &tn__device_get(c, 0)->target};
  bool good = tn__ctx_run(c, "lower", lower, &l);
  if (good != !objection) fail_msg("%s, mode %d: %s", on, mode, good ? "accepted" : tn_last_error(c)->text);
  if (objection && !strstr(tn_last_error(c)->text, objection)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

static void one_place(void **s) {
  (void)s;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++) {
      lowered(device[d], mode, BODY("2"), NULL);
      lowered(device[d], mode, BODY("1"), "is closed in two places");
      lowered(device[d], mode, TURNS("3"), NULL);
      lowered(device[d], mode, TURNS("1"), "is closed in two places");
      lowered(device[d], mode, ROWS, NULL);
      lowered(device[d], mode, TWICE(""), NULL);
      lowered(device[d], mode, TWICE(" %3"), "closes a loop twice");
    }
}

/* y[i] = the sum of x, which is stored in the loop that the sum ends */
#define OVER_ITSELF(stored) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 4 {reduce 0 reduction}\n%3 = param f32[32] 32 {1 -1}\n" \
  "%4 = load f32 %3 %2\n%5 = reduce f32 %4 %2 {add 1}\n%6 = range index 4 {reduce " stored " reduction}\n" \
  "%7 = store void %1 %6 %5 %6\n%8 = sink void %7 {\"kernel\"}\n"

static void run(const char *on, int mode, const char *text, float *got, size_t n) {
  tn_ctx *c = open_on(on, mode);
  tn_tensor *in[] = {NULL, tn_reshape(tn_arange(c, TN_F32, 0, 32, 1), (tn_dim[]){32}, 1),
                     tn_reshape(tn_arange(c, TN_F32, 5, 37, 1), (tn_dim[]){32}, 1)}, *out;
  int params = strstr(text, "{2 -1}") ? 3 : 2;
  for (int i = 1; i < params; i++) { /* as long as its param */
    char slot[32];
    snprintf(slot, sizeof slot, "{%d -1}", i);
    const char *at = strstr(text, slot);
    while (*at != '[') at--;
    in[i] = tn_slice(in[i], 0, 0, strtoll(at + 1, NULL, 10), 1);
  }
  if (tn_run_text(c, text, params, in, 1, &out) != 1) fail_msg("%s: %s\n%s", on, tn_last_error(c)->text, text);
  assert_int_equal(tn_nbytes(out), n * sizeof *got);
  assert_int_equal(tn_read(out, got, n * sizeof *got), TN_OK);
  tn_ctx_close(c);
}

/* By hand, two lines that say the same are one loop: they mean what two loops mean. */
static void by_hand(void **s) {
  static const struct {
    const char *text, *meant;
    size_t n;
  } pair[] = {{BODY("1"), BODY("2"), 8}, {TURNS("1"), TURNS("3"), 1}, {OVER_ITSELF("0"), OVER_ITSELF("1"), 8}};
  (void)s;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++)
      for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        float got[8], want[8];
        run(device[d], mode, pair[i].text, got, pair[i].n);
        run(device[d], mode, pair[i].meant, want, pair[i].n);
        assert_memory_equal(got, want, pair[i].n * sizeof *got);
        assert_true(got[0] != 0);
      }
}

/* out[i, u, n] = p[u] + sum_j q[i, n, j]: what neighbours n reduce is the same in all lanes u */
static const char of_neighbours[] =
    "%1 = param f32[64] 64 {0 -1}\n%2 = range index 8 {global 0 output}\n%3 = range index 4 {upcast 1 output}\n"
    "%4 = range index 2 {unroll 2 output}\n%5 = mul index %2 8\n%6 = mul index %3 2\n%7 = add index %5 %6\n"
    "%8 = add index %7 %4\n%9 = param f32[4] 4 {1 -1}\n%10 = load f32 %9 %3\n%11 = param f32[48] 48 {2 -1}\n"
    "%12 = range index 3 {reduce 3 reduction}\n%13 = mul index %2 6\n%14 = mul index %4 3\n"
    "%15 = add index %13 %14\n%16 = add index %15 %12\n%17 = load f32 %11 %16\n%18 = reduce f32 %17 %12 {add 1}\n"
    "%19 = add f32 %10 %18\n%20 = store void %1 %8 %19 %2 %3 %4\n%21 = sink void %20 {\"part\"}\n";

typedef struct seen { /* reductions' loops, lanes in them, and sums */
  int open, in_lanes, sums;
} seen;

static void linearise(tn_ctx *c, void *arg) {
  seen *s = arg;
  tn__part part = {.group = 4, .grain = 1, .subgroup = 32};
  tn__linearise(c, &c->scratch, tn__parse(c, of_neighbours), &part);
  tn__spec_linear(c, part.ins, part.n);
  for (uint32_t i = 0; i < part.n; i++) {
    const tn_node *n = part.ins[i];
    s->open += n->op == OP_RANGE && tn__axis_of(n) == AX_REDUCE;
    s->in_lanes += n->op == OP_RANGE && tn__axis_of(n) == AX_UPCAST && s->open == 1 && !s->sums;
    s->sums += n->op == OP_SETACC;
  }
}

/* Each lane reduces it for itself: one loop of the reduction, with the lanes in it. */
static void same_in_all_lanes(void **state) {
  (void)state;
  tn_ctx *c = open_on("ref:sm_90", TN_MODE_DEFAULT);
  seen s = {0};
  if (!tn__ctx_run(c, "linearise", linearise, &s)) fail_msg("%s", tn_last_error(c)->text);
  assert_int_equal(s.open, 1);
  assert_int_equal(s.in_lanes, 1);
  assert_int_equal(s.sums, 1);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_place), cmocka_unit_test(by_hand),
                                     cmocka_unit_test(same_in_all_lanes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
