/* Optimisers.  A step first builds the new value of every target (parameters, moments, the step count) and assigns them
 * when all are there: an error leaves everything as it was. */
#include "tenet/optim.h"
#include "ir/ctx.h"
#include "ir/dtype.h"
#include "tensor/cell.h"
#include "tenet/tensor.h"
#include <math.h>

enum { MAX_MOMENTS = 2 };

typedef struct rule {
  const char *moment[MAX_MOMENTS]; /* names of the moments, as many as there are */
  bool counts;                     /* has a step count */
  void (*prepare)(tn_optim *o);    /* once per step; may be NULL */
  /* The new value of parameter i, from its value and gradient in the arithmetic's dtype; puts its moments' into
   * o->next. */
  tn_tensor *(*update)(tn_optim *o, int i, tn_tensor *w, tn_tensor *g);
} rule;

/* Targets are the n parameters, n of each moment, and the step. */
struct tn_optim {
  tn__object object;
  tn_params *params, *state;
  const rule *rule;
  double beta1, beta2, eps, decay; /* SGD: beta1 is the momentum */
  bool variant;                    /* SGD: Nesterov's; Adam: decoupled decay */
  int n, moments, targets;
  tn_tensor *lr, *step;            /* f64, rank 0 */
  tn_tensor *rate, *root;          /* Adam's lr/(1-beta1^t) and 1/sqrt(1-beta2^t) while a step is built */
  tn_tensor **target, **next;      /* room for one more: a loss to realise */
};

static tn_tensor *moment(const tn_optim *o, int which, int i) { return o->target[o->n * (1 + which) + i]; }
static void set_moment(tn_optim *o, int which, int i, tn_tensor *v) { o->next[o->n * (1 + which) + i] = v; }

/* f16 and bf16 parameters are updated in f32, and so are their moments. */
static tn_dtype wide(const tn_tensor *w) { return (tn_dtype)tn__dtype_acc((int)tn_dtype_of(w)); }

/* a*x + b*y */
static tn_tensor *mix(double a, tn_tensor *x, double b, tn_tensor *y) {
  return tn_add(tn_mul_scalar(x, a), b == 1 ? y : tn_mul_scalar(y, b));
}

/* ---- the rules ---- */

static tn_tensor *sgd_update(tn_optim *o, int i, tn_tensor *w, tn_tensor *g) {
  if (o->decay != 0) g = mix(o->decay, w, 1, g);
  if (o->moments) {
    tn_tensor *v = mix(o->beta1, moment(o, 0, i), 1, g);
    set_moment(o, 0, i, v);
    g = o->variant ? mix(o->beta1, v, 1, g) : v;
  }
  return tn_sub(w, tn_mul(tn_cast(o->lr, tn_dtype_of(w)), g));
}

static void adam_prepare(tn_optim *o) {
  tn_tensor *t = tn_add_scalar(o->step, 1);
  tn_tensor *c1 = tn_rsub_scalar(tn_pow(tn_const(o->object.ctx, TN_F64, o->beta1), t), 1);
  tn_tensor *c2 = tn_rsub_scalar(tn_pow(tn_const(o->object.ctx, TN_F64, o->beta2), t), 1);
  o->next[o->targets - 1] = t;
  o->rate = tn_div(o->lr, c1);
  o->root = tn_rsqrt(c2);
}

/* A rank-0 value in memory of its own: computed once, and not again for every element. */
static tn_tensor *once(tn_tensor *t, tn_dtype dtype) { return tn_contiguous(tn_cast(t, dtype)); }

static tn_tensor *adam_update(tn_optim *o, int i, tn_tensor *w, tn_tensor *g) {
  tn_dtype dtype = tn_dtype_of(w);
  if (o->decay != 0 && o->variant) w = tn_mul(w, tn_cast(tn_rsub_scalar(tn_mul_scalar(o->lr, o->decay), 1), dtype));
  if (o->decay != 0 && !o->variant) g = mix(o->decay, w, 1, g);
  tn_tensor *m = mix(o->beta1, moment(o, 0, i), 1 - o->beta1, g),
            *v = mix(o->beta2, moment(o, 1, i), 1 - o->beta2, tn_square(g));
  set_moment(o, 0, i, m);
  set_moment(o, 1, i, v);
  tn_tensor *size = tn_add_scalar(tn_mul(tn_sqrt(v), once(o->root, dtype)), o->eps);
  return tn_sub(w, tn_div(tn_mul(once(o->rate, dtype), m), size));
}

static const rule sgd_plain = {.update = sgd_update}, sgd_momentum = {.moment = {"momentum"}, .update = sgd_update},
                  adam = {.moment = {"m", "v"}, .counts = true, .prepare = adam_prepare, .update = adam_update};

/* ---- open and close ---- */

/* On the device of the parameters, all on one; `t` itself where there are none. */
static tn_tensor *beside(const tn_optim *o, tn_tensor *t) { return o->n ? tn_to(t, tn_device_of(o->target[0])) : t; }

