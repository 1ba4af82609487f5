/* Barriers of kernels for work groups: as compiled they are accepted, and none of them can be left out; accesses that
 * need none are accepted, and those that do are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "rewrite/rewrite.h"
#include "run/runtime.h"
#include "support/ctx.h"
#include "support/linear.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "verify/barriers.h"
#include "verify/concurrency.h"

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

/* ---- what is compiled ---- */

static tn_tensor *input(tn_ctx *c, const tn_dim *shape, int rank) {
  tn_tensor *t = tn_zeros(c, TN_F32, shape, rank);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static tn_tensor *row_sum(tn_ctx *c) { return tn_sum(input(c, DIMS(4, 5000)), (int[]){1}, 1, false); }
static tn_tensor *column_sum(tn_ctx *c) { return tn_sum(input(c, DIMS(3000, 12)), (int[]){0}, 1, false); }
static tn_tensor *softmax(tn_ctx *c) { return tn_softmax(input(c, DIMS(30, 700)), -1); }
static tn_tensor *gradient_of(tn_tensor *y, tn_tensor *x) {
  tn_tensor *g;
  assert_int_equal(tn_grad(tn_sum(tn_square(y), NULL, 0, false), 1, &x, &g), TN_OK);
  return g;
}
static tn_tensor *softmax_gradient(tn_ctx *c) {
  tn_tensor *x = input(c, DIMS(300, 100));
  return gradient_of(tn_softmax(x, -1), x);
}
static tn_tensor *norm_gradient(tn_ctx *c) {
  tn_tensor *x = input(c, DIMS(4000, 384)), *w = input(c, DIMS(384)), *b = input(c, DIMS(384));
  return gradient_of(tn_layer_norm(x, 1, w, b, 1e-5), w);
}
static tn_tensor *sum_of_softmax(tn_ctx *c) { return tn_sum(tn_softmax(input(c, DIMS(16384)), 0), NULL, 0, false); }
static tn_tensor *log_softmax_columns(tn_ctx *c) {
  return tn_sum(tn_log_softmax(input(c, DIMS(2000, 90)), -1), (int[]){0}, 1, false);
}
static tn_tensor *attention(tn_ctx *c) {
  tn_tensor *q = input(c, DIMS(2, 40, 16)), *s = tn_softmax(tn_matmul(q, tn_transpose(q, 1, 2)), -1);
  return tn_matmul(s, q);
}

static tn_tensor *(*const made[])(tn_ctx *) = {row_sum,       column_sum,     softmax,   softmax_gradient,
                                              norm_gradient, sum_of_softmax, attention, log_softmax_columns};

typedef struct counted {
  tn_tensor *t;
  uint32_t kernels, barriers; /* of groups with shared memory; those that were left out */
} counted;

static void without(tn_ctx *c, const tn__kernel *k, uint32_t part, uint32_t at) {
  tn__kernel less = *k;
  tn__part *p = &less.part[part];
  p->ins = tn__alloc(c, (p->n + 1) * sizeof *p->ins);
  memcpy(p->ins, k->part[part].ins, at * sizeof *p->ins);
  memcpy(p->ins + at, k->part[part].ins + at + 1, (p->n - at - 1) * sizeof *p->ins);
  p->n--;
  if (tn__barriers_check(c, &less, part)) return;
  fail_msg("kernel %s (%s) without instruction %u, a barrier", k->name, k->note, at);
}

static void leave_out(tn_ctx *c, void *arg) {
  counted *n = arg;
  tn__nodes in = {0};
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, &n->t->node, 1, &in)};
  pipeline_simplify(&p);
  pipeline_schedule(&p);
  pipeline_lower(&p);
  for (uint32_t i = 0; i < p.s->items.n; i++) {
    const tn__kernel *k = p.kernel[i];
    const char *wrong = tn__concurrency_check(c, k);
    if (wrong) fail_msg("%s (%s)", wrong, k->note);
    n->kernels += k->nlocal > 0;
    for (uint32_t part = 0; part < k->nparts; part++)
      for (uint32_t at = 0; at < k->part[part].n; at++) {
        if (k->part[part].ins[at]->op != OP_BARRIER) continue;
        without(c, k, part, at);
        n->barriers++;
      }
  }
}

