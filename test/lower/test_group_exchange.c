/* Words that a group's threads send to places of a block: what stands at each is the sum of what goes there, as a plain
 * loop finds it, whether places differ, meet or are none, whatever stands around.  Each schedule is compared with its
 * graph, and its kernels' threads are proved to keep apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/explained.h"
#include "support/terms.h"
#include "tensor/operands.h"
#include <stdlib.h>
#include <string.h>

typedef enum to { OTHERS, TWO_AT_A_TIME, ALL_TO_ONE, SOME_BESIDE } to; /* places: each of its own, or ... */

typedef struct program {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x, tn_tensor *place, const struct program *p);
  int dtype;       /* of the words */
  to to;
  tn_dim outer, n; /* x[outer, n] */
  const char *step; /* what a kernel's note says; NULL: words are not exchanged */
} program;

static bool wide(const program *p) { return p->dtype == TN_U64; }

/* ---- what is computed ---- */

/* Sums of the dtype of their terms, which no public function makes of such of 32 bits */
static tn_node *sum_of(tn_ctx *c, tn__call *k) {
  int64_t last = 2;
  return tn__reduce(c, OP_SUM, k->x[0], &last, 1);
}
static tn_tensor *sum_as_it_is(tn_tensor *x) {
  return tn__build(&(tn__call){.name = "sum_as_it_is", .fn = sum_of, .in = &x, .nin = 1});
}

static tn_tensor *sent_as(tn_tensor *x, tn_tensor *place, const program *p, int by, tn_dtype as) {
  tn_tensor *here = tn_eq(tn_unsqueeze(place, 1), numbers(x, p->n, 3, 1));
  tn_tensor *word = tn_where(here, tn_unsqueeze(x, 1), tn_full_like(tn_unsqueeze(x, 1), 0));
  if (by) word = tn_shr(word, tn_full_like(word, by));
  return sum_as_it_is(tn_cast(word, as));
}
static tn_tensor *sent(tn_tensor *x, tn_tensor *place, const program *p) {
  return sent_as(x, place, p, 0, (tn_dtype)p->dtype);
}
/* ... in two words, */
static tn_tensor *halves(tn_tensor *x, tn_tensor *place, const program *p) {
  tn_tensor *high = tn_cast(sent_as(x, place, p, 32, TN_U32), TN_U64);
  high = tn_shl(high, tn_full_like(high, 32));
  return tn_bitwise_or(high, tn_cast(sent_as(x, place, p, 0, TN_U32), TN_U64));
}
/* ... with something made of it and of the place, */
static tn_tensor *sent_beside(tn_tensor *x, tn_tensor *place, const program *p) {
  return tn_add(tn_mul_scalar(sent(x, place, p), 3), numbers(x, p->n, 2, 1));
}
/* ... beside another sum, */
static tn_tensor *sent_and_sum(tn_tensor *x, tn_tensor *place, const program *p) {
  return tn_add(sent(x, place, p), tn_sum(x, (int[]){1}, 1, true));
}
/* ... or to where their own keys send them: behind those of lower keys, and of their own those that come before */
enum { KEYS = 16 };
static tn_tensor *keys_of(tn_tensor *x) { /* short first: how large they may be is known then */
  x = tn_cast(x, TN_U8);
  return tn_cast(tn_bitwise_and(x, tn_full_like(x, KEYS - 1)), TN_I32);
}
static tn_tensor *ranks_of(tn_tensor *key, const program *p) {
  tn_tensor *earlier = tn_lt(numbers(key, p->n, 3, 2), numbers(key, p->n, 3, 1));
  tn_tensor *alike = tn_logical_and(tn_eq(tn_unsqueeze(key, 1), tn_unsqueeze(key, 2)), earlier);
  return sum_as_it_is(tn_cast(alike, TN_I32));
}
static tn_tensor *begins(tn_tensor *key, const program *p) { /* those of each row, one after the other */
  tn_tensor *lower = tn_lt(tn_unsqueeze(key, 1), numbers(key, KEYS, 3, 1));
  lower = tn_cast(tn_sum(tn_cast(lower, TN_I32), (int[]){2}, 1, false), TN_I32);
  return tn_contiguous(tn_reshape(lower, (tn_dim[]){p->outer * KEYS}, 1));
}
static tn_tensor *in_order_of(tn_tensor *key, tn_tensor *x, const program *p) {
  tn_tensor *row = tn_mul_scalar(numbers(key, p->outer, 2, 0), KEYS);
  tn_tensor *at = tn_add(tn_take(begins(key, p), tn_add(key, row), 0), ranks_of(key, p));
  return wide(p) ? halves(x, at, p) : sent(x, at, p);
}
static tn_tensor *in_order(tn_tensor *x, tn_tensor *place, const program *p) {
  return (void)place, in_order_of(keys_of(x), x, p);
}
/* ... beside what is made of it and of the place, */
static tn_tensor *in_order_beside(tn_tensor *x, tn_tensor *place, const program *p) {
  return tn_add(tn_mul_scalar(in_order(x, place, p), 3), numbers(x, p->n, 2, 1));
}
/* ... by keys that are loaded from elsewhere, or made of where each stands, too, or loaded from two places */
static tn_tensor *by_others(tn_tensor *x, tn_tensor *place, const program *p) {
  return in_order_of(keys_of(place), x, p);
}
static tn_tensor *by_number(tn_tensor *x, tn_tensor *place, const program *p) {
  return (void)place, in_order_of(keys_of(tn_add(tn_cast(x, TN_I32), numbers(x, p->n, 2, 1))), x, p);
}
static tn_tensor *by_both(tn_tensor *x, tn_tensor *place, const program *p) {
  return in_order_of(keys_of(tn_bitwise_xor(tn_cast(x, TN_I32), place)), x, p);
}
/* ... or how many go there */
static tn_tensor *met(tn_tensor *x, tn_tensor *place, const program *p) {
  tn_tensor *here = tn_eq(tn_unsqueeze(place, 1), numbers(x, p->n, 3, 1));
  return sum_as_it_is(tn_cast(here, TN_I32));
}

