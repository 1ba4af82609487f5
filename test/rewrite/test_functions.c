/* What rows call for constants and arguments, against what rules/README.md says of it: on all small operands, and at
 * the ends of 64 bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rewrite/match.h"
#include "rewrite/sum.h"
#include "support/in_ctx.h"

__extension__ typedef __int128 wide;

/* ---- integers ---- */

/* Whether r is what the function promises of a and b; *defined: whether there is such a number at all. */
typedef bool (*promise)(wide a, wide b, wide r, bool *defined);

static bool is_sum(wide a, wide b, wide r, bool *defined) { return (void)defined, r == a + b; }
static bool is_difference(wide a, wide b, wide r, bool *defined) { return (void)defined, r + b == a; }
static bool is_product(wide a, wide b, wide r, bool *defined) { return (void)defined, r == a * b; }
static bool is_negative(wide a, wide b, wide r, bool *defined) { return (void)b, (void)defined, r + a == 0; }
static bool is_least(wide a, wide b, wide r, bool *defined) {
  return (void)defined, r <= a && r <= b && (r == a || r == b);
}
static bool is_greatest(wide a, wide b, wide r, bool *defined) {
  return (void)defined, r >= a && r >= b && (r == a || r == b);
}

/* The rest lies between 0 and the divisor, on its side. */
static bool is_rest(wide rest, wide b) { return b > 0 ? 0 <= rest && rest < b : b < rest && rest <= 0; }
static bool is_floor(wide a, wide b, wide r, bool *defined) { return !(*defined = b != 0) || is_rest(a - r * b, b); }
static bool is_ceiling(wide a, wide b, wide r, bool *defined) { return !(*defined = b != 0) || is_rest(r * b - a, b); }
static bool is_remainder(wide a, wide b, wide r, bool *defined) {
  return !(*defined = b != 0) || (is_rest(r, b) && (a - r) % b == 0);
}

static bool is_common_divisor(wide a, wide b, wide r, bool *defined) {
  (void)defined;
  if (a == 0 && b == 0) return r == 0;
  if (r <= 0 || a % r || b % r) return false;
  a /= r, b /= r; /* coprime now */
  while (b) {
    wide t = a % b;
    a = b, b = t;
  }
  return a == 1 || a == -1;
}

static const promise promises[FN_COUNT] = {
    [FN_ADD] = is_sum,         [FN_SUB] = is_difference,     [FN_MUL] = is_product, [FN_NEG] = is_negative,
    [FN_MIN] = is_least,       [FN_MAX] = is_greatest,       [FN_IDIV] = is_floor,  [FN_MOD] = is_remainder,
    [FN_CEILDIV] = is_ceiling, [FN_GCD] = is_common_divisor,
};

/* Whether the exact value has 64 bits. */
static bool fits(tn__fn fn, int64_t a, int64_t b) {
  wide x = a, y = b, r = fn == FN_ADD ? x + y : fn == FN_SUB ? x - y : fn == FN_MUL ? x * y : fn == FN_NEG ? -x : 0;
  return r >= INT64_MIN && r <= INT64_MAX;
}

static void try_fn(tn__fn fn, int64_t a, int64_t b) {
  int64_t r = 0;
  bool defined = true, some = tn__table_fn(fn, a, b, &r), right = promises[fn](a, b, r, &defined);
  /* by contract: no quotient, no absolute value overflows */
  bool refused = fn >= FN_IDIV && (a == INT64_MIN || b == INT64_MIN);
  if (some && (!defined || !right)) fail_msg("%s %ld %ld = %ld", tn__fn_names[fn], (long)a, (long)b, (long)r);
  if (!some && defined && !refused && fits(fn, a, b))
    fail_msg("%s %ld %ld is refused", tn__fn_names[fn], (long)a, (long)b);
  if (some && refused) fail_msg("%s %ld %ld is not refused", tn__fn_names[fn], (long)a, (long)b);
}