static void each_barrier_is_needed(void **state) {
  static const char *const device[] = {"ref:sm_80", "ref:sm_90", "ref:opencl"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    counted n = {0};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
      tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[d], .quiet = 1});
      assert_non_null(c);
      n.t = made[i](c);
      if (!tn__ctx_run(c, "leave_out", leave_out, &n)) fail_msg("%s: %s", device[d], tn_last_error(c)->text);
      tn_ctx_close(c);
    }
    printf("%s: %u kernels share memory, with %u barriers\n", device[d], n.kernels, n.barriers);
    assert_true(n.kernels > 3 && n.barriers > 5);
  }
}

/* ---- by hand: a store, then a load, by threads of a group ---- */

typedef enum form { SAME_PLACE, NEXT_PLACE, ONE_PLACE, ALL_LOAD, ONE_LOOP, APART_IN_TURNS, MAYBE_NO_TURNS } form;

typedef struct asking {
  form form;
  bool barrier;
  char why[300];
} asking;

static tn_node *next_lane(tn_ctx *c, tn_node *lane) {
  return tn__op2(c, OP_MOD, tn__op2(c, OP_ADD, lane, tn__int(c, 1)), tn__int(c, 32));
}

static void keep(lin *l, tn_node *out, tn_node *at, tn_node *value) { lin_store(l, OP_STORE, out, at, value, NULL); }

static void ask(tn_ctx *c, void *arg) {
  asking *q = arg;
  lin *l = lin_new(c, "shared");
  tn_node *out = lin_buf(l, TN_F32, true), *mem = lin_local(l, TN_F32, 1000), *one = tn__const_num(c, TN_F32, 1);
  tn_node *n, *r;
  bool none = q->form == MAYBE_NO_TURNS, turns = q->form == APART_IN_TURNS;
  l->k.part[0].group = 32;
  tn_node *loop = turns ? lin_range(l, tn__int(c, 9), AX_LOOP, 7) : NULL;
  n = lin_range(l, tn__int(c, 32), AX_UPCAST, 0);
  keep(l, mem, q->form == ONE_PLACE ? tn__int(c, 0) : n, one);
  if (q->form == ONE_LOOP) keep(l, out, n, lin_load(l, mem, next_lane(c, n), NULL));
  lin_end(l, n);
  if (none) loop = lin_range(l, lin_var(l, "n", 0, 5), AX_LOOP, 7);
  if (q->barrier) lin_barrier(l, 0);
  if (none) lin_end(l, loop);
  if (q->form == ALL_LOAD) {
    keep(l, out, tn__int(c, 0), lin_load(l, mem, tn__int(c, 3), NULL));
  } else if (q->form != ONE_LOOP) {
    r = lin_range(l, tn__int(c, 32), AX_UPCAST, 1);
    keep(l, out, r, lin_load(l, mem, q->form == SAME_PLACE || q->form == ONE_PLACE ? r : next_lane(c, r), NULL));
    lin_end(l, r);
  }
  if (turns) lin_end(l, loop);
  const char *why = tn__barriers_check(c, &l->k, 0);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
}

static void forms(void **state) {
  static const struct {
    form form;
    bool without, with; /* good without a barrier between the two, and with one */
  } rows[] = {{SAME_PLACE, true, true}, {NEXT_PLACE, false, true}, {ONE_PLACE, false, true},
              {ALL_LOAD, false, true},  {ONE_LOOP, false, false},  {APART_IN_TURNS, false, false},
              {MAYBE_NO_TURNS, false, false}};
  struct tn_ctx c;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int barrier = 0; barrier < 2; barrier++) {
      asking q = {.form = rows[i].form, .barrier = barrier};
      assert_true(test_ctx_open(&c));
      assert_true(tn__ctx_run(&c, "ask", ask, &q));
      if ((*q.why == 0) != (barrier ? rows[i].with : rows[i].without)) fail_msg("form %zu, %d: %s", i, barrier, q.why);
      if (*q.why) assert_non_null(strstr(q.why, "no barrier stands between instruction"));
      tn__rules_close(&c);
      assert_int_equal(test_ctx_close(&c), 0);
    }
}