/* ---- what a plain loop gives ---- */

static uint64_t word(tn_dim at) { return ((uint64_t)at + 1) * 0x9e3779b97f4a7c15u >> 4; }

static tn_dim place_of(const program *p, tn_dim i) {
  switch (p->to) {
  case OTHERS: return (i * 37 + 5) % p->n; /* n has no 37 in it */
  case TWO_AT_A_TIME: return i / 2;
  case ALL_TO_ONE: return p->n - 1;
  default: return i % 3 ? i * 2 - p->n / 2 : -1;
  }
}

static uint64_t element(const program *p, tn_dim at) {
  return wide(p) ? word(at) : word(at) & 0xffff; /* the sum of a row is exact in every dtype */
}

/* Those of each key, one after the other */
static void row_in_order(const program *p, tn_dim r, uint64_t *y) {
  tn_dim at = 0;
  for (uint64_t key = 0; key < KEYS; key++)
    for (tn_dim i = 0; i < p->n; i++) {
      uint64_t x = element(p, r * p->n + i), own = (uint64_t)place_of(p, i);
      uint64_t of = p->make == by_others ? own : p->make == by_both ? own ^ x : x;
      if (p->make == by_number) of += (uint64_t)i;
      if ((of & (KEYS - 1)) != key) continue;
      y[at] = p->make == in_order_beside ? 3 * x + (uint64_t)at : x;
      at++;
    }
}

static bool is_in_order(const program *p) {
  return p->make == in_order || p->make == in_order_beside || p->make == by_others || p->make == by_number ||
         p->make == by_both;
}

static void row(const program *p, tn_dim r, uint64_t *y) {
  uint64_t sum = 0;
  if (is_in_order(p)) {
    row_in_order(p, r, y);
    return;
  }
  for (tn_dim i = 0; i < p->n; i++) y[i] = 0;
  for (tn_dim i = 0; i < p->n; i++) {
    tn_dim at = place_of(p, i);
    uint64_t x = element(p, r * p->n + i);
    sum += x;
    if (at < 0 || at >= p->n) continue;
    if (p->make == met) y[at]++;
    else if (p->make == halves) /* each by itself */
      y[at] = (((y[at] >> 32) + (x >> 32)) << 32) | (uint32_t)((uint32_t)y[at] + (uint32_t)x);
    else y[at] += x;
  }
  for (tn_dim i = 0; i < p->n; i++) {
    if (p->make == sent_beside) y[i] = 3 * y[i] + (uint64_t)i;
    if (p->make == sent_and_sum) y[i] += sum;
  }
}

/* ---- rows ---- */

