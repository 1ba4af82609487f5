/* The front end alone: a context with one device of plain host memory, whose graphs are evaluated node by node by the
 * naive oracle (and by the device that $TENET_DEVICE names).  So these tests say that the front end builds the right
 * graph, whatever becomes of it later. */
#ifndef TN_TEST_TENSOR_FRONT_H
#define TN_TEST_TENSOR_FRONT_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/spec.h"
#include "rewrite/rewrite.h"
#include "support/ctx.h"
#include "support/elsewhere.h"
#include "tensor/cells.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tn__device_ops host_ops = {
    .name = "host", .alloc = tn__host_alloc, .free = tn__host_free, .upload = tn__host_copy, .download = tn__host_copy};

static inline void front_open_parts(tn_ctx *c, void *arg) {
  (void)arg;
  tn__devices_open(c);
  tn__device_add(c, &host_ops, "host", "plain memory", NULL);
  tn__cells_open(c);
}

static inline void front_open(tn_ctx *c) {
  assert_true(test_ctx_open(c));
  assert_true(tn__ctx_run(c, "open", front_open_parts, NULL));
}

static inline void front_reap(tn_ctx *c, void *arg) {
  (void)arg;
  tn__storage_reap(c);
}

static inline void front_close(tn_ctx *c) {
  tn__cells_close(c);
  tn__ctx_run(c, "close", front_reap, NULL);
  tn__ctx_run(c, "close", front_reap, NULL);
  tn__devices_close(c);
  tn__rules_close(c);
  assert_int_equal(test_ctx_close(c), 0); /* no leak */
}

static inline void front_spec(tn_ctx *c, void *node) { tn__spec_tensor(c, node); }

static const int64_t front_size = 3; /* what every symbolic size is bound to */

/* The value, by the oracle, once the graph has passed the spec of its stage.  Storages are read where they stand. */
static inline naive_tensor front_value(tn_tensor *t) {
  if (!t) fail_msg("a tensor is NULL");
  tn_ctx *c = t->ctx;
  assert_true(tn__ctx_run(c, "spec", front_spec, t->node));
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  tn__nodes all = {0};
  tn__topo(&a, &t->node, 1, &all);
  naive_bind *bind = calloc(all.n, sizeof *bind);
  uint32_t n = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op == OP_STORAGE) bind[n++] = (naive_bind){all.v[i], tn__storage_buffer(c, all.v[i])->mem};
    if (all.v[i]->op == OP_VAR) bind[n++] = (naive_bind){all.v[i], &front_size};
  }
  naive_tensor out;
  elsewhere_eval(c, t->node, bind, n, &out);
  free(bind);
  tn__arena_free(&a);
  return out;
}

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define ALL NULL, 0

static inline tn_tensor *f32s(tn_ctx *c, const tn_dim *shape, int rank, const float *v) {
  return tn_from(c, TN_F32, shape, rank, v);
}
#define F32(ctx, shape_and_rank, ...) f32s(ctx, shape_and_rank, (const float[]){__VA_ARGS__})

/* Shape and every element; NaN equals NaN; NULL stands for a failed expression, whose error the context knows; tol is
 * relative, and 0 wants the sign of zeros right. */
static inline void check_values(const char *file, int line, tn_ctx *c, tn_tensor *t, const tn_dim *shape, int rank,
                                const double *want, double tol) {
  if (!t) fail_msg("%s:%d: %s", file, line, tn_last_error(c)->text);
  naive_tensor v = front_value(t);
  bool same = v.rank == (uint32_t)rank;
  for (int i = 0; same && i < rank; i++) same = v.dim[i] == shape[i];
  if (!same)
    fail_msg("%s:%d: the shape is wrong (rank %u, first size %lld)", file, line, v.rank,
             v.rank ? (long long)v.dim[0] : 1LL);
  for (int64_t i = 0; i < v.n; i++) {
    double got = naive_get(&v, i), w = want[i];
    bool good = isnan(w) ? isnan(got) : got == w || fabs(got - w) <= tol * fabs(w);
    if (tol == 0 && w == 0) good = good && signbit(w) == signbit(got);
    if (!good) fail_msg("%s:%d: element %lld is %.17g, not %.17g", file, line, (long long)i, got, w);
  }
  naive_free(&v);
}
#define CHECK(t, shape_and_rank, tol, ...)                                                                             \
  check_values(__FILE__, __LINE__, &c, t, shape_and_rank, (const double[]){__VA_ARGS__}, tol)
#define SCALAR NULL, 0

/* The expression failed, with this status and message. */
#define CHECK_ERROR(ctx, expression, status_, text_)                                                                   \
  do {                                                                                                                 \
    tn_clear_error(ctx);                                                                                               \
    assert_null(expression);                                                                                           \
    assert_string_equal(tn_last_error(ctx)->text, text_);                                                              \
    assert_int_equal(tn_last_error(ctx)->status, status_);                                                             \
    tn_clear_error(ctx);                                                                                               \
  } while (0)
#endif