static void integers(void **state) {
  (void)state;
  enum { SMALL = 130, EDGE = 5 };
  int64_t edge[12 * EDGE];
  int n = 0;
  for (int64_t i = 0; i < EDGE; i++) {
    edge[n++] = INT64_MIN + i, edge[n++] = INT64_MAX - i, edge[n++] = i - 2;
    edge[n++] = INT64_MAX / 2 + i - 2, edge[n++] = INT64_MIN / 2 + i - 2;
    edge[n++] = ((int64_t)1 << 32) + i - 2, edge[n++] = -((int64_t)1 << 32) + i - 2;
    edge[n++] = ((int64_t)1 << 31) + i - 2, edge[n++] = -((int64_t)1 << 31) + i - 2;
    edge[n++] = 3037000499 + i - 2, edge[n++] = -3037000499 + i - 2; /* the root of 2^63 */
    edge[n++] = 720720 * (i + 1);
  }
  for (int fn = 0; fn < FN_COUNT; fn++) {
    int64_t none;
    if (fn == FN_LO || fn == FN_HI) { /* these need a node */
      assert_false(tn__table_fn((tn__fn)fn, 1, 1, &none));
      continue;
    }
    assert_non_null(promises[fn]); /* of a new function, too */
    for (int64_t a = -SMALL; a <= SMALL; a++)
      for (int64_t b = -SMALL; b <= SMALL; b++) try_fn((tn__fn)fn, a, b);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) try_fn((tn__fn)fn, edge[i], edge[j]);
  }
}

/* ---- arguments: what they do to the place of an element ---- */

enum { RANK = 4, SUBSETS = 1 << RANK };
typedef int64_t place[RANK];

/* Where element i of (permute x p) stands in x: axis k of the result is axis p[k] of x. */
static void from_permuted(const int64_t *p, uint32_t rank, const place i, place out) {
  for (uint32_t k = 0; k < rank; k++) out[p[k]] = i[k];
}

/* counts through all n^n words, stops at those that are permutations */
static bool next_permutation(int64_t *p, uint32_t n) {
  for (;;) {
    uint32_t k = 0, seen = 0;
    while (k < n && ++p[k] == n) p[k++] = 0;
    if (k == n) return false;
    for (k = 0; k < n; k++) seen |= 1u << p[k];
    if (seen == (1u << n) - 1) return true;
  }
}

static void permutations(tn_ctx *c, uint32_t rank) {
  int64_t p[RANK] = {0}, q[RANK];
  if (rank == 1) p[0] = -1;
  while (next_permutation(p, rank)) {
    bool moves = false;
    for (uint32_t k = 0; k < rank; k++) moves |= p[k] != k;
    assert_int_equal(tn__argpred(TC_IDENTITY, &(tn__argval){.ints = p, .nint = rank}, NULL, NULL), !moves);
    memset(q, 0, sizeof q);
    if (rank == 1) q[0] = -1;
    while (next_permutation(q, rank)) {
      const place i = {10, 11, 12, 13};
      place step, twice, once;
      tn__argval pq = tn__argfn_apply(c, AF_COMPOSE, &(tn__argval){.ints = p, .nint = rank},
                                      &(tn__argval){.ints = q, .nint = rank});
      assert_int_equal(pq.nint, rank);
      from_permuted(q, rank, i, step), from_permuted(p, rank, step, twice), from_permuted(pq.ints, rank, i, once);
      assert_memory_equal(once, twice, rank * sizeof *once);
    }
  }
}

static uint32_t axes_of(uint32_t set, int64_t *out, bool downwards) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < RANK; k++) {
    uint32_t axis = downwards ? RANK - 1 - k : k;
    if (set >> axis & 1) out[n++] = axis;
  }
  return n;
}

