/* Buffers, their pool, and the table of storages. */
#include "support/ctx.h"
#include "device/device.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const tn__device_ops host_ops = {.name = "host", .alloc = tn__host_alloc, .free = tn__host_free};

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  size_t size;
  tn__buffer *got;
} fixture;

static void open_devices(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  f->d = tn__device_add(&f->c, &host_ops, "host", "for tests", NULL);
}

static int setup(void **state) {
  static fixture f;
  tn_status status;
  memset(&f, 0, sizeof f);
  *state = &f;
  return test_ctx_open(&f.c) && tn__mem_try(&f.c.mem, open_devices, &f, &status) ? 0 : -1;
}

static int teardown(void **state) {
  fixture *f = *state;
  tn__storage_reap(&f->c);
  tn__devices_close(&f->c);
  return test_ctx_close(&f->c) == 0 ? 0 : -1;
}

static void make_buffer(void *arg) {
  fixture *f = arg;
  f->got = tn__buffer_new(f->d, f->size);
}

static tn_status try_buffer(fixture *f, size_t size) {
  tn_status status = TN_OK;
  f->size = size;
  tn_clear_error(&f->c);
  tn__mem_try(&f->c.mem, make_buffer, f, &status);
  return status;
}

static void test_classes(void **state) {
  fixture *f = *state;
  for (size_t size = 0; size < 5000; size++) {
    tn__buffer *b = tn__buffer_new(f->d, size);
    assert_int_equal(b->size, size);
    assert_true(b->cap >= size && b->cap >= 64);
    if (size > 64) assert_true(4 * b->cap <= 5 * size + 4); /* at most a quarter more than asked for */
    assert_int_equal((uintptr_t)b->mem % 64, 0);
    memset(b->mem, 0xa5, b->cap);
    assert_int_equal(f->c.stats.buffer_bytes, b->cap);
    tn__buffer_drop(b);
    assert_int_equal(f->c.stats.buffer_bytes, 0);
  }
  static const struct {
    size_t size, cap;
  } exact[] = {{64, 64},   {65, 80},   {80, 80},   {81, 96},           {112, 112},
               {113, 128}, {128, 128}, {129, 160}, {1 << 20, 1 << 20}, {(1 << 20) + 1, 5 << 18}};
  for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
    tn__buffer *b = tn__buffer_new(f->d, exact[i].size);
    assert_int_equal(b->cap, exact[i].cap);
    tn__buffer_drop(b);
  }
}

static void test_reuse(void **state) {
  fixture *f = *state;
  tn__buffer *a = tn__buffer_new(f->d, 1000);
  void *mem = a->mem;
  int64_t before = f->c.mem.count;
  tn__buffer_keep(a);
  tn__buffer_drop(a);
  assert_int_equal(f->c.stats.pool_bytes, 0);
  tn__buffer_drop(a);
  assert_int_equal(f->c.stats.pool_bytes, 1024);
  tn__buffer *b = tn__buffer_new(f->d, 1010); /* same class */
  assert_ptr_equal(b->mem, mem);
  assert_int_equal(b->size, 1010);
  assert_int_equal(f->c.mem.count, before); /* nothing was allocated */
  assert_int_equal(f->c.stats.pool_bytes, 0);
  tn__buffer *other = tn__buffer_new(f->d, 2000);
  assert_ptr_not_equal(other->mem, mem);
  tn__buffer_drop(b);
  tn__buffer_drop(other);
}

static void test_out_of_memory(void **state) {
  fixture *f = *state;
  tn__buffer *a = tn__buffer_new(f->d, 1 << 16);
  tn__buffer_drop(tn__buffer_new(f->d, 1 << 18));
  f->c.mem.limit = f->c.mem.live + (1 << 17);
  assert_int_equal(try_buffer(f, 1 << 18), TN_OK); /* from the pool */
  tn__buffer_drop(f->got);
  assert_int_equal(try_buffer(f, 5 << 16), TN_OK); /* fits once the pool is flushed */
  assert_int_equal(f->c.stats.pool_bytes, 0);
  tn__buffer_drop(f->got);
  assert_int_equal(try_buffer(f, 1 << 20), TN_ENOMEM);
  const char *text = tn_last_error(&f->c)->text;
  assert_non_null(strstr(text, "1048576"));
  assert_non_null(strstr(text, "65536 bytes in use"));
  assert_non_null(strstr(text, "327680 were pooled"));
  assert_int_equal(f->c.stats.pool_bytes, 0);
  assert_int_equal(try_buffer(f, SIZE_MAX), TN_ENOMEM);
  f->c.mem.limit = 0;
  tn__buffer_drop(a);
}

static void test_injected_failure(void **state) {
  fixture *f = *state;
  for (int n = 1; n <= 2; n++) { /* the description and the block */
    f->c.mem.fail_at = f->c.mem.count + n;
    assert_int_equal(try_buffer(f, 4096), TN_ENOMEM);
    f->c.mem.fail_at = 0;
    assert_int_equal(f->c.stats.buffer_bytes, 0);
  }
  assert_int_equal(try_buffer(f, 4096), TN_OK);
  tn__buffer_drop(f->got);
}

static void test_storages(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  enum { N = 200 };
  tn_node *node[N];
  for (int i = 0; i < N; i++) {
    int64_t id = tn__storage_new(c, tn__buffer_new(f->d, 64));
    assert_int_equal(id, i);
    node[i] = tn__node_keep(tn__storage(c, TN_F32, id, f->d->index, NULL, 0));
  }
  tn__buffer *seventh = tn__storage_buffer(c, node[7]);
  assert_ptr_not_equal(seventh, tn__storage_buffer(c, node[8]));
  tn__node_drop(c, node[7]);
  tn__node_drop(c, node[100]);
  tn__intern_sweep(c, 0);
  tn__storage_reap(c);
  assert_int_equal(c->stats.buffer_bytes, (N - 2) * 64);
  int64_t x = tn__storage_new(c, tn__buffer_new(f->d, 64)), y = tn__storage_new(c, tn__buffer_new(f->d, 64));
  assert_int_equal(x + y, 107); /* the two ids are used again */
  assert_int_equal(tn__storage_new(c, tn__buffer_new(f->d, 64)), N);
  for (int i = 0; i < N; i++)
    if (i != 7 && i != 100) tn__node_drop(c, node[i]);
  tn__intern_sweep(c, 0);
}

static void test_devices(void **state) {
  fixture *f = *state;
  assert_int_equal(tn__device_count(&f->c), 1);
  assert_int_equal(tn__device_find(&f->c, "host"), 0);
  assert_int_equal(tn__device_find(&f->c, "hos"), -1);
  assert_ptr_equal(tn__device_get(&f->c, 0), f->d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_reuse, setup, teardown),
      cmocka_unit_test_setup_teardown(test_out_of_memory, setup, teardown),
      cmocka_unit_test_setup_teardown(test_injected_failure, setup, teardown),
      cmocka_unit_test_setup_teardown(test_storages, setup, teardown),
      cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