/* ---- as they are placed ---- */

/* What is stored in front of a loop is loaded in it and behind it: where the loop may have no turns, its barrier does
 * not do for what comes behind it. */
static void place(tn_ctx *c, void *arg) {
  uint32_t *barriers = arg;
  for (int least = 0; least < 2; least++) {
    lin *l = lin_new(c, "placed");
    tn_node *out = lin_buf(l, TN_F32, true), *mem = lin_local(l, TN_F32, 32), *loop = NULL;
    l->k.part[0].group = 32;
    for (int i = 0; i < 3; i++) {
      if (i == 1) loop = lin_range(l, lin_var(l, "n", least, 5), AX_LOOP, 7);
      tn_node *lane = lin_range(l, tn__int(c, 32), AX_UPCAST, i);
      if (i == 0) keep(l, mem, lane, tn__const_num(c, TN_F32, 1));
      else keep(l, out, lane, lin_load(l, mem, next_lane(c, lane), NULL));
      lin_end(l, lane);
      if (i == 1) lin_end(l, loop);
    }
    tn__place_barriers(c, &c->scratch, &l->k.part[0]);
    const char *wrong = tn__barriers_check(c, &l->k, 0);
    if (wrong) fail_msg("%s", wrong);
    for (uint32_t i = 0; i < l->k.part[0].n; i++) barriers[least] += l->k.part[0].ins[i]->op == OP_BARRIER;
  }
}

static void loops_without_turns(void **state) {
  struct tn_ctx c;
  uint32_t barriers[2] = {0};
  (void)state;
  assert_true(test_ctx_open(&c));
  assert_true(tn__ctx_run(&c, "place", place, barriers));
  assert_true(barriers[0] == 2 && barriers[1] == 1);
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
}

/* ---- one loop of a group, by turns ---- */

/* Each turn stores to a cell of each thread, or loads one and stores another, and ends with a barrier or not. */
typedef struct looped {
  const char *what;
  int extent, threads;  /* turns, and lanes of 32 */
  int store[3], gate;   /* index: lane * [0] + turn * [1] + [2], modulo 32; lanes below `gate` store, 0: all */
  int load[3];          /* the index of what is loaded before, so; {0}: nothing is */
  bool without, with;   /* good without a barrier in the loop, and with one */
} looped;

typedef struct looped_try {
  const looped *of;
  bool barrier;
  char why[300];
} looped_try;

static tn_node *index_of(tn_ctx *c, const int *k, tn_node *lane, tn_node *turn) {
  tn_node *sum = tn__add(c, tn__mul(c, lane, tn__int(c, k[0])), tn__mul(c, turn, tn__int(c, k[1])));
  return tn__op2(c, OP_MOD, tn__add(c, sum, tn__int(c, k[2])), tn__int(c, 32));
}

static void loop_once(tn_ctx *c, void *arg) {
  looped_try *q = arg;
  const looped *of = q->of;
  lin *l = lin_new(c, "turns");
  tn_node *mem = lin_local(l, TN_F32, 32), *value = tn__const_num(c, TN_F32, 1);
  l->k.part[0].group = 32;
  tn_node *turn = lin_range(l, tn__int(c, of->extent), AX_LOOP, 7);
  tn_node *lane = lin_range(l, tn__int(c, of->threads), AX_UPCAST, 0);
  tn_node *gate = of->gate ? tn__op2(c, OP_LT, lane, tn__int(c, of->gate)) : NULL;
  if (of->load[0]) value = lin_load(l, mem, index_of(c, of->load, lane, turn), gate);
  lin_store(l, OP_STORE, mem, index_of(c, of->store, lane, turn), value, gate);
  lin_end(l, lane);
  if (q->barrier) lin_barrier(l, 0);
  lin_end(l, turn);
  const char *why = tn__barriers_check(c, &l->k, 0);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
}