/* Flipping some axes, then others, flips those that were flipped once. */
static void flips(tn_ctx *c) {
  for (uint32_t a = 0; a < SUBSETS; a++)
    for (uint32_t b = 0; b < SUBSETS; b++) {
      int64_t x[RANK], y[RANK];
      tn__argval p = {.ints = x, .nint = axes_of(a, x, b & 1)}, q = {.ints = y, .nint = axes_of(b, y, a & 1)};
      tn__argval r = tn__argfn_apply(c, AF_SYMDIFF, &p, &q);
      bool flipped[RANK] = {0};
      for (uint32_t k = 0; k < p.nint; k++) flipped[x[k]] ^= true;
      for (uint32_t k = 0; k < q.nint; k++) flipped[y[k]] ^= true;
      for (uint32_t k = 0; k < r.nint; k++) {
        assert_true(r.ints[k] >= 0 && r.ints[k] < RANK && (!k || r.ints[k - 1] < r.ints[k]));
        flipped[r.ints[k]] ^= true;
      }
      for (int k = 0; k < RANK; k++) assert_false(flipped[k]);
      assert_int_equal(tn__argpred(TC_EMPTY, &p, NULL, NULL), a == 0);
    }
}

static int64_t number(const tn_node *n) {
  int64_t v = 0;
  assert_true(tn__const_int(n, &v));
  return v;
}

/* Where element i of a padded x stands in x: by pads {before, behind}; below 0 or beyond n: padding. */
static void pads(tn_ctx *c) {
  enum { MOST = 3, N = 4 };
  for (int code = 0; code < MOST * MOST * MOST * MOST; code++) {
    int64_t v[4];
    tn_node *p[2], *q[2];
    for (int k = 0, rest = code; k < 4; k++, rest /= MOST) v[k] = rest % MOST;
    for (int k = 0; k < 2; k++) p[k] = tn__int(c, v[k]), q[k] = tn__int(c, v[2 + k]);
    tn__argval a = {.tail = p, .ntail = 2}, b = {.tail = q, .ntail = 2}, r = tn__argfn_apply(c, AF_PADSUM, &a, &b);
    assert_int_equal(r.ntail, 2);
    int64_t size = N + v[0] + v[1] + v[2] + v[3];
    assert_int_equal(N + number(r.tail[0]) + number(r.tail[1]), size);
    for (int64_t i = 0; i < size; i++) assert_int_equal(i - v[2] - v[0], i - number(r.tail[0]));
    assert_int_equal(tn__argpred(TC_ZEROS, &a, NULL, NULL), v[0] == 0 && v[1] == 0);
  }
}

/* Every part of every part of eight elements: {begin, size}, step. */
static void parts(tn_ctx *c) {
  enum { N = 8, STEPS = 3 };
  for (int64_t b1 = 0; b1 < N; b1++)
    for (int64_t s1 = 1; s1 <= STEPS; s1++)
      for (int64_t n1 = 1; b1 + (n1 - 1) * s1 < N; n1++)
        for (int64_t b2 = 0; b2 < n1; b2++)
          for (int64_t s2 = 1; s2 <= STEPS; s2++)
            for (int64_t n2 = 1; b2 + (n2 - 1) * s2 < n1; n2++) {
              tn_node *p[] = {tn__int(c, b1), tn__int(c, n1)}, *q[] = {tn__int(c, b2), tn__int(c, n2)};
              tn__argval a = {p, 2, &s1, 1}, b = {q, 2, &s2, 1}, r = tn__argfn_apply(c, AF_SHRINKMUL, &a, &b);
              assert_true(r.ntail == 2 && r.nint == 1);
              assert_int_equal(number(r.tail[1]), n2);
              for (int64_t i = 0; i < n2; i++)
                assert_int_equal(number(r.tail[0]) + i * r.ints[0], b1 + (b2 + i * s2) * s1);
            }
}

