/* Named tensors in a fixed order. */
#include "ir/ctx.h"
#include "tenet/nn.h"
#include "tenet/tensor.h"
#include "tensor/cell.h"
#include <string.h>

struct tn_params {
  tn__object object;
  tn__arena arena; /* names, and the vectors */
  tn__vec(tn_tensor *) tensors;
  tn__vec(const char *) names;
};

static void end(void *params) {
  tn_params *p = params;
  for (uint32_t i = 0; i < p->tensors.n; i++) tn_release(p->tensors.v[i]);
  tn__arena_free(&p->arena);
}

static void do_open(tn_ctx *c, void *arg) {
  tn_params *p = tn__object_new(c, TN__PARAMS, sizeof *p, end);
  tn__arena_init(&p->arena, &c->mem);
  *(tn_params **)arg = p;
}

tn_params *tn_params_open(tn_ctx *ctx) {
  tn_params *p = NULL;
  if (ctx) tn__ctx_run(ctx, "tn_params_open", do_open, &p);
  return p;
}

void tn_params_close(tn_params *p) {
  tn__object_close_by_caller(p, TN__PARAMS, "tn_params_close");
}

typedef struct addition {
  tn_params *p;
  const char *name;
  tn_tensor *t;
} addition;

static void do_add(tn_ctx *c, void *arg) {
  const addition *a = arg;
  tn_params *p = a->p;
  if (!a->name || !*a->name) tn__fail(c, TN_EINVAL, "a parameter needs a name");
  const char *fault = tn__cell_fault(c, a->t);
  if (fault) tn__fail(c, TN_EINVAL, "parameter '%s' %s", a->name, fault);
  if (tn_params_get(p, a->name)) tn__fail(c, TN_EINVAL, "there is a parameter '%s' already", a->name);
  const char *name = tn__arena_strdup(&p->arena, a->name);
  tn__vec_push(&p->arena, &p->tensors, a->t);
  p->tensors.n--; /* not there before its name is */
  tn__vec_push(&p->arena, &p->names, name);
  p->tensors.n++;
  tn_retain(a->t);
}

tn_tensor *tn_params_add(tn_params *p, const char *name, tn_tensor *t) {
  addition a = {p, name, t};
  tn_ctx *c = tn__object_use(p, TN__PARAMS, "tn_params_add");
  if (!c || (!t && tn_last_error(c)->status != TN_OK)) return NULL;
  return tn__ctx_run(c, "tn_params_add", do_add, &a) ? t : NULL;
}

static bool is_open(const tn_params *p, const char *api) { return tn__object_use(p, TN__PARAMS, api) != NULL; }

int tn_params_count(const tn_params *p) { return is_open(p, "tn_params_count") ? (int)p->tensors.n : 0; }
tn_tensor *const *tn_params_tensors(const tn_params *p) {
  return is_open(p, "tn_params_tensors") ? p->tensors.v : NULL;
}
const char *const *tn_params_names(const tn_params *p) { return is_open(p, "tn_params_names") ? p->names.v : NULL; }
tn_ctx *tn_params_ctx(const tn_params *p) { return tn__object_use(p, TN__PARAMS, "tn_params_ctx"); }

tn_tensor *tn_params_get(const tn_params *p, const char *name) {
  bool open = is_open(p, "tn_params_get");
  for (uint32_t i = 0; open && name && i < p->tensors.n; i++)
    if (!strcmp(p->names.v[i], name)) return p->tensors.v[i];
  return NULL;
}