static void turns_of_a_loop(void **state) {
  static const looped rows[] = {
      {"its own cell in each turn", 9, 32, {1, 0, 0}, 0, {0}, true, true},
      {"another one's in the next turn", 9, 32, {1, 1, 0}, 0, {0}, false, true},
      {"one turn alone", 1, 32, {1, 1, 0}, 0, {0}, true, true},
      {"cells apart in all turns", 2, 8, {2, 1, 0}, 0, {0}, true, true},
      {"its own cell, four turns later", 9, 8, {1, 8, 0}, 0, {0}, true, true},
      {"the next one's cell, four turns later", 9, 8, {1, 9, 0}, 0, {0}, false, true},
      {"loads what others store", 9, 32, {1, 0, 0}, 0, {1, 0, 1}, false, false},
      {"loads what none stores", 9, 32, {1, 0, 0}, 16, {1, 0, 16}, true, true},
      {"loads what one of them stores", 9, 32, {1, 0, 0}, 17, {1, 0, 16}, false, false},
      {"loads what was another's before", 9, 16, {1, 16, 0}, 0, {1, 16, 16}, true, true},
      {"loads its own neighbour of the turn before", 9, 16, {1, 16, 0}, 0, {1, 16, 17}, false, false},
      {"loads what others store, in one turn", 1, 32, {1, 1, 0}, 0, {1, 1, 1}, false, false},
      {"another one's in the next turn, of none", 0, 32, {0, 1, 0}, 0, {0}, true, true},
      {"the same one's in all turns, of none", 0, 32, {0, 0, 0}, 0, {0}, true, true},
      {"loads what others store, in no turn", 0, 32, {1, 1, 0}, 0, {1, 1, 1}, true, true}};
  struct tn_ctx c;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int barrier = 0; barrier < 2; barrier++) {
      looped_try q = {.of = &rows[i], .barrier = barrier};
      assert_true(test_ctx_open(&c));
      assert_true(tn__ctx_run(&c, "loop_once", loop_once, &q));
      if ((*q.why == 0) != (barrier ? rows[i].with : rows[i].without))
        fail_msg("%s, %s barrier: %s", rows[i].what, barrier ? "with a" : "no", q.why);
      tn__rules_close(&c);
      assert_int_equal(test_ctx_close(&c), 0);
    }
}

/* ---- rows that threads share out ---- */

/* All turns of one loop store to a row, all of another load it, with no barrier: far too many to try.  Each element is
 * one thread's where a turn is of whole shares, and both loops give it the same. */
typedef struct shared_out {
  int share[2], turn[2], next[2]; /* of each loop: elements of a thread in a turn, and of a turn; threads further on */
  bool own;
  char why[300];
} shared_out;

static void share_out(tn_ctx *c, void *arg) {
  shared_out *q = arg;
  lin *l = lin_new(c, "shares");
  tn_node *mem = lin_local_of(l, TN_F32, 1 << 24, TN__OWN_KEPT);
  tn_node *out = lin_buf(l, TN_F32, true);
  l->k.part[0].group = 32;
  for (int i = 0; i < 2; i++) {
    tn_node *turn = lin_range(l, tn__int(c, 100000), AX_LOOP, 2 * i);
    tn_node *lane = lin_range(l, tn__int(c, 32), AX_UPCAST, 2 * i + 1);
    tn_node *mine = tn__mul(c, tn__add(c, lane, tn__int(c, q->next[i])), tn__int(c, q->share[i]));
    tn_node *at = tn__add(c, tn__mul(c, turn, tn__int(c, q->turn[i])), mine);
    if (i) lin_store(l, OP_STORE, out, at, lin_load(l, mem, at, NULL), NULL);
    else lin_store(l, OP_STORE, mem, at, tn__const_num(c, TN_F32, 1), NULL);
    lin_end(l, lane);
    lin_end(l, turn);
  }
  const char *why = tn__barriers_check(c, &l->k, 0);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
}

