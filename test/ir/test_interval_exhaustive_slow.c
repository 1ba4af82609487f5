/* At 8 bits, every interval beside every other, every value in both: what tn__interval gives encloses what the
 * evaluator gives.  By default one of the two intervals has its ends on a grid; with --all neither has (half an hour).
 */
#include "ir/eval.h"
#include "ir/shape.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 256 };
static bool everything;
static tn_node sources[3], *source[3] = {sources, sources + 1, sources + 2};
static uint64_t checked;

typedef struct domain {
  int dtype, first, count;
} domain;
static const domain domains[] = {{TN_I8, -128, VALUES}, {TN_U8, 0, VALUES}, {TN_BOOL, 0, 2}};
enum { DOMAINS = sizeof domains / sizeof *domains };

static bool on_grid(const domain *d, int i) {
  static const int grid[] = {-128, -8, -1, 0, 7, 127, 255};
  for (size_t k = 0; k < sizeof grid / sizeof *grid; k++)
    if (everything || grid[k] == d->first + i) return true;
  return false;
}

typedef struct hull {
  int64_t lo, hi;
} hull;
static hull join(hull a, hull b) { return (hull){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi}; }

static void set(int i, int dtype, int64_t lo, int64_t hi) {
  sources[i] = (tn_node){.op = OP_PARAM, .dtype = (uint8_t)dtype, .lo = lo, .hi = hi};
}

static void check(int op, int dtype, hull values) {
  tn_node n = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nsrc = tn__ops[op].max_src, .src = source};
  tn__interval(&n, &n.lo, &n.hi);
  checked++;
  if (values.lo < n.lo || values.hi > n.hi)
    fail_msg("%s of %s %ld..%ld, %ld..%ld, %ld..%ld reaches %ld..%ld, not %ld..%ld", tn__ops[op].text,
             tn__dtypes[sources[0].dtype].name, (long)sources[0].lo, (long)sources[0].hi, (long)sources[1].lo,
             (long)sources[1].hi, (long)sources[2].lo, (long)sources[2].hi, (long)values.lo, (long)values.hi,
             (long)n.lo, (long)n.hi);
}

static bool takes(int op, int dtype) { return op != OP_PHILOX && op != OP_WHERE && tn__op_takes(op, dtype); }

static int64_t result[VALUES][VALUES];

static void tabulate(int op, int dtype, const domain *d, int64_t third) {
  for (int i = 0; i < d->count; i++)
    for (int j = 0; j < d->count; j++) {
      uint64_t arg[3] = {(uint64_t)(int64_t)(d->first + i), (uint64_t)(int64_t)(d->first + j), (uint64_t)third};
      result[i][j] = (int64_t)tn__eval(op, dtype, d->dtype, arg);
    }
}

/* Against the interval of the first source (of the second: flipped), whose values give over[] with each value of the
 * other. */
static void against(int op, int dtype, const domain *d, const hull *over, bool flipped) {
  for (int lo = 0; lo < d->count; lo++) {
    if (!on_grid(d, lo)) continue;
    hull h = over[lo];
    for (int hi = lo; hi < d->count; hi++) {
      h = join(h, over[hi]);
      if (!on_grid(d, hi)) continue;
      set(!flipped, d->dtype, d->first + lo, d->first + hi);
      check(op, dtype, h);
    }
  }
}

static void every_pair(int op, int dtype, const domain *d, bool flipped) {
  hull over[VALUES];
  for (int lo = 0; lo < d->count; lo++)
    for (int hi = lo; hi < d->count; hi++) {
      for (int k = 0; k < d->count; k++) {
        int64_t v = flipped ? result[k][hi] : result[hi][k];
        over[k] = hi == lo ? (hull){v, v} : join(over[k], (hull){v, v});
      }
      set(flipped, d->dtype, d->first + lo, d->first + hi);
      against(op, dtype, d, over, flipped);
    }
}

static void binary(void **state) {
  (void)state;
  for (int k = 0; k < DOMAINS; k++)
    for (int op = 0; op < OP_COUNT; op++) {
      const domain *d = &domains[k];
      if (tn__ops[op].group != G_BINARY || !takes(op, d->dtype)) continue;
      int dtype = tn__ops[op].dtype_rule == DT_BOOL ? TN_BOOL : d->dtype;
      tabulate(op, dtype, d, 0);
      every_pair(op, dtype, d, false);
      if (!everything && !(tn__ops[op].comm & tn__dtypes[d->dtype].cls)) every_pair(op, dtype, d, true);
    }
  print_message("%llu pairs of intervals\n", (unsigned long long)checked);
}

/* One pair of factors and every addend, every factor and one addend. */
static void ternary(void **state) {
  (void)state;
  static const int addends[] = {-128, 1, 127, 255};
  for (int k = 0; k < DOMAINS; k++)
    for (size_t i = 0; i < sizeof addends / sizeof *addends; i++) {
      const domain *d = &domains[k];
      if (addends[i] < d->first || addends[i] >= d->first + d->count || (d->dtype == TN_BOOL && addends[i] > 1))
        continue;
      tabulate(OP_FMA, d->dtype, d, addends[i]);
      set(2, d->dtype, addends[i], addends[i]);
      every_pair(OP_FMA, d->dtype, d, false);
    }
}

static void unary(void **state) {
  (void)state;
  for (int k = 0; k < DOMAINS; k++)
    for (int op = 0; op < OP_COUNT; op++)
      for (int to = 0; to <= TN__INDEX; to++) {
        const domain *d = &domains[k];
        bool casts = tn__ops[op].group == G_CAST && !tn__is_float(to) &&
                     (op == OP_CAST || (to != TN__INDEX && tn__size_of(to) == tn__size_of(d->dtype)));
        if (!casts && (tn__ops[op].group != G_UNARY || to != d->dtype || !takes(op, d->dtype))) continue;
        for (int lo = 0; lo < d->count; lo++) {
          hull h = {INT64_MAX, INT64_MIN};
          for (int hi = lo; hi < d->count; hi++) {
            uint64_t arg[3] = {(uint64_t)(int64_t)(d->first + hi)};
            int64_t v = (int64_t)tn__eval(op, to, d->dtype, arg);
            h = join(h, (hull){v, v});
            set(0, d->dtype, d->first + lo, d->first + hi);
            check(op, to, h);
          }
        }
      }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(unary), cmocka_unit_test(binary), cmocka_unit_test(ternary)};
  everything = argc > 1 && !strcmp(argv[1], "--all");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
