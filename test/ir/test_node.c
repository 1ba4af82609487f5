/* Interning, lifetimes, walks, errors, and allocation failure. */
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tn_ctx ctx;
static tn_ctx *const c = &ctx;

static int setup(void **state) {
  (void)state;
  return !test_ctx_open(c);
}

static int teardown(void **state) {
  (void)state;
  return test_ctx_close(c) != 0;
}

static uint64_t live(void) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s.nodes_live;
}

static void run_ok(void (*fn)(tn_ctx *, void *), void *arg) {
  bool ok = tn__ctx_run(c, "tn_test", fn, arg);
  if (!ok) print_error("%s\n", tn_last_error(c)->text);
  assert_true(ok);
}

static tn_node *storage(int64_t id, int device) {
  tn_node *dims[] = {tn__int(c, 2), tn__int(c, 3)};
  return tn__storage(c, TN_F32, id, device, dims, 2);
}

/* ---- the op table ---- */

static void test_op_table(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    const tn__op_info *o = &tn__ops[op];
    assert_non_null(o->name);
    assert_int_equal(tn__op_parse(o->text, strlen(o->text)), op);
    assert_true(o->min_src <= o->max_src);
    assert_true(o->phases != 0);
  }
  assert_int_equal(tn__op_parse("ad", 2), -1);
  assert_int_equal(tn__op_parse("", 0), -1);
  assert_int_equal(tn__ops[OP_ADD].comm, TN__C_BOOL | TN__C_INT | TN__C_FLOAT);
  assert_int_equal(tn__ops[OP_ADD].assoc, TN__C_BOOL | TN__C_INT);
  assert_int_equal(tn__ops[OP_ADD].idem, 0);
  assert_int_equal(tn__ops[OP_DIV].comm, 0);
  assert_int_equal(tn__ops[OP_AND].idem, TN__C_BOOL | TN__C_INT);
  for (int i = 0; i < AX_COUNT; i++) assert_non_null(tn__axis_names[i]);
  assert_string_equal(tn__axis_names[AX_UPCAST], "upcast");
}

/* ---- interning ---- */

static void interning(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *a = storage(1, 0), *b = storage(2, 0);
  assert_ptr_equal(a, storage(1, 0));
  assert_ptr_not_equal(a, b);
  assert_ptr_not_equal(a, tn__storage(c, TN_F16, 1, 0, a->dim, 2));
  assert_ptr_equal(tn__add(c, a, b), tn__add(c, a, b));
  assert_ptr_not_equal(tn__add(c, a, b), tn__add(c, b, a));
  assert_ptr_not_equal(tn__add(c, a, b), tn__mul(c, a, b));
  assert_ptr_not_equal(tn__cast(c, a, TN_F64), tn__cast(c, a, TN_F16));
  assert_ptr_not_equal(tn__sink(c, &a, 1, "x"), tn__sink(c, &a, 1, "y"));
  assert_ptr_equal(tn__sink(c, &a, 1, "x"), tn__sink(c, &a, 1, "x"));
  assert_ptr_not_equal(tn__var(c, "B", 1, 2), tn__var(c, "B", 1, 3));
  /* constants by bits: -0 and 0 differ, a narrow integer is kept canonical */
  assert_ptr_not_equal(tn__const_num(c, TN_F32, 0.0), tn__const_num(c, TN_F32, -0.0));
  assert_ptr_equal(tn__const_bits(c, TN_I8, 0xff), tn__const_bits(c, TN_I8, UINT64_MAX));
  assert_int_equal(tn__const_bits(c, TN_I8, 0xff)->ints[0], -1);
  assert_int_equal(tn__const_bits(c, TN_U8, UINT64_MAX)->ints[0], 255);
  assert_int_equal(tn__const_bits(c, TN_BOOL, 2)->ints[0], 1);
  assert_int_equal(tn__const_bits(c, TN_F32, UINT64_MAX)->ints[0], 0xffffffff);
  /* shapes: an elementwise node shares its source's list, a window has its own */
  assert_ptr_equal(tn__add(c, a, b)->dim, a->dim);
  assert_int_equal(tn__window(c, a, 1, 2, 1, 1)->rank, 3);
  /* serials grow from sources to users; equal content has an equal hash in every context */
  assert_true(tn__add(c, a, b)->serial > b->serial);
  tn_node *swapped[] = {b, a};
  assert_ptr_equal(tn__node_with(c, tn__add(c, a, b), swapped), tn__add(c, b, a));
  assert_string_equal(tn__node_type(a, &c->scratch), "f32[2,3]");
  assert_string_equal(tn__node_type(tn__int(c, 3), &c->scratch), "index");
}

