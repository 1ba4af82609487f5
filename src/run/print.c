/* For people: tensors, devices, and what a step is made of. */
#include "ir/eval.h"
#include "run/runtime.h"
#include "tenet/device.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3, SUMMARISE_FROM = 1000 }; /* as NumPy: long tensors show three at each end */

static void open_all(tn_ctx *c, void *arg) {
  (void)arg;
  tn__open_gpus(c);
}

int tn_device_count(tn_ctx *ctx) {
  if (!ctx) return 0;
  tn__ctx_run(ctx, "tn_device_count", open_all, NULL);
  return tn__device_count(ctx);
}

tn_status tn_device_get_info(tn_ctx *ctx, int index, tn_device_info *out) {
  if (!ctx || !out || index < 0 || (index >= tn__device_count(ctx) && index >= tn_device_count(ctx))) return TN_EINVAL;
  const tn__device *d = tn__device_get(ctx, index);
  *out = (tn_device_info){.name = d->name, .text = d->text};
  return TN_OK;
}

/* ---- tn_print ---- */

static void print_element(FILE *f, int dtype, const char *at) {
  uint64_t v = tn__eval_load(dtype, at);
  if (dtype == TN_BOOL) fputs(v ? "true" : "false", f);
  else if (tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, v))) fputs("nan", f); /* printf tells its sign, which means nothing */
  else if (tn__is_float(dtype)) fprintf(f, "%.*g", dtype == TN_F64 ? 9 : 6, tn__eval_to_double(dtype, v));
  else if (tn__dtypes[dtype].is_signed) fprintf(f, "%lld", (long long)v);
  else fprintf(f, "%llu", (unsigned long long)v);
}

/* Rank is at most TN_MAX_RANK, so this recursion is shallow. */
static void print_axis(FILE *f, const tn_tensor *t, const char *data, uint32_t axis, size_t stride, bool brief) {
  const tn_node *n = t->node;
  if (axis == n->rank) {
    print_element(f, n->dtype, data);
    return;
  }
  int64_t size = n->dim[axis]->ints[0];
  size_t inner = size ? stride / (size_t)size : 0;
  fputc('[', f);
  for (int64_t i = 0; i < size; i++) {
    if (i) fputs(axis + 1 == n->rank ? ", " : ",", f);
    if (i && axis + 1 < n->rank) fprintf(f, "\n%*s", (int)axis + 1, "");
    if (brief && size > 2 * EDGE && i == EDGE) {
      fputs("...", f);
      i = size - EDGE - 1;
      continue;
    }
    print_axis(f, t, data + (size_t)i * inner, axis + 1, inner, brief);
  }
  fputc(']', f);
}

typedef struct job {
  tn_tensor *const *t;
  int n;
  FILE *f;
  tn_program_info *info;
} job;

static void do_print(tn_ctx *c, void *arg) {
  const job *k = arg;
  tn_tensor *t = k->t[0];
  tn__run_realize(c, k->t, 1);
  size_t bytes = tn_nbytes(t);
  char *data = tn__alloc(c, bytes + 1);
  tn__buffer *b = tn__storage_buffer(c, t->node);
  if (bytes) b->device->ops->download(b->device, data, b->mem, bytes);
  print_axis(k->f, t, data, 0, bytes, tn_numel(t) > SUMMARISE_FROM);
  fprintf(k->f, " : %s\n", tn__node_type(t->node, &c->scratch));
}

static tn_ctx *ctx_of(tn_tensor *const *t, int n) {
  for (int i = 0; i < n && t; i++)
    if (t[i] && t[i]->magic == TN__CELL_MAGIC) return t[i]->ctx;
  return NULL;
}

static tn_status run(const char *api, void (*fn)(tn_ctx *, void *), job *k) {
  tn_ctx *c = ctx_of(k->t, k->n);
  if (!c) return TN_EINVAL;
  return tn__ctx_run(c, api, fn, k) ? TN_OK : c->failed;
}

tn_status tn_print(tn_tensor *t, FILE *f) {
  job k = {.t = &t, .n = 1, .f = f ? f : stdout};
  return run("tn_print", do_print, &k);
}

/* ---- explain ---- */

static tn__plan *plan_of(tn_ctx *c, const job *k) {
  tn__nodes roots = {0}, in = {0};
  for (int i = 0; i < k->n; i++) {
    if (!k->t[i] || k->t[i]->magic != TN__CELL_MAGIC || k->t[i]->ctx != c) tn__fail(c, TN_EINVAL, "argument %d is not a tensor of this context", i + 1);
    if (k->t[i]->node->op != OP_STORAGE) tn__vec_push(&c->scratch, &roots, k->t[i]->node);
  }
  if (!roots.n) tn__fail(c, TN_EINVAL, "there is nothing to compute: the values are realised");
  tn__plan *p = tn__plan_get(c, tn__plan_key(c, roots.v, roots.n, &in));
  tn_node *const *var;
  uint32_t n = tn__plan_vars(p, &var);
  int64_t *value = tn__alloc(c, (n + 1) * sizeof *value);
  for (uint32_t i = 0; i < n; i++) value[i] = var[i]->hi;
  tn__plan_bind(c, p, value);
  return p;
}

static void do_explain(tn_ctx *c, void *arg) {
  const job *k = arg;
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__plan_print(c, plan_of(c, k), &s);
  if (fputs(tn__sb_str(&s), k->f) == EOF) tn__fail(c, TN_EIO, "writing failed");
}

static void do_info(tn_ctx *c, void *arg) {
  const job *k = arg;
  tn__plan_info(plan_of(c, k), k->info);
}

tn_status tn_explain(tn_tensor *const *t, int n, FILE *out) {
  job k = {.t = t, .n = n, .f = out ? out : stdout};
  return run("tn_explain", do_explain, &k);
}

tn_status tn_get_info(tn_tensor *const *t, int n, tn_program_info *out) {
  job k = {.t = t, .n = n, .info = out};
  return out ? run("tn_get_info", do_info, &k) : TN_EINVAL;
}