/* Zeros in memory of their own: moments of equal shape must not share it. */
static tn_tensor *new_moment(tn_ctx *c, const tn_optim *o, tn_tensor *w) {
  tn_dim shape[TN_MAX_RANK];
  if (tn_shape(w, shape) != TN_OK) return NULL;
  tn_dim elements = tn_numel(w);
  if (elements < 0) return NULL;
  void *zeros = tn__arena_zalloc(&c->scratch, (size_t)elements * tn_dtype_size(wide(w)));
  return beside(o, tn_from(c, wide(w), shape, tn_rank(w), zeros));
}

static void add_state(tn_ctx *c, tn_optim *o, const char *name, tn_tensor *t) {
  if (!tn_params_add(o->state, name, t)) tn__mem_throw(&c->mem, TN_EINVAL);
}

static void add_moments(tn_ctx *c, tn_optim *o, int which) {
  const char *const *name = tn_params_names(o->params);
  for (int i = 0; i < o->n; i++) {
    tn__sb full;
    tn__sb_init(&full, &c->scratch);
    tn__sb_printf(&full, "%s.%s", o->rule->moment[which], name[i]);
    tn_tensor *m = new_moment(c, o, o->target[i]);
    add_state(c, o, tn__sb_str(&full), m);
    set_moment(o, which, i, m);
    o->target[o->n * (1 + which) + i] = m;
  }
}

/* Of one that was not opened to its end, too. */
static void end(void *optim) {
  tn_optim *o = optim;
  tn__mem *m = &o->object.ctx->mem;
  tn__object_close(o->state);
  for (int i = 0; o->target && i < o->n && o->target[i]; i++) tn_release(o->target[i]);
  tn__mem_free(m, o->target);
  tn__mem_free(m, o->next);
}

typedef struct opening {
  tn_optim settings, *made;
  double lr;
} opening;

static void take_parameters(tn_ctx *c, tn_optim *o) {
  const char *const *name = tn_params_names(o->params);
  for (int i = 0; i < o->n; i++) {
    o->target[i] = tn_retain(tn_params_tensors(o->params)[i]);
    if (!tn__is_float((int)tn_dtype_of(o->target[i]))) tn__fail(c, TN_EDTYPE, "parameter '%s' is no float", name[i]);
  }
  if (tn_realize(o->target, o->n) != TN_OK) tn__mem_throw(&c->mem, TN_ENOMEM);
  for (int i = 1; i < o->n; i++) {
    const char *here = tn_device_of(o->target[i]), *first = tn_device_of(o->target[0]);
    if (here != first)
      tn__fail(c, TN_EDEVICE, "parameter '%s' is on %s, '%s' on %s: one optimiser takes the parameters of one device",
               name[i], here, name[0], first);
  }
}

/* Options are 0 or more and below a bound.  What compares with a NaN is false. */
static void check_option(tn_ctx *c, const char *name, double v, double bound) {
  if (v >= 0 && v < bound) return;
  tn__fail(c, TN_EINVAL,
           bound == 1 ? "%s is %g: it must be 0 or more, and less than 1"
                      : "%s is %g: it must be 0 or more, and finite",
           name, v);
}

static void check_options(tn_ctx *c, const tn_optim *o, double lr) {
  bool adams = o->rule == &adam;
  check_option(c, "lr", lr, INFINITY);
  check_option(c, adams ? "beta1" : "momentum", o->beta1, adams ? 1 : INFINITY);
  check_option(c, "beta2", o->beta2, 1);
  check_option(c, "eps", o->eps, INFINITY);
  check_option(c, "weight_decay", o->decay, INFINITY);
}

static void do_open(tn_ctx *c, void *arg) {
  opening *k = arg;
  check_options(c, &k->settings, k->lr);
  tn_optim *o = k->made = tn__object_new(c, TN__OPTIM, sizeof *o, end);
  k->settings.object = o->object;
  *o = k->settings;
  o->n = tn_params_count(o->params);
  while (o->moments < MAX_MOMENTS && o->rule->moment[o->moments]) o->moments++;
  o->targets = o->n * (1 + o->moments) + o->rule->counts;
  size_t room = ((size_t)o->targets + 1) * sizeof *o->target;
  o->target = tn__mem_zalloc(&c->mem, room);
  o->next = tn__mem_zalloc(&c->mem, room);
  take_parameters(c, o);
  if (!(o->state = tn_params_open(c))) tn__mem_throw(&c->mem, TN_ENOMEM);
  tn__object_own(o->state);
  o->lr = beside(o, tn_scalar(c, TN_F64, k->lr));
  add_state(c, o, "lr", o->lr);
  if (o->rule->counts) {
    o->step = o->target[o->targets - 1] = beside(o, tn_scalar(c, TN_F64, 0));
    add_state(c, o, "step", o->step);
  }
  for (int m = 0; m < o->moments; m++) add_moments(c, o, m);
}