static void hash_of(tn_ctx *x, void *out) {
  tn_node *dims[] = {tn__int(x, 2), tn__var(x, "B", 1, 9)};
  *(uint64_t *)out = tn__op1(x, OP_SIN, tn__storage(x, TN_F32, 7, 0, dims, 2))->hash;
}

static void test_hash_is_of_content(void **state) {
  (void)state;
  tn_ctx other;
  uint64_t here = 0, there = 1;
  assert_true(test_ctx_open(&other));
  run_ok(interning, NULL); /* other serials, other addresses */
  run_ok(hash_of, &here);
  assert_true(tn__ctx_run(&other, "tn_test", hash_of, &there));
  assert_int_equal(here, there);
  assert_int_equal(test_ctx_close(&other), 0);
}

static void test_interning(void **state) {
  (void)state;
  run_ok(interning, NULL);
  assert_int_equal(c->mem.top == NULL, 1);
}

/* ---- lifetimes ---- */

static void make_kept(tn_ctx *x, void *out) {
  tn_node *a = tn__iota(x, tn__int(x, 10));
  tn__op1(x, OP_NEG, a); /* nobody keeps this one */
  tn_node *w = tn__window(x, tn__op1(x, OP_ABS, a), 0, 3, 1, 1);
  *(tn_node **)out = tn__node_keep(w);
}

static void nothing(tn_ctx *x, void *unused) { (void)x, (void)unused; }

static void test_kept_nodes_stay(void **state) {
  (void)state;
  tn_node *w = NULL;
  run_ok(make_kept, &w);
  assert_int_equal(live(), 6); /* window, abs, iota and the sizes 10, 8, 3 */
  assert_int_equal(w->refs, 1);
  assert_int_equal(w->src[0]->refs, 1);
  assert_int_equal(w->dim[0]->ints[0], 8); /* its own dims live with it */
  assert_int_equal(w->dim[0]->refs, 1);
  run_ok(nothing, NULL);
  assert_int_equal(live(), 6);
  tn__node_drop(c, w);
  assert_int_equal(live(), 6); /* goes at the end of the next run */
  run_ok(nothing, NULL);
  assert_int_equal(live(), 0);
  tn__node_drop(c, NULL);
  assert_null(tn__node_keep(NULL));
}

static void keep_drop_keep(tn_ctx *x, void *n) {
  for (int i = 0; i < 100; i++) { /* it must enter the nursery once only, or the nursery would overflow */
    tn__node_drop(x, n);
    tn__node_keep(n);
  }
}

static void test_dropped_and_kept_again(void **state) {
  (void)state;
  tn_node *w = NULL;
  run_ok(make_kept, &w);
  run_ok(keep_drop_keep, w);
  assert_int_equal(live(), 6);
  tn__node_drop(c, w);
  run_ok(nothing, NULL);
  assert_int_equal(live(), 0);
}

static void nested_outer(tn_ctx *x, void *out) {
  tn_node *n = tn__iota(x, tn__int(x, 4));
  assert_true(tn__ctx_run(x, "inner", nothing, NULL));
  assert_int_equal(n->op, OP_IOTA); /* the inner end did not sweep */
  assert_int_equal(live(), 2);
  *(bool *)out = true;
}

static void test_only_the_outermost_run_sweeps(void **state) {
  (void)state;
  bool ran = false;
  run_ok(nested_outer, &ran);
  assert_true(ran);
  assert_int_equal(live(), 0);
}

static void keep_storage_user(tn_ctx *x, void *out) {
  *(tn_node **)out = tn__node_keep(tn__op1(x, OP_NEG, storage(5, 0)));
}

static void test_dead_storages_wait_for_the_device(void **state) {
  (void)state;
  tn_node *n = NULL;
  run_ok(keep_storage_user, &n);
  assert_null(c->dead);
  tn__node_drop(c, n);
  run_ok(nothing, NULL);
  tn_node *dead = c->dead;
  assert_non_null(dead);
  assert_int_equal(dead->op, OP_STORAGE);
  assert_int_equal(dead->ints[0], 5);
  assert_null(dead->next);
  c->dead = dead->next;
  tn__node_free(c, dead);
  run_ok(nothing, NULL);
  assert_int_equal(live(), 0);
}

/* ---- a million nodes ---- */

enum { DEEP = 1000000 };

static void make_deep(tn_ctx *x, void *out) {
  tn_node *a = storage(1, 0), *n = a;
  for (int i = 0; i < DEEP; i++) n = tn__op1(x, i & 1 ? OP_SIN : OP_COS, n);
  *(tn_node **)out = tn__node_keep(n);
}

