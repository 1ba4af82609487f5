/* Every scalar op on every dtype it is defined for, every cast, the reductions and the movements: on each device,
 * against the node-by-node oracle, with sentinels around the buffers of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/eval.h"
#include "support/device.h"
#include "support/graph.h"
#include "support/sentinel.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- all ops, by the oracle -------------------------------------------------------------------------------------- */

typedef struct walk {
  tn_ctx *c;
  int dtype;
  int shape;
  graph g;
  tn_node *out[256];
  uint32_t n;
} walk;

static const int64_t shapes[][2] = {{5, 7}, {1, 1}, {0, 3}, {3, 33}, {2, 64}};

/* An operand of the shape: 0 as it is, 1 broadcast along the first axis, 2 transposed and flipped. */
static tn_node *operand(walk *w, int dtype, int way) {
  tn_ctx *c = w->c;
  tn_node *dim[2] = {tn__int(c, shapes[w->shape][0]), tn__int(c, shapes[w->shape][1])};
  tn_node *have[2] = {way == 1 ? tn__int(c, 1) : dim[way == 2], dim[way != 2]};
  graph_dice d = {.state = (uint64_t)(dtype * 16 + way + 1) << 20};
  tn_node *x = graph_leaf(c, &w->g, &d, dtype, have, 2, false);
  if (way == 1) return tn__expand(c, x, dim);
  if (way == 2) return tn__flip(c, tn__permute(c, x, (int64_t[]){1, 0}), (int64_t[]){0, 1}, 2);
  return x;
}

static void try_op(tn_ctx *c, void *arg) {
  walk *w = ((walk **)arg)[0];
  int op = *((int **)arg)[1];
  tn_node **x = ((tn_node ***)arg)[2], *y = NULL;
  if (tn__ops[op].group == G_UNARY) y = tn__op1(c, (tn__op)op, x[0]);
  if (tn__ops[op].group == G_BINARY) y = tn__op2(c, (tn__op)op, x[1], x[2]);
  if (op == OP_WHERE) y = tn__where(c, x[3], x[1], x[2]);
  if (op == OP_FMA) y = tn__op3(c, OP_FMA, x[0], x[1], x[2]);
  if (y) w->out[w->n++] = y;
}

static void build_scalar(tn_ctx *c, void *arg) {
  walk *w = arg;
  tn_node *x[4] = {operand(w, w->dtype, 0), operand(w, w->dtype, 1), operand(w, w->dtype, 2), operand(w, TN_BOOL, 1)};
  for (int op = 0; op < OP_COUNT; op++) {
    if (!tn__is_elementwise(&(tn_node){.op = (uint8_t)op}) || tn__ops[op].group == G_CAST ||
        !tn__eval_defined(op, w->dtype))
      continue;
    void *job[] = {w, &op, x};
    tn__ctx_run(c, "op", try_op, job); /* what the IR refuses for this dtype is left out */
    tn_clear_error(c);
  }
  for (int to = 0; to < TN_DTYPE_COUNT; to++) {
    if (to != w->dtype) w->out[w->n++] = tn__cast(c, x[2], to);
    bool bits = to != w->dtype && to != TN_BOOL && w->dtype != TN_BOOL && tn__size_of(to) == tn__size_of(w->dtype);
    if (bits) w->out[w->n++] = tn__bitcast(c, x[0], to);
  }
  w->g.sink = tn__node_keep(tn__sink(c, w->out, w->n, "outputs"));
}