static tn_optim *open_optim(const char *name, tn_optim settings, double lr) {
  opening k = {.settings = settings, .lr = lr};
  tn_ctx *c = tn__object_use(settings.params, TN__PARAMS, name);
  bool ok = false;
  if (!c) return NULL;
  tn_scope(c) ok = tn__ctx_run(c, name, do_open, &k);
  if (ok) return k.made;
  tn__object_discard(k.made);
  return NULL;
}

tn_optim *tn_sgd(tn_params *params, double lr, double momentum, double weight_decay, bool nesterov) {
  tn_optim o = {.params = params,
                .rule = momentum == 0 ? &sgd_plain : &sgd_momentum,
                .beta1 = momentum,
                .decay = weight_decay,
                .variant = nesterov};
  return open_optim("tn_sgd", o, lr);
}

static tn_optim *open_adam(const char *name, tn_params *params, double lr, double beta1, double beta2, double eps,
                           double decay, bool decoupled) {
  tn_optim o = {.params = params,
                .rule = &adam,
                .beta1 = beta1,
                .beta2 = beta2,
                .eps = eps,
                .decay = decay,
                .variant = decoupled};
  return open_optim(name, o, lr);
}

tn_optim *tn_adam(tn_params *params, double lr, double beta1, double beta2, double eps, double weight_decay) {
  return open_adam("tn_adam", params, lr, beta1, beta2, eps, weight_decay, false);
}
tn_optim *tn_adamw(tn_params *params, double lr, double beta1, double beta2, double eps, double weight_decay) {
  return open_adam("tn_adamw", params, lr, beta1, beta2, eps, weight_decay, true);
}

void tn_optim_close(tn_optim *o) {
  tn__object_close_by_caller(o, TN__OPTIM, "tn_optim_close");
}

/* ---- use ---- */

static void build_step(tn_optim *o, tn_tensor *const *grads) {
  if (o->rule->prepare) o->rule->prepare(o);
  for (int i = 0; i < o->n; i++) {
    tn_tensor *w = o->target[i];
    tn_tensor *value = o->rule->update(o, i, tn_cast(w, wide(w)), tn_cast(grads[i], wide(w)));
    o->next[i] = tn_cast(value, tn_dtype_of(w));
  }
}

static tn_ctx *use(const tn_optim *o, const char *api) { return tn__object_use(o, TN__OPTIM, api); }

/* Before anything is assigned: a gradient may have broadcast its parameter. */
static void check_shapes(tn_ctx *c, void *arg) {
  const tn_optim *o = arg;
  for (int i = 0; i < o->targets; i++) {
    tn_node *was = o->target[i]->node, *next = o->next[i]->node;
    if (was->rank != next->rank || !tn__dims_equal(c, was->dim, next->dim, was->rank))
      tn__fail(c, TN_ESHAPE, "the gradient of parameter %d makes %s of %s", i % o->n, tn__node_type(next, &c->scratch),
               tn__node_type(was, &c->scratch));
  }
}

tn_status tn_optim_step(tn_optim *o, tn_tensor *const *grads) {
  tn_ctx *c = use(o, "tn_optim_step");
  tn_status status = TN_OK;
  if (!c) return TN_EINVAL;
  if (o->n && !grads) return tn__refuse(c, "tn_optim_step", "the gradients are NULL");
  tn_scope(c) {
    build_step(o, grads);
    for (int i = 0; i < o->targets && status == TN_OK; i++)
      if (!o->next[i]) status = c->failed != TN_OK ? c->failed : TN_EINVAL;
    if (status == TN_OK && !tn__ctx_run(c, "tn_optim_step", check_shapes, o)) status = c->failed;
    for (int i = 0; i < o->targets && status == TN_OK; i++) status = tn_assign(o->target[i], o->next[i]);
  }
  return status;
}

tn_status tn_optim_realize(tn_optim *o, tn_tensor *loss) {
  if (!use(o, "tn_optim_realize")) return TN_EINVAL;
  o->target[o->targets] = loss;
  return tn_realize(o->target, o->targets + (loss != NULL));
}

typedef struct change {
  const tn_optim *o;
  double lr;
} change;

static void do_set_lr(tn_ctx *c, void *arg) {
  const change *k = arg;
  check_option(c, "lr", k->lr, INFINITY);
  /* the error is recorded already */
  if (tn_write(k->o->lr, &k->lr, sizeof k->lr) != TN_OK) tn__mem_throw(&c->mem, c->failed);
}

tn_status tn_optim_set_lr(tn_optim *o, double lr) {
  tn_ctx *c = use(o, "tn_optim_set_lr");
  if (!c) return TN_EINVAL;
  return tn__ctx_run(c, "tn_optim_set_lr", do_set_lr, &(change){o, lr}) ? TN_OK : c->failed;
}
tn_params *tn_optim_state(tn_optim *o) { return tn__object_use(o, TN__OPTIM, "tn_optim_state") ? o->state : NULL; }