static void walk_deep(tn_ctx *x, void *root) {
  tn__nodes order;
  tn_node *n = root, *roots[] = {n, n->src[0]};
  tn__topo(&x->scratch, roots, 2, &order);
  assert_int_equal(order.n, DEEP + 3); /* the storage and its two sizes */
  for (uint32_t i = 1; i < order.n; i++)
    assert_true(order.v[i]->serial > order.v[i - 1]->serial || order.v[i]->op == OP_CONST);
  assert_ptr_equal(order.v[order.n - 1], n);
}

static void test_a_chain_of_a_million(void **state) {
  (void)state;
  tn_node *n = NULL;
  size_t before = c->mem.live;
  run_ok(make_deep, &n);
  run_ok(walk_deep, n);
  assert_int_equal(live(), DEEP + 3);
  assert_true(c->mem.live - before < (size_t)DEEP * 192);
  tn__node_drop(c, n);
  run_ok(nothing, NULL);
  assert_int_equal(live(), 2); /* the sizes of the storage, which waits for the device */
}

static void topo_order(tn_ctx *x, void *unused) {
  (void)unused;
  tn_node *a = storage(1, 0), *s = tn__op1(x, OP_SIN, a), *m = tn__mul(x, s, s), *r = tn__add(x, m, s);
  tn__nodes order;
  tn__topo(&x->scratch, &r, 1, &order);
  tn_node *want[] = {a->dim[0], a->dim[1], a, s, m, r};
  assert_int_equal(order.n, 6);
  for (uint32_t i = 0; i < 6; i++) assert_ptr_equal(order.v[i], want[i]);
  tn__topo(&x->scratch, NULL, 0, &order);
  assert_int_equal(order.n, 0);
}

static void test_topo_order(void **state) {
  (void)state;
  run_ok(topo_order, NULL);
}

/* ---- errors ---- */

static void fail_with(tn_ctx *x, void *text) { tn__fail(x, TN_EINVAL, "%s", (const char *)text); }

static void fail_inside(tn_ctx *x, void *text) {
  tn__iota(x, tn__int(x, 4));
  assert_false(tn__ctx_run(x, "tn_inner", fail_with, text));
  tn__fail(x, TN_EIO, "a consequence");
}

static void test_the_first_error_is_kept(void **state) {
  (void)state;
  assert_int_equal(tn_last_error(c)->status, TN_OK);
  assert_string_equal(tn_last_error(c)->text, "");
  assert_false(tn__ctx_run(c, "tn_outer", fail_inside, "the cause"));
  assert_int_equal(live(), 0); /* a failed run is swept, too */
  assert_int_equal(tn_last_error(c)->status, TN_EINVAL);
  assert_string_equal(tn_last_error(c)->text, "tn_outer: the cause");
  assert_string_equal(tn_last_error(c)->op, "tn_outer");
  assert_false(tn__ctx_run(c, "tn_other", fail_with, "another"));
  assert_string_equal(tn_last_error(c)->text, "tn_outer: the cause");
  tn_clear_error(c);
  assert_int_equal(tn_last_error(c)->status, TN_OK);
  tn__error(c, TN_EBOUND, "B is %d", 7); /* without a run: no name in front */
  assert_string_equal(tn_last_error(c)->text, "B is 7");
  run_ok(nothing, NULL); /* a pending error stops nothing */
  assert_int_equal(tn_last_error(NULL)->status, TN_EINVAL);
  tn_clear_error(NULL);
}

