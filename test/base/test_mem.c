/* Accounting, injected failure, unwinding; arenas, vectors and the string builder on top. */
#include "base/poison.h"
#include "base/sb.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the above first */
#include <cmocka.h>

typedef struct call {
  tn__mem *mem;
  tn__arena *arena;
  void *block;
  size_t size;
  tn_status status;
  int reached;
} call;

static void do_alloc(void *arg) {
  call *c = arg;
  c->block = tn__mem_alloc(c->mem, c->size);
}

static void do_realloc(void *arg) {
  call *c = arg;
  c->block = tn__mem_realloc(c->mem, c->block, c->size);
}

static void do_throw(void *arg) {
  call *c = arg;
  c->reached = 1;
  tn__mem_throw(c->mem, c->status);
}

static void accounting(void **state) {
  (void)state;
  tn__mem m = {0};
  char *p = tn__mem_alloc(&m, 100);
  assert_int_equal((uintptr_t)p % 16, 0);
  memset(p, 7, 100);
  size_t one = m.live;
  assert_true(one >= 100);
  char *z = tn__mem_zalloc(&m, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(z[i], 0);
  size_t peak = m.live;
  p = tn__mem_realloc(&m, p, 200);
  for (int i = 0; i < 100; i++) assert_int_equal(p[i], 7);
  assert_int_equal(m.live, peak + 100);
  tn__mem_free(&m, z);
  tn__mem_free(&m, NULL);
  p = tn__mem_realloc(&m, p, 100);
  assert_int_equal(m.live, one);
  assert_int_equal(m.peak, peak + 100);
  tn__mem_free(&m, p);
  assert_int_equal(m.live, 0);
  assert_int_equal(m.count, 4);
}

static void injected_failure(void **state) {
  (void)state;
  tn__mem m = {.fail_at = 3};
  void *a = tn__mem_try_alloc(&m, 8), *b = tn__mem_try_alloc(&m, 8);
  assert_non_null(a);
  assert_non_null(b);
  assert_null(tn__mem_try_alloc(&m, 8)); /* the third */
  assert_null(tn__mem_try_alloc(&m, 8)); /* and all after it */
  call c = {.mem = &m, .size = 8};
  tn_status s;
  assert_false(tn__mem_try(&m, do_alloc, &c, &s));
  assert_int_equal(s, TN_ENOMEM);
  assert_null(m.top);
  tn__mem_free(&m, a);
  tn__mem_free(&m, b);
  assert_int_equal(m.live, 0);
}

static void limits(void **state) {
  (void)state;
  tn__mem m = {.limit = 1000};
  void *a = tn__mem_try_alloc(&m, 1000 - 16); /* exactly up to the limit */
  assert_non_null(a);
  assert_null(tn__mem_try_alloc(&m, 1));
  call c = {.mem = &m, .block = a, .size = 1000};
  tn_status s;
  assert_false(tn__mem_try(&m, do_realloc, &c, &s));
  assert_int_equal(s, TN_ENOMEM);
  assert_ptr_equal(c.block, a);
  memset(a, 1, 1000 - 16); /* untouched by the failed realloc */
  a = tn__mem_realloc(&m, a, 10);
  void *b = tn__mem_alloc(&m, 900);
  m.limit = 500; /* less than is held already */
  assert_null(tn__mem_try_alloc(&m, 1));
  tn__mem_free(&m, a);
  tn__mem_free(&m, b);
  m.limit = 0;
  const size_t absurd[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, (size_t)PTRDIFF_MAX, (size_t)PTRDIFF_MAX - 15};
  for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) assert_null(tn__mem_try_alloc(&m, absurd[i]));
  assert_int_equal(m.live, 0);
}

static void nest(void *arg) {
  call *outer = arg;
  call inner = {.mem = outer->mem, .status = TN_EIO};
  tn_status s;
  assert_false(tn__mem_try(outer->mem, do_throw, &inner, &s));
  assert_int_equal(s, TN_EIO);
  outer->reached = inner.reached;
  tn__mem_throw(outer->mem, TN_ESHAPE);
}

static void unwinding(void **state) {
  (void)state;
  tn__mem m = {0};
  call c = {.mem = &m};
  tn_status s;
  assert_false(tn__mem_try(&m, nest, &c, &s));
  assert_int_equal(s, TN_ESHAPE);
  assert_int_equal(c.reached, 1);
  c.size = 8;
  assert_true(tn__mem_try(&m, do_alloc, &c, &s));
  assert_int_equal(s, TN_OK);
  assert_null(m.top);
  tn__mem_free(&m, c.block);
}