/* A part of a padded x is x itself if each of its elements is that of x, and they are all. */
static void undoing(tn_ctx *c) {
  enum { N = 3, MOST = 3 };
  tn_node *dim[] = {tn__int(c, N)}, x = {.rank = 1, .dim = dim};
  for (int64_t before = 0; before < MOST; before++)
    for (int64_t behind = 0; behind < MOST; behind++)
      for (int64_t begin = 0; begin < N + before + behind; begin++)
        for (int64_t step = 1; step < MOST; step++)
          for (int64_t size = 1; begin + (size - 1) * step < N + before + behind; size++) {
            tn_node *p[] = {tn__int(c, before), tn__int(c, behind)}, *s[] = {tn__int(c, begin), tn__int(c, size)};
            bool same = size == N;
            for (int64_t i = 0; i < size; i++) same = same && begin + i * step - before == i;
            assert_int_equal(
                tn__argpred(TC_UNDOES, &(tn__argval){s, 2, &step, 1}, &(tn__argval){.tail = p, .ntail = 2}, &x), same);
          }
}

static void all_arguments(tn_ctx *c, void *arg) {
  (void)arg;
  for (uint32_t rank = 1; rank <= RANK; rank++) permutations(c, rank);
  flips(c);
  pads(c);
  parts(c);
  undoing(c);
}

/* ---- sums, as split, split_all and parts take them apart ---- */

static int64_t value(const tn__sum *s, const int64_t *v) {
  int64_t sum = s->k0;
  for (uint32_t i = 0; i < s->n; i++) sum += s->term[i].k * v[s->term[i].t->name[0] - 'a'];
  return sum;
}

static int64_t value_of(tn_node *n, const int64_t *v, tn__sum *s) {
  return assert_true(tn__sum_read(n, s)), value(s, v);
}

static void split(tn_ctx *c, tn__sum *m, int64_t d, bool all) {
  tn_node *q, *r;
  tn__sum qs, rs;
  bool multiple = false;
  for (uint32_t i = 0; i < m->n; i++) multiple |= all ? m->term[i].k / d != 0 : m->term[i].k % d == 0;
  bool some = tn__sum_split_const(c, m, d, all, &q, &r);
  assert_int_equal(some, multiple || m->k0 < 0 || m->k0 >= d); /* unless q is 0 */
  if (!some) return;
  for (int64_t v = 0; v < 16; v++) { /* linear in two unknowns: these points tell all there is */
    const int64_t at[] = {v % 4 - 1, v / 4 - 1};
    assert_int_equal(value_of(q, at, &qs) * d + value_of(r, at, &rs), value(m, at));
  }
  assert_true(rs.k0 >= 0 && rs.k0 < d);
  for (uint32_t i = 0; i < rs.n; i++) assert_true(all ? rs.term[i].k > -d && rs.term[i].k < d : rs.term[i].k % d != 0);
}

static void all_sums(tn_ctx *c, void *arg) {
  (void)arg;
  enum { MOST = 6 };
  tn_node *a = tn__var(c, "a", -9, 9), *b = tn__var(c, "b", -9, 9);
  for (int64_t k = -MOST; k <= MOST; k++)
    for (int64_t l = -MOST; l <= MOST; l++)
      for (int64_t k0 = -MOST; k0 <= MOST; k0++)
        for (int64_t d = 1; d <= MOST; d++)
          for (int all = 0; all < 2; all++) {
            tn__sum m = {.n = 0, .k0 = k0};
            if (k) m.term[m.n].k = k, m.term[m.n++].t = a;
            if (l) m.term[m.n].k = l, m.term[m.n++].t = b;
            split(c, &m, d, all);
          }
  tn_node *q, *r;
  tn__sum m = {.n = 1, .k0 = 5, .term[0] = {4, a}};
  static const int64_t refused[] = {0, -1, -4, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_false(tn__sum_split_const(c, &m, refused[i], false, &q, &r));
  m = (tn__sum){.n = 1, .k0 = INT64_MIN, .term[0] = {4, a}};
  assert_true(tn__sum_split_const(c, &m, 4, false, &q, &r));
  tn__sum qs;
  assert_true(tn__sum_read(q, &qs) && qs.k0 == INT64_MIN / 4 && tn__is_int_const(r, 0));
}

static void arguments(void **state) { (void)state, test_in_ctx(all_arguments, NULL); }
static void sums(void **state) { (void)state, test_in_ctx(all_sums, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(integers), cmocka_unit_test(arguments), cmocka_unit_test(sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
