/* The worker pool: every slice exactly once, everything it wrote visible afterwards, whatever the workers are doing. */
#include "base/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
/* cmocka wants the above first */
#include <cmocka.h>

enum { SLICES = 70000 };

/* Deliberately not atomic: the pool alone orders these accesses, and the thread sanitizer checks that it does. */
typedef struct job {
  tn__pool *pool;
  int64_t first;
  int runs[SLICES];
  int bad_thread;
} job;

static void count(void *arg, int64_t slice, int thread) {
  job *j = arg;
  j->runs[slice - j->first]++;
  if (thread < 0 || thread >= tn__pool_threads(j->pool)) j->bad_thread = 1;
}

static void check_counts(job *j, int64_t slices) {
  for (int64_t s = 0; s < SLICES; s++) assert_int_equal(j->runs[s], s < slices);
  assert_int_equal(j->bad_thread, 0);
}

static void every_slice_once(void **state) {
  (void)state;
  tn__mem m = {0};
  static job j;
  for (int threads = 1; threads <= 5; threads++) {
    tn__pool *p = tn__pool_open(&m, threads);
    assert_int_equal(tn__pool_threads(p), threads);
    const int64_t slices[] = {0, 1, 2, 3, 7, 64, SLICES - 1, SLICES};
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
      j = (job){.pool = p};
      tn__pool_run(p, count, &j, slices[i]);
      check_counts(&j, slices[i]);
    }
    tn__pool_close(p);
  }
  tn__pool_close(NULL);
  assert_int_equal(m.live, 0);
}

static void bump(void *arg, int64_t slice, int thread) {
  (void)thread;
  ((int *)arg)[slice]++;
}

/* Many small regions back to back, over few slices, then with pauses in which workers fall asleep at all moments. */
static void many_regions(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, 3);
  int64_t before = m.count;
  int runs[8] = {0}, expected[8] = {0};
  for (int i = 0; i < 20000; i++) {
    int slices = i % 9;
    for (int s = 0; s < slices; s++) expected[s]++;
    tn__pool_run(p, bump, runs, slices);
    if (i % 100 == 0) assert_memory_equal(runs, expected, sizeof runs);
    if (i % 50 == 0) usleep((useconds_t)(i / 50 % 120));
  }
  assert_memory_equal(runs, expected, sizeof runs);
  assert_int_equal(m.count, before); /* allocates nothing */
  tn__pool_close(p);
}

static void doze(void *arg, int64_t slice, int thread) {
  (void)thread;
  usleep(slice == 0 ? 3000 : 200);
  ((int *)arg)[slice]++;
}

/* A slice that outlasts the caller's spinning: it must be woken. */
static void slow_slices(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, 2);
  int runs[4] = {0};
  for (int i = 0; i < 20; i++) tn__pool_run(p, doze, runs, 4);
  for (int s = 0; s < 4; s++) assert_int_equal(runs[s], 20);
  tn__pool_close(p);
}

/* A worker really does take part: while the caller sits in slice 0, somebody else runs slice 1. */
static void note_thread(void *arg, int64_t slice, int thread) {
  ((int *)arg)[slice] = thread;
  usleep(20000);
}

static void slices_run_side_by_side(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, 2);
  int thread[2] = {-1, -1};
  for (int i = 0; i < 10; i++) {
    usleep(1000); /* asleep, so that the wake-up is tested */
    tn__pool_run(p, note_thread, thread, 2);
    assert_int_equal(thread[0] + thread[1], 1);
  }
  tn__pool_close(p);
}

/* Each thread begins with its own share: nobody goes on before all have begun. */
typedef struct begun {
  _Atomic int n;
  int thread[6], order[6];
} begun;

static void wait_for_all(void *arg, int64_t slice, int thread) {
  begun *b = arg;
  b->thread[slice] = thread;
  b->order[slice] = atomic_fetch_add(&b->n, 1);
  while (atomic_load(&b->n) < 3) usleep(100);
}

static void own_shares_first(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, 3);
  for (int i = 0; i < 20; i++) {
    begun b = {0};
    tn__pool_run(p, wait_for_all, &b, 6);
    for (int t = 0; t < 3; t++) {
      assert_int_equal(b.thread[2 * t], t);
      assert_in_range(b.order[2 * t], 0, 2);
    }
    if (i % 2) usleep(1000); /* asleep */
  }
  tn__pool_close(p);
}

static void sum_in_slice_order(void *arg, int64_t slice, int thread) {
  (void)thread;
  int64_t *v = arg;
  v[slice] = slice * slice;
}

static void two_pools(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, 2), *q = tn__pool_open(&m, 3);
  int64_t a[100], b[100];
  for (int i = 0; i < 500; i++) {
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    tn__pool_run(p, sum_in_slice_order, a, 100);
    tn__pool_run(q, sum_in_slice_order, b, 100);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(a[99], 99 * 99);
  }
  tn__pool_close(p);
  tn__pool_close(q);
  assert_int_equal(m.live, 0);
}

static void opens_and_closes(void **state) {
  (void)state;
  tn__mem m = {0};
  for (int i = 0; i < 200; i++) {
    tn__pool *p = tn__pool_open(&m, 4);
    int runs[4] = {0};
    if (i % 2) tn__pool_run(p, bump, runs, 4);
    for (int s = 0; s < 4; s++) assert_int_equal(runs[s], i % 2);
    tn__pool_close(p);
  }
  assert_int_equal(m.live, 0);
  assert_true(tn__pool_cores() >= 1);
}

static void nothing(void *arg, int64_t slice, int thread) {
  (void)arg;
  (void)slice;
  (void)thread;
}

/* Printed for the curious; the limit only catches a wake-up in every region. */
static void empty_region_is_cheap(void **state) {
  (void)state;
  tn__mem m = {0};
  tn__pool *p = tn__pool_open(&m, tn__pool_cores() >= 2 ? 2 : 1);
  enum { N = 20000 };
  double best = 1e9;
  for (int round = 0; round < 20; round++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < N / 20; i++) tn__pool_run(p, nothing, NULL, 2);
    clock_gettime(CLOCK_MONOTONIC, &b);
    double us = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (N / 20) / 1e3;
    if (us < best) best = us;
  }
  print_message("empty region of 2 slices: %.2f us\n", best);
  assert_true(best < 50);
  tn__pool_close(p);
}

static void run_all(tn__pool *p) {
  static job j;
  j = (job){.pool = p};
  tn__pool_run(p, count, &j, SLICES);
  check_counts(&j, SLICES);
}

/* A child has the pool, but none of its threads: it works by its own, and closing does not wait for them. */
static void forked(void **state) {
  (void)state;
  tn__pool *p = tn__pool_open(&(tn__mem){0}, 3);
  for (int i = 0; i < 100; i++) { /* its threads at work, about to sleep, asleep */
    run_all(p);
    fflush(NULL);
    nanosleep(&(struct timespec){.tv_nsec = i % 10 * 10000}, NULL);
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      run_all(p);
      tn__pool_close(p);
      _exit(0);
    }
    int result = 1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
  }
  tn__pool_close(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_slice_once),        cmocka_unit_test(many_regions), cmocka_unit_test(slow_slices),
      cmocka_unit_test(slices_run_side_by_side), cmocka_unit_test(own_shares_first), cmocka_unit_test(two_pools),
      cmocka_unit_test(opens_and_closes),        cmocka_unit_test(empty_region_is_cheap), cmocka_unit_test(forked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
