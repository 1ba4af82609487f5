/* The hash map against a plain array, and the quality of the hash as far as the map and the cache rely on it. */
#include "base/mem.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the above first */
#include <cmocka.h>

static tn__mem mem;
static tn__arena arena;

static int open_arena(void **state) {
  (void)state;
  mem = (tn__mem){0};
  tn__arena_init(&arena, &mem);
  return 0;
}

static int close_arena(void **state) {
  (void)state;
  tn__arena_free(&arena);
  return mem.live == 0 ? 0 : -1;
}

static void edges(void **state) {
  (void)state;
  tn__map m;
  tn__map_init(&m, &arena);
  uint64_t val = 99;
  assert_false(tn__map_get(&m, 0, &val));
  assert_null(tn__map_getp(&m, NULL));
  tn__map_clear(&m);
  const uint64_t key[] = {0, 1, UINT64_MAX, (uint64_t)1 << 63, (uint64_t)1 << 32};
  for (size_t i = 0; i < 5; i++) tn__map_put(&m, key[i], ~key[i]);
  assert_int_equal(m.n, 5);
  for (size_t i = 0; i < 5; i++) {
    assert_true(tn__map_get(&m, key[i], &val));
    assert_true(val == ~key[i]);
  }
  assert_true(tn__map_get(&m, 0, NULL));
  val = 99;
  for (uint64_t k = 100; k < 200; k++) assert_false(tn__map_get(&m, k, &val));
  assert_int_equal(val, 99); /* untouched where there is nothing */
  tn__map_put(&m, 0, 5);     /* replaces */
  assert_int_equal(m.n, 5);
  assert_true(tn__map_get(&m, 0, &val) && val == 5);
  tn__map_clear(&m);
  assert_int_equal(m.n, 0);
  for (size_t i = 0; i < 5; i++) assert_false(tn__map_get(&m, key[i], NULL));
  int x;
  tn__map_putp(&m, &x, &val);
  assert_ptr_equal(tn__map_getp(&m, &x), &val);
  assert_null(tn__map_getp(&m, &val));
}

/* What is added is there, and what is there is left alone. */
static void added(void **state) {
  (void)state;
  tn__map m;
  uint64_t val;
  tn__map_init(&m, &arena);
  for (uint64_t k = 0; k < 3000; k++) assert_true(tn__map_add(&m, k << 32, k + 7));
  for (uint64_t k = 0; k < 3000; k++) assert_false(tn__map_add(&m, k << 32, 1));
  for (uint64_t k = 0; k < 3000; k++) assert_true(tn__map_get(&m, k << 32, &val) && val == k + 7);
  assert_int_equal(m.n, 3000);
}

/* Room that was asked for is enough, and asking for less, or for what there is, changes nothing. */
static void reserved(void **state) {
  (void)state;
  tn__map m;
  tn__map_init(&m, &arena);
  tn__map_reserve(&m, 5000);
  const tn__entry *entry = m.entry;
  for (uint64_t k = 1; k <= 5000; k++) tn__map_put(&m, k, ~k);
  tn__map_reserve(&m, 1);
  tn__map_reserve(&m, 5000);
  assert_ptr_equal(m.entry, entry);
  for (uint64_t k = 1; k <= 5000; k++) assert_true(tn__map_get(&m, k, NULL));
}

/* Patterned keys: consecutive, multiples of powers of two (as pointers are), and few high bits. */
static void against_an_array(void **state) {
  (void)state;
  enum { N = 20000 };
  static uint64_t expected[N];
  for (int shift = 0; shift < 50; shift += 7) {
    tn__map m;
    tn__map_init(&m, &arena);
    memset(expected, 0, sizeof expected);
    uint64_t random = 12345;
    for (int i = 0; i < 3 * N; i++) {
      random = tn__hash_mix(random, (uint64_t)i);
      uint64_t k = random % N, v = (random >> 20) | 1;
      tn__map_put(&m, k << shift, v);
      expected[k] = v;
    }
    uint32_t present = 0;
    for (uint64_t k = 0; k < N; k++) {
      uint64_t v = 0;
      assert_int_equal(tn__map_get(&m, k << shift, &v), expected[k] != 0);
      assert_true(v == expected[k]);
      present += expected[k] != 0;
    }
    assert_int_equal(m.n, present);
    assert_true(m.n <= m.cap / 4 * 3);
    tn__arena_reset(&arena);
  }
}