/* Reductions of integers, and of floats in mode strict, are exact to the bit; movements always. */
static void build_whole(tn_ctx *c, void *arg) {
  walk *w = arg;
  tn_node *x = operand(w, w->dtype, 0), *y = operand(w, w->dtype, 2), *p = operand(w, w->dtype, 1);
  int64_t one = 1, zero = 0, both[2] = {0, 1};
  bool empty = shapes[w->shape][0] == 0;
  for (int op = OP_SUM; op <= OP_RMIN; op++) {
    if (w->dtype == TN_BOOL && (op == OP_SUM || op == OP_PROD)) continue;
    w->out[w->n++] = tn__reduce(c, (tn__op)op, y, &one, 1);
    if (empty && op >= OP_RMAX) continue;
    w->out[w->n++] = tn__reduce(c, (tn__op)op, x, &zero, 1);
    w->out[w->n++] = tn__reduce(c, (tn__op)op, p, both, 2);
  }
  tn_node *rows = x->dim[0], *cols = x->dim[1], *none = tn__int(c, 0);
  w->out[w->n++] = tn__pad(c, y, (tn_node *[]){none, tn__int(c, 2), tn__int(c, 1), none});
  w->out[w->n++] = tn__shrink(c, y, (tn_node *[]){none, none}, (tn_node *[]){rows, tn__int(c, (cols->ints[0] + 1) / 2)},
                              (int64_t[]){1, 2});
  w->out[w->n++] = tn__window(c, y, 1, 1 + (cols->ints[0] > 2), 1, 2);
  w->out[w->n++] = tn__reshape(c, y, (tn_node *[]){cols, rows}, 2);
  tn_node *idx = operand(w, TN_I32, 0);
  w->out[w->n++] = tn__gather(c, y, idx);
  if (w->dtype != TN_BOOL) {
    tn_node *shape[3] = {rows, cols, cols},
            *u = tn__expand(c, tn__reshape(c, p, (tn_node *[]){rows, tn__int(c, 1), cols}, 3), shape);
    w->out[w->n++] = tn__scatter(c, x, idx, u);
    bool also = tn__is_addable(w->dtype, TN_F32) && w->dtype != TN_F32;
    if (also) w->out[w->n++] = tn__scatter(c, x, idx, tn__cast(c, u, TN_F32));
    if (!empty)
      w->out[w->n++] = tn__fold(c, x, tn__int(c, (rows->ints[0] - 1) * 2 + cols->ints[0] + 1), 0, cols->ints[0], 2, 1);
    w->out[w->n++] = tn__contract(c, x, y, 0, 1, 1, 1);
    w->out[w->n++] = tn__contract(c, x, y, 1, 0, 0, 1);
  }
  w->g.sink = tn__node_keep(tn__sink(c, w->out, w->n, "outputs"));
}

static void each(const char *device, void (*build)(tn_ctx *, void *), tn_mode mode, int first, int last) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or(device), .mode = mode, .quiet = 1});
  assert_non_null(c);
  sentinel_put(tn__device_get(c, 0));
  int bad = 0;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++)
    for (int shape = first; shape <= last; shape++) {
      walk w = {.c = c, .dtype = dtype, .shape = shape};
      char why[512];
      if (build == build_whole && shapes[shape][0] == 0 && tn__is_float(dtype)) continue;
      if (!tn__ctx_run(c, "build", build, &w)) fail_msg("%s", tn_last_error(c)->text);
      if (!graph_agrees(c, &w.g, why, sizeof why))
        fprintf(stderr, "%s, %s, shape %d: %s\n", device, tn_dtype_name((tn_dtype)dtype), shape, why), bad++;
      graph_free(c, &w.g);
    }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static void scalar_ref(void **s) {
  (void)s;
  each("ref", build_scalar, TN_MODE_STRICT, 0, 4);
}
static void scalar_cpu(void **s) {
  (void)s;
  each("cpu", build_scalar, TN_MODE_DEFAULT, 3, 3);
}
static void whole_ref(void **s) {
  (void)s;
  each("ref", build_whole, TN_MODE_STRICT, 0, 4);
}
static void whole_cpu(void **s) {
  (void)s;
  each("cpu", build_whole, TN_MODE_STRICT, 0, 0);
  each("cpu", build_whole, TN_MODE_STRICT, 2, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scalar_ref), cmocka_unit_test(scalar_cpu),
                                     cmocka_unit_test(whole_ref), cmocka_unit_test(whole_cpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
