/* What a handle tells about itself. */
#include "device/device.h"
#include "tensor/operands.h"

typedef struct question {
  const tn_tensor *t;
  tn_dim *shape, size;
  int axis;
} question;

static void answer_shape(tn_ctx *c, void *arg) {
  question *q = arg;
  const tn_node *n = q->t->node;
  if (n->rank && !q->shape) tn__fail(c, TN_EINVAL, "out is NULL");
  for (uint32_t i = 0; i < n->rank; i++) q->shape[i] = tn__dim_out(c, n->dim[i]);
}

static void answer_size(tn_ctx *c, void *arg) {
  question *q = arg;
  const tn_node *n = q->t->node;
  q->size = tn__dim_out(c, n->dim[tn__axis(c, q->axis, n->rank)]);
}

static void answer_numel(tn_ctx *c, void *arg) {
  question *q = arg;
  q->size = tn__dim_out(c, tn__numel(c, q->t->node));
}

static bool is_live(const tn_tensor *t) { return t && t->magic == TN__CELL_MAGIC; }

static bool ask(question *q, const char *api, void (*fn)(tn_ctx *, void *)) {
  tn_ctx *c = tn__cell_use(q->t, api);
  return c && tn__ctx_run(c, api, fn, q);
}

tn_status tn_shape(const tn_tensor *t, tn_dim *out) {
  question q = {.t = t, .shape = out};
  if (ask(&q, "tn_shape", answer_shape)) return TN_OK;
  return is_live(t) ? t->ctx->failed : TN_EINVAL;
}

tn_dim tn_size(const tn_tensor *t, int axis) {
  question q = {.t = t, .axis = axis};
  return ask(&q, "tn_size", answer_size) ? q.size : TN_DIM_ERROR;
}

static tn_dim count(const tn_tensor *t, const char *api) {
  question q = {.t = t};
  return ask(&q, api, answer_numel) ? q.size : TN_DIM_ERROR;
}

tn_dim tn_numel(const tn_tensor *t) { return count(t, "tn_numel"); }

size_t tn_nbytes(const tn_tensor *t) {
  tn_dim n = count(t, "tn_nbytes");
  size_t bytes;
  if (n < 0) return 0;
  return __builtin_mul_overflow((size_t)n, tn__size_of(t->node->dtype), &bytes) ? SIZE_MAX : bytes;
}

int tn_rank(const tn_tensor *t) { return is_live(t) ? t->node->rank : -1; }
tn_dtype tn_dtype_of(const tn_tensor *t) { return is_live(t) ? (tn_dtype)t->node->dtype : TN_DTYPE_COUNT; }
tn_ctx *tn_ctx_of(const tn_tensor *t) { return is_live(t) ? t->ctx : NULL; }

const char *tn_device_of(const tn_tensor *t) {
  if (!is_live(t)) return "";
  int device = t->node->device; /* -1: a value without data, which will be made on the default device */
  return tn__device_count(t->ctx) ? tn__device_get(t->ctx, device < 0 ? 0 : device)->name : "";
}
