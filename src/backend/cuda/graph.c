/* Recordings: what is asked of the stream between record and recorded becomes a CUDA graph, which is submitted by one
 * call. */
#include "backend/cuda/state.h"
#include <string.h>

struct tn__recording {
  tn__cu_exec exec;
};

tn_status tn__cuda_record(tn__device *d) {
  tn__cuda *self = d->self;
  tn_status status = tn__cuda_enter(d);
  /* Other threads may go on using CUDA as they like. */
  if (!status)
    status = tn__cuda_check(d, self->api->capture_begin(self->stream, CU_CAPTURE_THREAD_LOCAL), "starting a recording");
  self->recording = status == TN_OK;
  memset(self->item_early, 0, sizeof self->item_early);
  self->item_priority = 0;
  self->urgent = false;
  memset(&self->last, 0, sizeof self->last);
  return status;
}

/* Notes the node that the item before ended with.  Each call of the stream follows the one before it, so there is one.
 */
static tn_status close_item(tn__device *d) {
  tn__cuda *self = d->self;
  int state;
  const tn__cu_node *node;
  size_t n;
  tn_status status = tn__cuda_check(d, self->api->capture_info(self->stream, &state, NULL, NULL, &node, &n),
                                    "asking what was recorded");
  if (!status) tn__vec_push(&d->ctx->scratch, &self->last, n == 1 ? node[0] : NULL);
  return status;
}

tn_status tn__cuda_after(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                          int urgent) {
  tn__cuda *self = d->self;
  tn_status status = item ? close_item(d) : TN_OK;
  if (status) return status;
  tn__cu_node *node = tn__alloc(d->ctx, (n + 1) * sizeof *node);
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (self->last.v[before[i]]) node[m++] = self->last.v[before[i]];
  self->item_early[0] = early[0] && m == 1;
  self->item_early[1] = early[1];
  self->item_priority = self->greatest * urgent / TN__MOST_URGENT;
  self->urgent |= self->item_priority < 0;
  return tn__cuda_check(d, self->api->capture_depend(self->stream, node, m, CU_SET_DEPENDENCIES),
                        "ordering what is recorded");
}

tn__recording *tn__cuda_recorded(tn__device *d) {
  tn__cuda *self = d->self;
  tn__cu_graph graph = NULL;
  tn__recording *r = tn__mem_try_alloc(&d->ctx->mem, sizeof *r);
  self->recording = false;
  tn_status status = tn__cuda_use(d);
  if (!status) status = tn__cuda_check(d, self->api->capture_end(self->stream, &graph), "ending a recording");
  if (!status && !r) tn__error(d->ctx, TN_ENOMEM, "no memory for a recording");
  if (!status && r) {
    *r = (tn__recording){0};
    unsigned long long flags = self->urgent ? CU_NODE_PRIORITIES : 0;
    status = tn__cuda_check(d, self->api->exec_create(&r->exec, graph, flags), "making a graph of a recording");
    if (!status) self->api->exec_upload(r->exec, self->stream); /* only saves time at the first replay */
  }
  if (graph) self->api->graph_destroy(graph);
  if (!status) return r;
  tn__mem_free(&d->ctx->mem, r);
  return NULL;
}

tn_status tn__cuda_replay(tn__device *d, tn__recording *r) {
  tn__cuda *self = d->self;
  tn_status status = tn__cuda_enter(d);
  if (status) return status;
  tn__cuda_started(d, "a recorded program");
  return tn__cuda_check(d, self->api->exec_launch(r->exec, self->stream), "replaying a program");
}

void tn__cuda_forget(tn__device *d, tn__recording *r) {
  tn__cuda *self = d->self;
  if (!r) return;
  /* the driver waits for one that runs */
  if (!self->lost && !self->api->context_use(self->context)) self->api->exec_destroy(r->exec);
  tn__mem_free(&d->ctx->mem, r);
}
