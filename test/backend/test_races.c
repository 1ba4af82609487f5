/* Races that the interpreter finds while it runs: hand-built kernels, each with one, and the same without it.  Every
 * one is run with several seeds: what is a race does not hang on the order. */
#include "backend/ref/ref.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/linear.h"

enum { N = 6, SEEDS = 5, ROOM = 256 };

typedef struct made { /* what a kernel is built over */
  lin *l;
  tn_node *buf, *local, *zero, *one;
} made;

static tn_node *number(const made *m, int64_t v) { return tn__int(m->l->c, v); }
static tn_node *global(const made *m) { return lin_range(m->l, number(m, N), AX_GLOBAL, 0); }
static tn_node *lanes(const made *m, int64_t at) { return lin_range(m->l, number(m, N), AX_UPCAST, at); }
static void put(const made *m, tn_node *to, tn_node *at) { lin_store(m->l, OP_STORE, to, at, m->one, NULL); }
static tn_node *other(const made *m, tn_node *lane) { /* the one across */
  tn_node *minus = lin_op1(m->l, OP_NEG, lane);
  return lin_op2(m->l, OP_ADD, minus, number(m, N - 1));
}

/* turns of the outermost loop: own places, one place, a place of the neighbour's, and outside of the loop */
static void own_places(const made *m) {
  tn_node *g = global(m);
  put(m, m->buf, g);
  lin_load(m->l, m->buf, g, NULL);
  lin_end(m->l, g);
}
static void one_place(const made *m) {
  tn_node *g = global(m);
  put(m, m->buf, m->zero);
  lin_end(m->l, g);
}
static void one_sum(const made *m) {
  tn_node *g = global(m);
  lin_store(m->l, OP_STOREADD, m->buf, m->zero, m->one, NULL);
  lin_end(m->l, g);
}
static void neighbours_place(const made *m) {
  tn_node *g = global(m);
  lin_load(m->l, m->buf, lin_op2(m->l, OP_ADD, g, number(m, 1)), NULL);
  put(m, m->buf, g);
  lin_end(m->l, g);
}
static void outside(const made *m) {
  put(m, m->buf, m->zero);
  lin_end(m->l, global(m));
}

/* lanes, or threads of a group, over a buffer */
static void own_lanes(const made *m) {
  tn_node *l = lanes(m, 1);
  lin_store(m->l, OP_STOREADD, m->buf, l, m->one, NULL);
  lin_end(m->l, l);
}
static void lanes_in_a_row(const made *m) {
  tn_node *l = lanes(m, 1);
  put(m, m->buf, l);
  lin_end(m->l, l);
  tn_node *k = lanes(m, 2);
  lin_load(m->l, m->buf, other(m, k), NULL);
  lin_end(m->l, k);
}
static void sum_of_lanes(const made *m) {
  tn_node *l = lanes(m, 1);
  lin_store(m->l, OP_STOREADD, m->buf, m->zero, m->one, NULL);
  lin_end(m->l, l);
}
static void dependent_lanes(const made *m) {
  tn_node *l = lanes(m, 1);
  tn_node *x = lin_load(m->l, m->buf, l, NULL);
  lin_store(m->l, OP_STORE, m->buf, lin_op2(m->l, OP_ADD, l, number(m, 1)), x, NULL);
  lin_end(m->l, l);
}
static void ordered_sum(const made *m) {
  tn_node *i = lin_range(m->l, number(m, N), AX_ORDER, 1);
  lin_store(m->l, OP_STOREADD, m->buf, m->zero, m->one, NULL);
  lin_end(m->l, i);
}

/* threads over shared memory */
static void exchange(const made *m, bool barrier, bool twice) {
  tn_node *g = global(m), *l = lanes(m, 1);
  put(m, m->local, l);
  lin_end(m->l, l);
  if (barrier) lin_barrier(m->l, 0);
  tn_node *k = lanes(m, 2);
  lin_load(m->l, m->local, other(m, k), NULL);
  lin_end(m->l, k);
  if (twice) lin_barrier(m->l, 1); /* before the next turn stores again */
  lin_end(m->l, g);
}
static void with_barriers(const made *m) { exchange(m, true, true); }
static void without_barrier(const made *m) { exchange(m, false, true); }
static void without_the_second(const made *m) { exchange(m, true, false); }
static void buffer_and_barrier(const made *m) {
  tn_node *l = lanes(m, 1);
  put(m, m->buf, l);
  lin_end(m->l, l);
  lin_barrier(m->l, 0);
  tn_node *k = lanes(m, 2);
  lin_load(m->l, m->buf, other(m, k), NULL);
  lin_end(m->l, k);
}
static void own_elements(const made *m) {
  tn_node *l = lanes(m, 1);
  put(m, m->local, l);
  lin_end(m->l, l);
}
static void anothers_element(const made *m) {
  tn_node *l = lanes(m, 1);
  put(m, m->local, other(m, l));
  lin_end(m->l, l);
}


/* 64 threads count, by those of 32 that run in step, at one place of each such, or all at the same. */
static void steps_count(const made *m, int64_t by) {
  tn_node *l = lanes(m, 1);
  put(m, m->local, l);
  lin_end(m->l, l);
  lin_barrier(m->l, 0);
  tn_node *k = lin_range(m->l, number(m, 64), AX_UPCAST, 2), *at = lin_op2(m->l, OP_IDIV, k, number(m, by));
  lin_store(m->l, OP_STOREADD, m->local, at, m->one, NULL);
  lin_store(m->l, OP_STORE, m->buf, k, lin_load(m->l, m->local, at, NULL), NULL);
  lin_end(m->l, k);
}
static void each_step_counts(const made *m) { steps_count(m, 32); }
static void steps_count_together(const made *m) { steps_count(m, 64); }