static void test_a_long_message_is_cut(void **state) {
  (void)state;
  char text[3000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  assert_false(tn__ctx_run(c, "tn_long", fail_with, text));
  assert_true(strlen(tn_last_error(c)->text) < sizeof text - 1);
  assert_memory_equal(tn_last_error(c)->text, "tn_long: xxx", 12);
}

static void test_statuses(void **state) {
  (void)state;
  assert_string_equal(tn_status_name(TN_ESHAPE), "TN_ESHAPE");
  assert_string_equal(tn_status_text(TN_ESHAPE), "shapes do not fit");
  assert_string_equal(tn_status_name(TN_OK), "TN_OK");
  assert_string_equal(tn_status_name((tn_status)-99), "?");
  assert_string_equal(tn_version(), "0.1.0");
}

/* ---- allocation failure ---- */

typedef struct kept {
  tn_node *node[3];
} kept;

static void scenario(tn_ctx *x, void *out) {
  kept *k = out;
  tn_node *B = tn__var(x, "B", 1, 64), *dims[] = {B, tn__int(x, 12)};
  tn_node *a = tn__storage(x, TN_F32, 1, 0, dims, 2), *zero = tn__int(x, 0), *two = tn__int(x, 2);
  tn_node *lohi[] = {zero, two, two, zero}, *flat[] = {tn__mul(x, B, tn__int(x, 12))};
  k->node[0] = tn__node_keep(tn__pad(x, a, lohi));
  k->node[1] = tn__node_keep(tn__reshape(x, a, flat, 1));
  tn_node *n = a;
  for (int i = 0; i < 3000; i++) n = tn__op1(x, OP_NEG, n); /* the table and the nursery must grow */
  k->node[2] = tn__node_keep(n);
  tn__nodes order;
  tn__topo(&x->scratch, &n, 1, &order);
}

static void drop_kept(kept *k) {
  for (int i = 0; i < 3; i++) tn__node_drop(c, k->node[i]);
  *k = (kept){0};
}

/* The n-th allocation and all after it fail, for n = 1 until the scenario gets through. */
static void test_out_of_memory(void **state) {
  (void)state;
  int64_t failures = 0;
  for (int64_t n = 1;; n = n < 64 ? n + 1 : n + 37) {
    tn_ctx *x = c;
    kept k = {0};
    assert_int_equal(test_ctx_close(x), 0);
    assert_true(test_ctx_open(x));
    x->mem.fail_at = x->mem.count + n;
    bool ok = tn__ctx_run(x, "tn_test", scenario, &k);
    if (!ok) {
      failures++;
      assert_int_equal(tn_last_error(x)->status, TN_ENOMEM);
      assert_string_equal(tn_last_error(x)->text, "tn_test: out of memory");
    }
    x->mem.fail_at = 0;
    drop_kept(&k);
    run_ok(nothing, NULL); /* the context goes on working, and all that was made goes */
    assert_true(live() <= 2);
    for (tn_node *d; (d = x->dead);) {
      x->dead = d->next;
      tn__node_free(x, d);
    }
    run_ok(nothing, NULL);
    assert_int_equal(live(), 0);
    if (ok) break;
  }
  assert_true(failures > 100);
}

static void open_failing(void *p) { tn__intern_open(p); }

static void test_open_without_memory(void **state) {
  (void)state;
  for (int64_t n = 1; n <= 2; n++) {
    tn_ctx x = {0};
    tn_status status = TN_OK;
    tn__arena_init(&x.scratch, &x.mem);
    x.mem.fail_at = n;
    assert_false(tn__mem_try(&x.mem, open_failing, &x, &status));
    assert_int_equal(status, TN_ENOMEM);
    assert_int_equal(test_ctx_close(&x), 0);
  }
}

/* Nodes of finished work go, but for those that are referred to; what was there before stays. */
static void do_work(tn_ctx *unused, void *arg) {
  (void)unused;
  tn_node **stayed = arg, *before = tn__int(c, 123456), *stays = tn__add(c, tn__var(c, "n", 0, 9), before);
  uint64_t live = c->stats.nodes_live, serial = stays->serial;
  for (int round = 0; round < 3; round++) {
    tn__work work = tn__work_begin(c);
    for (int i = 0; i < 3000; i++) tn__cast(c, tn__int(c, 1000 + i), TN_F32); /* tables grow on the way */
    assert_true(c->stats.nodes_live > live + 3000);
    tn_node *wanted = tn__mul(c, stays, tn__int(c, 7));
    if (!round) *stayed = tn__node_keep(wanted);
    assert_ptr_equal(*stayed, wanted);
    tn__work_end(c, work);
    if (!round) live = c->stats.nodes_live;
    assert_int_equal(c->stats.nodes_live, live);
  }
  assert_ptr_equal(tn__add(c, tn__var(c, "n", 0, 9), tn__int(c, 123456)), stays);
  assert_int_equal(stays->serial, serial);
}

static void test_work(void **state) {
  tn_node *wanted = NULL;
  (void)state;
  uint64_t before = live();
  run_ok(do_work, &wanted);
  assert_true(live() > before && wanted->refs == 1);
  tn__node_drop(c, wanted);
  tn__intern_sweep(c, 0);
  assert_int_equal(live(), before);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(op_table),
      T(interning),
      T(hash_is_of_content),
      T(kept_nodes_stay),
      T(dropped_and_kept_again),
      T(only_the_outermost_run_sweeps),
      T(work),
      T(dead_storages_wait_for_the_device),
      T(topo_order),
      T(a_chain_of_a_million),
      T(the_first_error_is_kept),
      T(a_long_message_is_cut),
      T(statuses),
      T(out_of_memory),
      T(open_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