static void shares(void **state) {
  static const shared_out rows[] = {{.share = {4, 4}, .turn = {128, 128}, .own = true},
                                    {.share = {1, 1}, .turn = {32, 96}, .own = true},
                                    {.share = {4, 4}, .turn = {128, 128}, .next = {0, 1}},
                                    {.share = {4, 4}, .turn = {128, 132}},
                                    {.share = {4, 2}, .turn = {128, 128}}};
  struct tn_ctx c;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    shared_out q = rows[i];
    assert_true(test_ctx_open(&c));
    assert_true(tn__ctx_run(&c, "share_out", share_out, &q));
    if (!*q.why != q.own) fail_msg("row %zu: %s", i, q.why);
    tn__rules_close(&c);
    assert_int_equal(test_ctx_close(&c), 0);
  }
}

/* ---- counts of threads in step ---- */

/* 64 threads, 32 of which run in step, count by a key below 4 at places begin * (thread / by) + key, and load what they
 * have counted there, or what stands at their own number. */
typedef struct counting {
  const char *what;
  int begin, by;
  bool own, without, with; /* own: the second; good without a barrier before that, and with one */
} counting;

typedef struct counting_try {
  const counting *of;
  bool barrier;
  char why[300];
} counting_try;

static void count(tn_ctx *c, void *arg) {
  counting_try *q = arg;
  lin *l = lin_new(c, "counts");
  tn_node *out = lin_buf(l, TN_U32, true), *keys = lin_buf(l, TN_U32, false);
  tn_node *mem = lin_local_of(l, TN_U32, 8, TN__OWN_IN_STEP), *one = tn__const_num(c, TN_U32, 1);
  l->k.part[0].group = 64;
  for (int i = 0; i < 2; i++) {
    tn_node *lane = lin_range(l, tn__int(c, 64), AX_UPCAST, i), *key = lin_load(l, keys, lane, NULL), *at = lane;
    key = tn__cast(c, tn__op2(c, OP_AND, key, tn__const_num(c, TN_U32, 3)), TN__INDEX);
    tn_node *begin = tn__mul(c, tn__op2(c, OP_IDIV, lane, tn__int(c, q->of->by)), tn__int(c, q->of->begin));
    if (!i || !q->of->own) at = tn__add(c, begin, key);
    if (!i) lin_store(l, OP_STOREADD, mem, at, one, NULL);
    lin_store(l, OP_STORE, out, tn__add(c, lane, tn__int(c, 64 * i)), lin_load(l, mem, at, NULL), NULL);
    lin_end(l, lane);
    if (!i && q->barrier) lin_barrier(l, 0);
  }
  const char *why = tn__concurrency_check(c, &l->k);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
}

static void counts_in_step(void **state) {
  static const counting rows[] = {{"as those in step count", 4, 32, false, true, true},
                                  {"... and others load", 4, 32, true, false, true},
                                  {"others count at their places, too", 3, 32, false, false, false},
                                  {"places for half of those in step", 4, 16, false, false, false},
                                  {"places for more than those in step", 4, 64, false, false, false}};
  struct tn_ctx c;
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int barrier = 0; barrier < 2; barrier++) {
      counting_try q = {.of = &rows[i], .barrier = barrier};
      assert_true(test_ctx_open(&c));
      assert_true(tn__ctx_run(&c, "count", count, &q));
      if ((*q.why == 0) != (barrier ? rows[i].with : rows[i].without))
        fail_msg("%s, %s barrier: %s", rows[i].what, barrier ? "with a" : "no", q.why);
      tn__rules_close(&c);
      assert_int_equal(test_ctx_close(&c), 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts_in_step),
                                     cmocka_unit_test(each_barrier_is_needed), cmocka_unit_test(forms),
                                     cmocka_unit_test(loops_without_turns), cmocka_unit_test(turns_of_a_loop),
                                     cmocka_unit_test(shares)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
