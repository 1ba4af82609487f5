/* What a step is made of, as text; and such text replayed. */
#include "ir/text.h"
#include "lower/lower.h"
#include "render/render.h"
#include "run/crew.h"
#include "run/runtime.h"
#include "run/sections.h"
#include <string.h>

typedef struct job {
  tn_tensor *const *t;
  int n;
  const char *text;
  FILE *f;
  char *made; /* without f */
  tn_program_info *info;
} job;

static void put(tn_ctx *c, tn__sb *s, job *k) {
  if (!k->f) k->made = tn__string_out(c, tn__sb_str(s));
  else if (fputs(tn__sb_str(s), k->f) == EOF) tn__fail(c, TN_EIO, "writing failed");
}

void tn__kernels_print(tn_ctx *c, const tn__device *d, tn__kernel *const *kernel, uint32_t n, tn__sb *out) {
  tn__sb_puts(out, "# kernels, optimised\n");
  for (uint32_t i = 0; i < n; i++) {
    tn__sb_printf(out, "# %s:%s\n", kernel[i]->name, kernel[i]->note);
    if (kernel[i]->ranking) tn__sb_printf(out, "# %s predicted: %s\n", kernel[i]->name, kernel[i]->ranking);
    for (uint32_t part = 0; part < kernel[i]->nparts; part++) {
      tn__print(out, kernel[i]->part[part].body);
      tn__sb_puts(out, "\n");
    }
  }
  tn__sb_puts(out, "# source\n");
  tn__render_unit(c, out, d->dialect ? d->dialect : &tn__dialect_c, kernel, n);
}

/* ---- of tensors ---- */

static tn__plan *plan_of(tn_ctx *c, const job *k) {
  tn__nodes roots = {0}, in = {0};
  for (int i = 0; i < k->n; i++) {
    const char *fault = tn__cell_fault(c, k->t[i]);
    if (fault) tn__fail(c, TN_EINVAL, "tensor argument %d %s", i + 1, fault);
    if (k->t[i]->node->op != OP_STORAGE) tn__vec_push(&c->scratch, &roots, k->t[i]->node);
  }
  if (!roots.n) tn__fail(c, TN_EINVAL, "there is nothing to compute: the values are realised");
  return tn__plan_get(c, tn__plan_key(c, roots.v, roots.n, &in));
}

static void do_explain(tn_ctx *c, void *arg) {
  job *k = arg;
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__plan_print(c, plan_of(c, k), &s);
  put(c, &s, k);
}

static void do_info(tn_ctx *c, void *arg) {
  const job *k = arg;
  if (!k->info) tn__fail(c, TN_EINVAL, "out is NULL");
  tn__plan *p = plan_of(c, k);
  tn_node *const *var;
  uint32_t n = tn__plan_vars(p, &var);
  int64_t *value = tn__alloc(c, (n + 1) * sizeof *value);
  for (uint32_t i = 0; i < n; i++) value[i] = var[i]->hi;
  tn__plan_bind(c, p, value);
  tn__plan_info(p, k->info);
}

/* ---- of text ---- */

typedef tn__vec(tn__kernel *) kernels;

/* As plans have them: kernels that go together as one, behind those that go by themselves. */
static tn__lowered unite(tn_ctx *c, const tn__lowered *l, const tn__crews *crews) {
  tn__item *item = tn__alloc(c, (crews->n + 1) * sizeof *item);
  int *kernel_of = tn__alloc(c, (crews->n + 1) * sizeof *kernel_of);
  kernels all = {0};
  for (uint32_t i = 0; i < l->nkernel; i++) tn__vec_push(&c->scratch, &all, l->kernel[i]);
  for (uint32_t i = 0; i < crews->n; i++) {
    const tn__crew *w = &crews->v[i];
    item[i] = w->n > 1 ? tn__crew_item(&c->scratch, l, w) : l->item[w->item[0]];
    kernel_of[i] = w->n > 1 ? (int)all.n : l->kernel_of[w->item[0]];
    tn__kernel *k = w->n > 1 ? tn__crew_kernel(c, l, w, all.n) : NULL;
    if (k) tn__vec_push(&c->scratch, &all, k);
  }
  return (tn__lowered){.target = l->target,
                       .item = item,
                       .kernel_of = kernel_of,
                       .n = crews->n,
                       .nbuf = l->nbuf,
                       .kernel = all.v,
                       .nkernel = all.n};
}

/* Those that items have */
static kernels kernels_of(tn_ctx *c, const tn__lowered *l) {
  kernels all = {0};
  for (uint32_t k = 0; k < l->nkernel; k++) {
    bool used = false;
    for (uint32_t i = 0; i < l->n && !used; i++) used = l->kernel_of[i] == (int)k;
    if (used) tn__vec_push(&c->scratch, &all, l->kernel[k]);
  }
  return all;
}

/* The item of a call; a library's stores to its first buffer. */
static tn__item item_of(tn_ctx *c, tn__lowered *l, tn__map *buffers, const tn_node *call, const tn__kernel *k) {
  tn__item it = {.nbuf = call->nsrc - 1, .nout = !k && call->nsrc > 1};
  it.buf = tn__alloc(c, call->nsrc * sizeof *it.buf);
  for (uint32_t b = 0; b < it.nbuf; b++) {
    uint64_t number = l->nbuf;
    if (!tn__map_get(buffers, (uint64_t)call->src[b + 1]->ints[0], &number)) l->nbuf++;
    tn__map_put(buffers, (uint64_t)call->src[b + 1]->ints[0], number);
    it.buf[b] = (int)number;
    if (k && b < k->nbuf && k->buf_written[b]) it.nout = b + 1;
  }
  return it;
}