static void put_one(void *arg) {
  tn__map *m = arg;
  tn__map_put(m, 1000, 1);
}

static void failed_growth_loses_nothing(void **state) {
  (void)state;
  tn__map m;
  tn__map_init(&m, &arena);
  while (m.n < 384) tn__map_put(&m, m.n, m.n + 1); /* 384 of 512: the next one grows the table, over the chunk's end */
  mem.fail_at = mem.count + 1;
  tn_status s;
  assert_false(tn__mem_try(&mem, put_one, &m, &s));
  assert_int_equal(m.n, 384);
  uint64_t v;
  for (uint64_t k = 0; k < 384; k++) assert_true(tn__map_get(&m, k, &v) && v == k + 1);
  assert_false(tn__map_get(&m, 1000, &v));
  mem.fail_at = 0;
  assert_true(tn__mem_try(&mem, put_one, &m, &s));
  assert_true(tn__map_get(&m, 1000, &v) && v == 1);
}

/* Flipping any input bit flips each output bit about half of the time. */
static void assert_avalanche(const uint64_t flips[64], uint64_t trials) {
  for (int bit = 0; bit < 64; bit++) assert_in_range(flips[bit], trials * 2 / 5, trials * 3 / 5);
}

static void avalanche(void **state) {
  (void)state;
  uint64_t of_bytes[64] = {0}, of_mix[64] = {0}, trials = 0;
  for (uint64_t start = 0; start < 40; start++) {
    unsigned char text[24];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (unsigned char)(start * 7 + i);
    uint64_t h = tn__hash_bytes(text, sizeof text, start), g = tn__hash_mix(start, 3);
    for (unsigned bit = 0; bit < 64; bit++, trials++) {
      unsigned at = (bit * 3) % 192;
      text[at / 8] ^= (unsigned char)(1u << at % 8);
      uint64_t d = h ^ tn__hash_bytes(text, sizeof text, start), e = g ^ tn__hash_mix(start ^ (uint64_t)1 << bit, 3);
      text[at / 8] ^= (unsigned char)(1u << at % 8);
      for (int k = 0; k < 64; k++) {
        of_bytes[k] += d >> k & 1;
        of_mix[k] += e >> k & 1;
      }
    }
  }
  assert_avalanche(of_bytes, trials);
  assert_avalanche(of_mix, trials);
}

static void length_order_and_seed_count(void **state) {
  (void)state;
  static const char zeros[64];
  for (size_t a = 0; a < 64; a++) {
    assert_true(tn__hash_bytes(zeros, a, 0) != tn__hash_bytes(zeros, a, 1));
    for (size_t b = 0; b < a; b++) assert_true(tn__hash_bytes(zeros, a, 0) != tn__hash_bytes(zeros, b, 0));
  }
  assert_true(tn__hash_mix(1, 2) != tn__hash_mix(2, 1));
  char copy[16] = "0123456789abcde"; /* unaligned reads */
  assert_true(tn__hash_bytes("123456789abcde", 14, 5) == tn__hash_bytes(copy + 1, 14, 5));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(edges, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(added, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(reserved, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(against_an_array, open_arena, close_arena),
      cmocka_unit_test_setup_teardown(failed_growth_loses_nothing, open_arena, close_arena),
      cmocka_unit_test(avalanche),
      cmocka_unit_test(length_order_and_seed_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
