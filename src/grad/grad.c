/* The public derivatives: handles in, handles out. */
#include "tenet/grad.h"
#include "grad/grad_pass.h"
#include "tensor/cell.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

/* A call's operands are the handles of `head`, then those of `wrt`, then those of `v`. */
typedef struct request {
  const char *name;
  tn_node *(*fn)(tn_ctx *c, tn__call *k);
  tn_tensor *head[2];
  int nhead, n, nv, nout;
  tn_tensor *const *wrt, *const *v;
  tn_tensor **out;
} request;

static tn_node **nodes_of(tn_ctx *c, tn_tensor *const *t, int n) {
  tn_node **x = tn__alloc(c, (size_t)n * sizeof *x);
  for (int i = 0; i < n; i++) x[i] = t[i]->node;
  return x;
}

static void backward(tn_ctx *c, const request *r, tn_node *y, tn_node *dy) {
  tn_node **g = tn__alloc(c, (size_t)r->n * sizeof *g);
  tn__vjp(c, y, dy, nodes_of(c, r->wrt, r->n), (uint32_t)r->n, g);
  for (int i = 0; i < r->n; i++) r->out[i] = tn__cell_new(c, g[i]);
}

static tn_node *build_grad(tn_ctx *c, tn__call *k) {
  tn_node *loss = k->x[0];
  if (loss->rank || !tn__is_float(loss->dtype))
    tn__fail(c, TN_EGRAD, "the loss is %s, not a float scalar: sum it, or use tn_vjp",
             tn__node_type(loss, &c->scratch));
  backward(c, k->p, loss, tn__const_num(c, loss->dtype, 1));
  return NULL;
}

static tn_node *build_vjp(tn_ctx *c, tn__call *k) {
  backward(c, k->p, k->x[0], k->x[1]);
  return NULL;
}

static tn_node *build_jvp(tn_ctx *c, tn__call *k) {
  const request *r = k->p;
  tn_node **x = nodes_of(c, r->wrt, r->n), **v = nodes_of(c, r->v, r->n);
  r->out[0] = tn__cell_new(c, tn__jvp(c, k->x[0], x, v, (uint32_t)r->n));
  return NULL;
}

/* Why the call cannot begin; NULL if it can. */
static const char *obstacle(const request *r) {
  if (r->n < 0 || r->n > MOST) return "the number of tensors to differentiate by is negative or above 2^20";
  return !r->out || (r->n && !r->wrt) || (r->nv && !r->v) ? "a list is NULL" : NULL;
}

static tn_status run_request(const request *r) {
  tn_tensor *few[32], **in = few;
  tn_ctx *c = tn__cell_ctx(r->head[0]);
  const char *why = obstacle(r);
  if (why) return c ? tn__refuse(c, r->name, "%s", why) : TN_EINVAL;
  memset(r->out, 0, (size_t)r->nout * sizeof *r->out);
  int nin = r->nhead + r->n + r->nv;
  if (nin > 32 && !(in = malloc((size_t)nin * sizeof *in))) return TN_ENOMEM;
  memcpy(in, r->head, (size_t)r->nhead * sizeof *in);
  if (r->n) memcpy(in + r->nhead, r->wrt, (size_t)r->n * sizeof *in);
  if (r->nv) memcpy(in + r->nhead + r->n, r->v, (size_t)r->nv * sizeof *in);
  tn__call call = {.name = r->name, .fn = r->fn, .in = in, .nin = nin, .p = r};
  tn_status status = tn__do(&call);
  if (in != few) free(in);
  for (int i = 0; status && i < r->nout; i++) {
    if (r->out[i]) tn_release(r->out[i]);
    r->out[i] = NULL;
  }
  return status;
}

tn_status tn_grad(tn_tensor *loss, int n, tn_tensor *const *wrt, tn_tensor **out) {
  return run_request(&(request){
      .name = "tn_grad", .fn = build_grad, .head = {loss}, .nhead = 1, .n = n, .nout = n, .wrt = wrt, .out = out});
}

tn_status tn_vjp(tn_tensor *y, tn_tensor *dy, int n, tn_tensor *const *wrt, tn_tensor **out) {
  return run_request(&(request){
      .name = "tn_vjp", .fn = build_vjp, .head = {y, dy}, .nhead = 2, .n = n, .nout = n, .wrt = wrt, .out = out});
}

tn_status tn_jvp(tn_tensor *y, int n, tn_tensor *const *wrt, tn_tensor *const *v, tn_tensor **out) {
  return run_request(&(request){.name = "tn_jvp",
                                .fn = build_jvp,
                                .head = {y},
                                .nhead = 1,
                                .n = n,
                                .nv = n,
                                .nout = 1,
                                .wrt = wrt,
                                .v = v,
                                .out = out});
}