static void arena_blocks_are_disjoint(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  enum { N = 400 };
  unsigned char *block[N];
  size_t size[N];
  for (int round = 0; round < 3; round++) {
    for (size_t i = 0; i < N; i++) { /* sizes from 0 to beyond a chunk, mixed */
      size[i] = i % 50 == 49 ? (size_t)300000 + i : (i * 37) % 3000;
      block[i] = tn__arena_alloc(&a, size[i]);
      assert_non_null(block[i]);
      assert_int_equal((uintptr_t)block[i] % 16, 0);
      memset(block[i], (int)(i & 255), size[i]);
    }
    for (size_t i = 0; i < N; i++)
      for (size_t k = 0; k < size[i]; k++) assert_int_equal(block[i][k], i & 255);
    tn__arena_reset(&a);
    assert_true(m.live <= 8192); /* the first chunk */
    assert_true(m.live > 0);
  }
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
  assert_string_equal(tn__arena_strdup(&a, "again"), "again"); /* usable after free */
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

static void arena_chunks_grow(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  for (int i = 0; i < 1 << 17; i++) tn__arena_alloc(&a, 64); /* 8 MiB */
  assert_true(m.count < 24);
  assert_true(m.live < (size_t)(TN__POISONED ? 13 : 10) << 20); /* there blocks stand apart */
  tn__arena_reset(&a);
  void *huge = tn__arena_alloc(&a, (size_t)5 << 20); /* its own chunk: the first one goes on being filled */
  int64_t before = m.count;
  memset(huge, 1, (size_t)5 << 20);
  tn__arena_alloc(&a, 64);
  assert_int_equal(m.count, before);
  tn__arena_free(&a);
  tn__arena_alloc(&a, (size_t)5 << 20);
  tn__arena_reset(&a); /* a huge first chunk is not kept */
  assert_int_equal(m.live, 0);
  tn__arena_free(&a);
}

static void do_absurd(void *arg) {
  call *c = arg;
  tn__arena_alloc(c->arena, c->size);
}

static void arena_refuses_absurd_sizes(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  for (size_t back = 0; back < 64; back++) {
    call c = {.mem = &m, .arena = &a, .size = SIZE_MAX - back};
    tn_status s;
    assert_false(tn__mem_try(&m, do_absurd, &c, &s));
    assert_int_equal(s, TN_ENOMEM);
  }
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

/* What came after the mark goes, large requests too, which are linked behind the newest chunk; what was there stays. */
static void arena_rewinds(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  for (int round = 0; round < 3; round++) { /* empty; with chunks; behind a large request */
    tn__mark mark = tn__arena_mark(&a);
    size_t live = m.live;
    char *here = tn__arena_alloc(&a, 40);
    for (size_t size = 16; size < 1 << 21; size *= 2) memset(tn__arena_alloc(&a, size), 0xff, size);
    tn__arena_rewind(&a, mark);
    assert_int_equal(m.live, live);
    assert_ptr_equal(a.at, mark.at);
    if (round) assert_ptr_equal(tn__arena_alloc(&a, 40), here); /* the same memory again */
    char *kept = memset(tn__arena_alloc(&a, 100), round, 100);
    if (round == 1) memset(tn__arena_alloc(&a, 1 << 20), 5, 1 << 20);
    tn__mark inner = tn__arena_mark(&a);
    for (int i = 0; i < 2000; i++) memset(tn__arena_alloc(&a, 300), 0xff, 300);
    tn__arena_rewind(&a, inner);
    for (int i = 0; i < 100; i++) assert_int_equal(kept[i], round);
  }
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

static void vectors(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  tn__vec(int) v = {0};
  for (int i = 0; i < 100000; i++) tn__vec_push(&a, &v, i * 3);
  assert_int_equal(v.n, 100000);
  for (int i = 0; i < 100000; i++) assert_int_equal(v.v[i], i * 3);
  tn__arena_free(&a);
}

static void strings(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  tn__sb b;
  tn__sb_init(&b, &a);
  assert_string_equal(tn__sb_str(&b), "");
  tn__sb_puts(&b, "");
  assert_string_equal(tn__sb_str(&b), "");
  tn__sb_putc(&b, 'x');
  tn__sb_putn(&b, "yzzz", 2);
  tn__sb_printf(&b, "%d %s", -5, "end");
  assert_string_equal(tn__sb_str(&b), "xyz-5 end");
  assert_int_equal(b.n, 9);
  for (size_t width = 0; width < 300; width++) { /* every distance to the end of the buffer */
    tn__sb_init(&b, &a);
    tn__sb_printf(&b, "%*s|", (int)width, "");
    tn__sb_printf(&b, "%0*d", 200, 7);
    assert_int_equal(b.n, width + 201);
    assert_int_equal(strlen(tn__sb_str(&b)), b.n);
    assert_int_equal(b.s[width], '|');
  }
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accounting),
      cmocka_unit_test(injected_failure),
      cmocka_unit_test(limits),
      cmocka_unit_test(unwinding),
      cmocka_unit_test(arena_blocks_are_disjoint),
      cmocka_unit_test(arena_chunks_grow),
      cmocka_unit_test(arena_refuses_absurd_sizes),
      cmocka_unit_test(arena_rewinds),
      cmocka_unit_test(vectors),
      cmocka_unit_test(strings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