static const struct planted {
  const char *name;
  void (*build)(const made *);
  int group;
  int64_t threads; /* of the LOCAL */
  const char *want[3]; /* in the message; none: it runs */
} all[] = {
    {"own_places", own_places, 0, 0, {NULL}},
    {"one_place", one_place, 0, 0, {"race for f32 b0[0]", "a store by iteration", ", and instruction"}},
    {"one_sum", one_sum, 0, 0, {"race for f32 b0[0]", "an addition by iteration", ", and instruction"}},
    {"neighbours_place", neighbours_place, 0, 0, {"race for f32 b0[", "a load by iteration", "a store by iteration"}},
    {"outside", outside, 0, 0, {"race for f32 b0[0]", "a store", NULL}},
    {"own_lanes", own_lanes, 0, 0, {NULL}},
    {"lanes_in_a_row", lanes_in_a_row, 0, 0, {NULL}},
    {"sum_of_lanes", sum_of_lanes, 0, 0, {"race for f32 b0[0]", "an addition by lane", ", and instruction"}},
    {"dependent_lanes", dependent_lanes, 0, 0, {"race for f32 b0[", "a load by lane", "a store by lane"}},
    {"ordered_sum", ordered_sum, 0, 0, {NULL}},
    {"groups_place", one_place, N, 0, {"race for f32 b0[0]", "a store by group", ", thread 0"}},
    {"threads_sum", sum_of_lanes, N, 0, {"race for f32 b0[0]", "an addition by thread", ", and instruction"}},
    {"ordered_sum", ordered_sum, N, 0, {NULL}},
    {"own_lanes", own_lanes, N, 0, {NULL}},
    {"with_barriers", with_barriers, N, 0, {NULL}},
    {"without_barrier", without_barrier, N, 0, {"race for f32 local0[", "a store by group", "a load by group"}},
    {"without_the_second", without_the_second, N, 0, {"race for f32 local0[", "a load by group", "a store by group"}},
    {"buffer_and_barrier", buffer_and_barrier, N, 0, {"race for f32 b0[", "a store by thread", "a load by thread"}},
    {"own_elements", own_elements, N, N, {NULL}},
    {"each_step_counts", each_step_counts, 64, TN__OWN_IN_STEP, {NULL}},
    {"steps_count_together", steps_count_together, 64, TN__OWN_IN_STEP,
     {"race for f32 local0[0]", "thread 0", "thread 1"}},
    {"anothers_element", anothers_element, N, N, {"race for f32 local0[", "a store by thread", "is thread"}},
};

typedef struct job {
  tn_ctx c;
  const struct planted *p;
  tn__code *code;
} job;

static void open_ref(void *arg) {
  job *j = arg;
  tn__devices_open(&j->c);
  tn__ref_open(&j->c, "ref");
}

static void make(void *arg) {
  job *j = arg;
  tn__device *d = tn__device_get(&j->c, 0);
  made m = {.l = lin_new(&j->c, j->p->name), .zero = tn__int(&j->c, 0)};
  m.one = tn__const_num(&j->c, TN_F32, 1);
  m.buf = lin_buf(m.l, TN_F32, true);
  if (j->p->group) m.local = lin_local_of(m.l, TN_F32, N, j->p->threads);
  m.l->k.part[0].group = j->p->group;
  j->p->build(&m);
  j->code = d->ops->compile(d, (tn__kernel *[]){&m.l->k}, 1);
}

static void try(const struct planted *p, uint64_t seed) {
  static job j;
  tn_status status;
  float room[ROOM] = {0};
  memset(&j, 0, sizeof j);
  assert_true(test_ctx_open(&j.c));
  assert_true(tn__mem_try(&j.c.mem, open_ref, &j, &status));
  j.p = p;
  j.c.races = seed;
  if (!tn__mem_try(&j.c.mem, make, &j, &status)) fail_msg("%s: %s", p->name, tn_last_error(&j.c)->text);
  tn__device *d = tn__device_get(&j.c, 0);
  status = d->ops->launch(d, j.code, 0, (void *[]){room}, (size_t[]){sizeof room}, NULL);
  const char *said = tn_last_error(&j.c)->text;
  if (!seed || !p->want[0]) {
    if (status) fail_msg("%s, seed %d: %s", p->name, (int)seed, said);
  } else {
    if (status != TN_ERUN) fail_msg("%s, seed %d: no race was found", p->name, (int)seed);
    for (int i = 0; i < 3 && p->want[i]; i++)
      if (!strstr(said, p->want[i])) fail_msg("%s, seed %d: '%s' is not in: %s", p->name, (int)seed, p->want[i], said);
    if (!strstr(said, p->name)) fail_msg("%s is not named: %s", p->name, said);
  }
  d->ops->release(d, j.code);
  tn__devices_close(&j.c);
  assert_int_equal(test_ctx_close(&j.c), 0);
}

static void test_races_are_found(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (uint64_t seed = 1; seed <= SEEDS; seed++) try(&all[i], seed);
}

static void test_nobody_looks_unless_asked(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) try(&all[i], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_races_are_found),
      cmocka_unit_test(test_nobody_looks_unless_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
