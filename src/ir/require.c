#include "ir/require.h"
#include "ir/eval.h"
#include "ir/text.h"
#include <stdlib.h>

void tn__require_print(tn__sb *out, const tn_node *r) {
  tn__sb_printf(out, "b%lld %s", (long long)r->src[0]->ints[0], tn__requirement_names[r->ints[0]]);
  for (uint32_t i = 1; i < r->nsrc; i++) {
    tn__sb_putc(out, ' ');
    tn__print_expr(out, r->src[i]);
  }
}

/* An element: a value, in the order of its dtype, and where it stands */
typedef struct element {
  uint64_t rank, bits;
  size_t at;
} element;

/* Integers of both signs in the order of unsigned ones */
static element element_at(int dtype, const void *mem, size_t at) {
  uint64_t bits = tn__eval_load(dtype, (const char *)mem + at * tn__size_of(dtype));
  return (element){bits ^ (tn__dtypes[dtype].is_signed ? (uint64_t)1 << 63 : 0), bits, at};
}

static int by_rank(const void *x, const void *y) {
  const element *a = x, *b = y;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

static void put_value(tn__sb *s, int dtype, uint64_t bits) {
  if (tn__dtypes[dtype].is_signed) tn__sb_printf(s, "%lld", (long long)bits);
  else tn__sb_printf(s, "%llu", (unsigned long long)bits);
}

static bool find_equal(tn__arena *a, int dtype, const void *mem, size_t n, tn__sb *why) {
  element *v = tn__arena_alloc(a, (n + 1) * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = element_at(dtype, mem, i);
  if (n) qsort(v, n, sizeof *v, by_rank);
  for (size_t i = 1; i < n; i++) {
    if (v[i].rank != v[i - 1].rank) continue;
    tn__sb_printf(why, "elements %zu and %zu are both ", v[i - 1].at, v[i].at);
    put_value(why, dtype, v[i].bits);
    return true;
  }
  return false;
}

static bool find_descent(int dtype, const void *mem, size_t n, tn__sb *why) {
  for (size_t i = 1; i < n; i++) {
    element x = element_at(dtype, mem, i - 1), y = element_at(dtype, mem, i);
    if (x.rank <= y.rank) continue;
    tn__sb_printf(why, "element %zu is ", i - 1);
    put_value(why, dtype, x.bits);
    tn__sb_printf(why, ", and element %zu is ", i);
    put_value(why, dtype, y.bits);
    return true;
  }
  return false;
}

static bool find_outside(int dtype, const void *mem, size_t n, int64_t lo, int64_t hi, tn__sb *why) {
  for (size_t i = 0; i < n; i++) {
    uint64_t bits = element_at(dtype, mem, i).bits;
    bool huge = !tn__dtypes[dtype].is_signed && bits > INT64_MAX;
    if (!huge && (int64_t)bits >= lo && (int64_t)bits < hi) continue;
    tn__sb_printf(why, "element %zu is ", i);
    put_value(why, dtype, bits);
    return true;
  }
  return false;
}

const char *tn__require_fault(tn__arena *a, const tn_node *r, const void *mem, size_t n, int64_t lo, int64_t hi) {
  int dtype = r->src[0]->dtype;
  tn__sb why;
  bool found = false;
  tn__sb_init(&why, a);
  switch ((tn__requirement)r->ints[0]) {
  case REQ_PERMUTED:
    found = find_outside(dtype, mem, n, 0, (int64_t)n, &why) || find_equal(a, dtype, mem, n, &why);
    break;
  case REQ_DISTINCT: found = find_equal(a, dtype, mem, n, &why); break;
  case REQ_SORTED: found = find_descent(dtype, mem, n, &why); break;
  case REQ_IN: found = find_outside(dtype, mem, n, lo, hi, &why); break;
  case REQ_COUNT: break;
  }
  return found ? tn__sb_str(&why) : NULL;
}