/* From the first section on, with all stages that follow it; those in the text are only checked. */
static void replay(tn_ctx *c, const tn__section *s, tn__sb *out) {
  tn__nodes in = {0};
  kernels all = {0};
  tn__device *d = tn__device_get(c, 0);
  if (s->stage == TN__STAGE_GRAPH) {
    bool sink = s->root->op == OP_SINK;
    if (sink && !s->root->nsrc) tn__fail(c, TN_EFORMAT, "line %d: the graph has no outputs", s->line);
    uint32_t n = sink ? s->root->nsrc : 1, views = sink ? tn__views_of(s->root) : 0;
    tn_node *key = tn__plan_key_seen(c, sink ? s->root->src : &s->root, n, views, &in);
    tn__plan_print(c, tn__plan_get(c, key), out);
    return;
  }
  if (s->stage == TN__STAGE_PART)
    tn__fail(c, TN_EFORMAT,
             "line %d: the kernel is optimised already: text replays from a graph, a schedule or a kernel of one",
             s->line);
  bool program = s->stage == TN__STAGE_PROGRAM, one = s->stage == TN__STAGE_KERNEL || program;
  tn__target target = d->target;
  if (program && !target.group) target.interprets = false; /* what the language without groups has to say */
  uint32_t n = one ? 1 : s->root->nsrc;
  tn__item *item = tn__arena_zalloc(&c->scratch, (n + 1) * sizeof *item);
  int *kernel_of = tn__alloc(c, (n + 1) * sizeof *kernel_of);
  tn__map buffers; /* by what they are called: their numbers */
  tn__map_init(&buffers, &c->scratch);
  tn__lowered l = {.target = &target, .item = item, .kernel_of = kernel_of, .n = n};
  for (uint32_t i = 0; i < n; i++) {
    tn_node *call = s->root->src[i], *body = one ? s->root : call->src[0];
    kernel_of[i] = body->op == OP_LIB ? -1 : (int)all.n;
    if (body->op == OP_LIB) item[i] = item_of(c, &l, &buffers, call, NULL);
    if (body->op == OP_LIB) continue;
    if (program) tn__section_program(c, s, body, TN__MOST_BUFFERS);
    else tn__section_body(c, s, body, one ? TN__MOST_BUFFERS : (int64_t)call->nsrc - 1);
    if (!program) body = tn__by_hand(c, &c->scratch, body, &target);
    tn__choice choice = tn__choose(c, &c->scratch, body, &target);
    tn__kernel *kernel = tn__lower(c, &c->scratch, body, &target, choice.variant, all.n);
    kernel->ranking = choice.ranking;
    tn__vec_push(&c->scratch, &all, kernel);
    if (!one) item[i] = item_of(c, &l, &buffers, call, kernel);
  }
  l.kernel = all.v, l.nkernel = all.n;
  for (int way = 0; way < TN__CREW_WAYS && !one && target.joins; way++) {
    tn__crews crews = tn__crew_ways[way](c, &l);
    l = unite(c, &l, &crews);
  }
  if (!one && target.joins) l = tn__part_launches(c, &c->scratch, &l);
  all = kernels_of(c, &l);
  tn__sb_printf(out, "# %s\n", tn__stage_names[s->stage]);
  tn__print(out, s->root);
  tn__sb_puts(out, "\n");
  tn__kernels_print(c, d, all.v, all.n, out);
}

static void do_text(tn_ctx *c, void *arg) {
  job *k = arg;
  tn__sb s;
  if (!k->text) tn__fail(c, TN_EINVAL, "the text is NULL");
  tn__sb_init(&s, &c->scratch);
  tn__sections all = tn__sections_read(c, k->text);
  replay(c, &all.v[0], &s);
  put(c, &s, k);
}

/* ---- the public functions ---- */

static tn_ctx *ctx_of(tn_tensor *const *t, int n) {
  tn_ctx *c = NULL;
  for (int i = 0; i < n && t && !c; i++) c = tn__cell_ctx(t[i]);
  return c;
}

static tn_status run_job(tn_ctx *c, const char *api, void (*fn)(tn_ctx *, void *), job *k) {
  if (!c) return TN_EINVAL;
  return tn__ctx_run(c, api, fn, k) ? TN_OK : c->failed;
}

tn_status tn_explain(tn_tensor *const *t, int n, FILE *out) {
  return run_job(ctx_of(t, n), "tn_explain", do_explain, &(job){.t = t, .n = n, .f = out ? out : stdout});
}

tn_status tn_get_info(tn_tensor *const *t, int n, tn_program_info *out) {
  return run_job(ctx_of(t, n), "tn_get_info", do_info, &(job){.t = t, .n = n, .info = out});
}

tn_status tn_explain_text(tn_ctx *ctx, const char *text, FILE *out) {
  return run_job(ctx, "tn_explain_text", do_text, &(job){.text = text, .f = out ? out : stdout});
}

char *tn_explain_string(tn_tensor *const *t, int n) {
  job k = {.t = t, .n = n};
  run_job(ctx_of(t, n), "tn_explain_string", do_explain, &k);
  return k.made;
}

char *tn_explain_text_string(tn_ctx *ctx, const char *text) {
  job k = {.text = text};
  run_job(ctx, "tn_explain_text_string", do_text, &k);
  return k.made;
}