static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  tn_dim all = p->outer * p->n, shape[2] = {p->outer, p->n};
  int64_t *x = malloc((size_t)all * sizeof *x), *place = malloc((size_t)all * sizeof *place);
  assert_non_null(x);
  assert_non_null(place);
  for (tn_dim at = 0; at < all; at++) x[at] = (int64_t)element(p, at), place[at] = place_of(p, at % p->n);
  tn_tensor *t[2] = {tn_contiguous(tn_cast(tn_from(c, TN_I64, shape, 2, x), (tn_dtype)p->dtype)),
                     tn_contiguous(tn_cast(tn_from(c, TN_I64, shape, 2, place), TN_I32))};
  free(x);
  free(place);
  assert_int_equal(tn_realize(t, 2), TN_OK);
  return tn_contiguous(tn_cast(p->make(t[0], t[1], p), TN_U64));
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  const char *step = p->step && strstr(p->step, "step(32)") && !strcmp(device, "ref:opencl") ? "" : p->step;
  if (step && !strstr(text, step)) fail_msg("%s on %s: no %s in\n%s", p->name, device, step, text);
  if (!p->step && strstr(text, " sends(")) fail_msg("%s on %s: exchanged in\n%s", p->name, device, text);
}

static void compare(const program *p, tn_options opt) {
  const char *device = opt.device;
  size_t bytes = 0;
  uint64_t *y = malloc((size_t)p->n * sizeof *y), *got = explained(opt, p->name, made, check_steps, p, &bytes);
  assert_non_null(y);
  assert_int_equal(bytes, (size_t)(p->outer * p->n) * sizeof *got);
  for (tn_dim r = 0; r < p->outer; r++) {
    row(p, r, y);
    for (tn_dim i = 0; i < p->n; i++)
      if (got[r * p->n + i] != y[i])
        fail_msg("%s on %s: element %lld of row %lld is %llx, not %llx", p->name, device, (long long)i, (long long)r,
                 (unsigned long long)got[r * p->n + i], (unsigned long long)y[i]);
  }
  free(got);
  free(y);
}

static const program programs[] = {
    {"words", sent, TN_U32, OTHERS, 2, 128, " sends("},
    {"signed ones, of one row", sent, TN_I32, OTHERS, 1, 96, " sends("},
    {"words that meet", sent, TN_U32, TWO_AT_A_TIME, 2, 128, " sends("},
    {"words that all meet", sent, TN_I32, ALL_TO_ONE, 1, 128, " sends("},
    {"words without a place", sent, TN_U32, SOME_BESIDE, 2, 128, " sends("},
    {"two halves", halves, TN_U64, OTHERS, 2, 128, " sends("},
    {"two halves that meet", halves, TN_U64, TWO_AT_A_TIME, 1, 160, " sends("},
    {"beside what is made of them", sent_beside, TN_I32, OTHERS, 2, 128, " sends("},
    {"beside a sum", sent_and_sum, TN_I32, OTHERS, 2, 128, ""},
    {"in order of their keys", in_order, TN_U32, OTHERS, 2, 256, " in step(32) tally("},
    {"halves in order of their keys", in_order, TN_U64, OTHERS, 1, 512, " in step(32) tally("},
    {"in order beside what is made of them", in_order_beside, TN_U32, OTHERS, 1, 256, " in step(32) tally("},
    {"in order of others' keys", by_others, TN_U32, OTHERS, 2, 256, " in step(32) tally("},
    {"in order of keys made of numbers", by_number, TN_U32, OTHERS, 1, 256, " in step(32) tally("},
    {"in order of keys of two", by_both, TN_I32, OTHERS, 1, 256, " in step(32) tally("},
    {"in order, too few for tables", in_order, TN_U32, OTHERS, 1, 128, ""},
    {"how many meet", met, TN_I32, TWO_AT_A_TIME, 1, 128, NULL},
    {"floats", sent, TN_F32, OTHERS, 1, 128, NULL},
    {"words of 64 bits", sent, TN_U64, OTHERS, 1, 128, NULL},
    {"rows that threads do not divide", sent, TN_U32, OTHERS, 1, 100, NULL},
    {"rows that are short", sent, TN_U32, OTHERS, 2, 64, NULL},
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

static void words_are_sent(void **s) {
  (void)s;
  for (size_t i = 0; i < PROGRAMS; i++) compare(&programs[i], (tn_options){.device = "ref:sm_90"});
}
static void so_by_opencl(void **s) {
  (void)s;
  for (size_t i = 0; i < PROGRAMS; i += 2) compare(&programs[i], (tn_options){.device = "ref:opencl"});
}
static void so_in_mode_strict(void **s) {
  (void)s;
  for (size_t i = 0; i < PROGRAMS; i += 5)
    compare(&programs[i], (tn_options){.device = "ref:sm_80", .mode = TN_MODE_STRICT});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(words_are_sent), cmocka_unit_test(so_by_opencl),
                                     cmocka_unit_test(so_in_mode_strict)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
