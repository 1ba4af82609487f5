/* Tuning: a few variants of each kernel (lower/variants.c) are timed on the device, over memory of their own, and the
 * best one's name is kept beside the code cache: by the kernel's body with its sizes, the device, the options, the
 * threads and this library's version.  What was kept once is looked up from then on, whether or not there is more
 * tuning. */
#include "ir/text.h"
#include "lower/lower.h"
#include "run/plan.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
  TYPICAL = 512, /* of symbolic sizes, within their bounds */
  MOST_TRIALS = 48,
  ROUNDS = 5,      /* the best of so many counts, */
  MOST_RUNS = 500, /* of so many runs each, or fewer: */
  GIVE_UP = 3,     /* times as slow as the best: one run is enough */
  PIECE = 1 << 20  /* bytes that are uploaded at once */
};
static const double SAMPLE = 2e-3; /* seconds */
static const double NOISE = 0.97;  /* of the usual time: what is not faster than that is as fast */

typedef struct trial {
  const tn__variant *variant;
  tn__plan *plan;
  double best; /* seconds; INFINITY: it did not run */
} trial;

typedef struct tuning {
  tn_ctx *c;
  const tn__plan *of;
  uint32_t item, n;
  tn_node *body;
  bool called;
  trial trial[MOST_TRIALS];
  const tn__variant *taken; /* NULL: as usual */
  tn__buffer **buf; /* by number in the schedule */
  uint32_t nbuf;
} tuning;

/* ---- remembered ---- */

static tn__key key_of(const tuning *t) {
  tn_ctx *c = t->c;
  const tn__device *d = t->of->dev;
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, "%s\n%s %s %d %d %d %zu\n%d %d %d %d\n%s\n", tn_version(), d->ops->name, d->text, d->target.group,
                d->target.units, (int)d->target.ntiles, d->target.shared, c->opt.threads, (int)c->mode,
                c->opt.no_library, c->opt.tf32, t->called ? "library" : "kernel");
  tn__print(&s, t->body);
  return tn__cache_key(tn__sb_str(&s), strlen(tn__sb_str(&s)), (tn__key){0});
}

static const tn__variant *recall(const tuning *t) {
  size_t size;
  const char *content = tn__cache_read(&t->c->cache, key_of(t), ".variant", &t->c->scratch, &size);
  char name[64] = "";
  if (content && size < sizeof name) memcpy(name, content, size);
  return tn__variant_find(name);
}

/* ---- memory ---- */

/* Numbers between 1/2 and 1, small integers: neither zeros nor anything slow. */
static void make_up(char *out, size_t bytes, int dtype) {
  static const struct {
    uint64_t base, mask;
  } made[] = {[TN_F16] = {0x3800, 0x3ff},
              [TN_BF16] = {0x3f00, 0x7f},
              [TN_F32] = {0x3f000000, 0x7fffff},
              [TN_F64] = {0x3fe0000000000000, 0xfffffffffffff}};
  size_t size = tn__size_of(dtype);
  bool is_float = tn__is_float(dtype);
  uint64_t state = 1;
  for (size_t at = 0; at + size <= bytes; at += size) {
    state = tn__hash_mix(state, at);
    uint64_t v =
        is_float ? made[dtype].base | (state >> 12 & made[dtype].mask) : state >> 60 & (dtype == TN_BOOL ? 1 : 15);
    memcpy(out + at, &v, size);
  }
}

static void fill(tn__device *d, const tn__buffer *b, int dtype, char *piece) {
  make_up(piece, b->size < PIECE ? b->size : PIECE, dtype);
  for (size_t at = 0; at < b->size; at += PIECE)
    d->ops->upload(d, (char *)b->mem + at, piece, b->size - at < PIECE ? b->size - at : PIECE);
}

/* The item's buffers, for all trials alike */
static void open_memory(tuning *t, const tn__plan *p) {
  tn_ctx *c = t->c;
  char *piece = tn__alloc(c, PIECE);
  uint32_t n = p->s->bufs.n;
  t->buf = tn__alloc(c, (n + 1) * sizeof *t->buf);
  for (uint32_t b = 0; b < n; b++) {
    t->buf[b] = tn__buffer_new(p->dev, p->first[b] < 0 ? 0 : p->bytes[b]); /* nothing of what it does not touch */
    t->nbuf++;
    fill(p->dev, t->buf[b], p->s->bufs.v[b].dtype, piece);
  }
}

static void bind(tn_ctx *c, tn__plan *p) {
  tn_node *const *var = p->var.v;
  int64_t *value = tn__alloc(c, (p->var.n + 1) * sizeof *value);
  for (uint32_t i = 0; i < p->var.n; i++)
    value[i] = var[i]->lo > TYPICAL ? var[i]->lo : var[i]->hi < TYPICAL ? var[i]->hi : TYPICAL;
  tn__plan_bind(c, p, value);
}

/* ---- timing ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for each of n runs; throws if one fails. */
static double time_runs(const tuning *t, trial *x, int n) {
  tn__device *d = t->of->dev;
  tn_status status = d->ops->sync ? d->ops->sync(d) : TN_OK;
  double start = now();
  for (int i = 0; i < n && status == TN_OK; i++) status = tn__plan_run(t->c, x->plan, t->buf, NULL);
  if (status == TN_OK && d->ops->sync) status = d->ops->sync(d);
  if (status != TN_OK) tn__mem_throw(&t->c->mem, status);
  return (now() - start) / n;
}

static void start(tuning *t, trial *x) {
  tn__plan_compile(x->plan);
  bind(t->c, x->plan);
  if (!t->buf) open_memory(t, x->plan);
  time_runs(t, x, 1); /* loads what is loaded late */
  x->best = time_runs(t, x, 1);
  t->c->stats.kernels_timed++;
}

static void time_again(tuning *t, trial *x) {
  double v = time_runs(t, x, x->best * MOST_RUNS < SAMPLE ? MOST_RUNS : (int)(SAMPLE / x->best) + 1);
  if (v < x->best) x->best = v;
}

/* ---- trials ---- */

typedef struct attempt {
  tuning *t;
  trial *x;
  void (*what)(tuning *t, trial *x);
} attempt;

static void lower(tuning *t, trial *x) { tn__plan_trial(t->c, t->of, t->item, x->variant, &x->plan); }

static void invoke(void *arg) {
  const attempt *a = arg;
  a->what(a->t, a->x);
}

/* Whatever goes wrong here, it leads to no choice, and is no error of the caller's. */
static bool quietly(tn_ctx *c, void (*what)(void *arg), void *arg) {
  bool pending = c->err.status != TN_OK;
  tn_status status, failed = c->failed;
  if (tn__mem_try(&c->mem, what, arg, &status)) return true;
  if (!pending) tn_clear_error(c);
  c->failed = failed;
  return false;
}

static bool try(tuning *t, trial *x, void (*what)(tuning *t, trial *x)) {
  return quietly(t->c, invoke, &(attempt){t, x, what});
}

static void drop(tuning *t, trial *x) {
  tn__plan_free(t->c, x->plan);
  *x = (trial){0};
}

/* The same kernels? */
static bool is_same(const tn__plan *p, const tn__plan *q) {
  bool same = p->nkernels == q->nkernels;
  for (uint32_t k = 0; same && k < p->nkernels; k++) {
    same = p->kernel[k]->nparts == q->kernel[k]->nparts;
    for (uint32_t i = 0; same && i < p->kernel[k]->nparts; i++) {
      const tn__part *x = &p->kernel[k]->part[i], *y = &q->kernel[k]->part[i];
      same = x->body == y->body && x->group == y->group && x->together == y->together && x->across == y->across &&
             (x->tile ? x->tile->form : NULL) == (y->tile ? y->tile->form : NULL);
    }
  }
  return same;
}

/* The variants that differ */
static void open_trials(tuning *t) {
  const tn__variant *variant;
  uint32_t at = 0;
  while (t->n < MOST_TRIALS && (variant = tn__variant_next(t->c, &t->of->dev->target, t->body, t->called, &at))) {
    trial *x = &t->trial[t->n];
    *x = (trial){.variant = variant};
    bool good = try(t, x, lower);
    for (uint32_t i = 0; i < t->n && good; i++) good = !is_same(x->plan, t->trial[i].plan);
    if (good) t->n++;
    else drop(t, x);
  }
}

static void report(const tuning *t, const trial *taken) {
  const tn__plan *usual = t->trial[0].plan;
  if (t->c->opt.quiet) return;
  fprintf(stderr, "tenet: %s, %s:", t->of->dev->name, usual->nkernels ? usual->kernel[0]->name : "a library call");
  for (uint32_t i = 0; i < t->n; i++)
    fprintf(stderr, "%s %s %.4g ms", i ? "," : "", t->trial[i].variant->name, t->trial[i].best * 1e3);
  fprintf(stderr, "; taken: %s\n", taken->variant->name);
}

/* Takes turns, so that what else goes on hits all alike. */
static const tn__variant *choose(tuning *t) {
  trial *usual = &t->trial[0], *taken = usual;
  double least = INFINITY;
  for (trial *x = usual; x < usual + t->n; x++) {
    if (!try(t, x, start)) x->best = INFINITY;
    if (isinf(usual->best)) return NULL; /* no memory, sizes that cannot be: no choice either */
    least = fmin(least, x->best);
  }
  for (int round = 0; round < ROUNDS; round++)
    for (trial *x = usual; x < usual + t->n; x++)
      if (x->best < least * GIVE_UP && !try(t, x, time_again)) x->best = INFINITY;
  if (isinf(usual->best)) return NULL;
  for (trial *x = usual; x < usual + t->n; x++)
    if (x->best < taken->best && x->best < usual->best * NOISE) taken = x;
  report(t, taken);
  return taken->variant;
}

static void tune(void *arg) {
  tuning *t = arg;
  open_trials(t);
  if (t->n < 2 || !(t->taken = choose(t))) return;
  tn__cache_write(&t->c->cache, key_of(t), ".variant", t->taken->name, strlen(t->taken->name), &t->c->scratch);
}

static void close_trials(tuning *t) {
  for (uint32_t i = 0; i < t->n; i++) drop(t, &t->trial[i]);
  for (uint32_t i = 0; i < t->nbuf; i++) tn__buffer_drop(t->buf[i]);
}

static const tn__variant *tune_item(tuning *t) {
  tn_ctx *c = t->c;
  if (c->cache.dir) t->taken = recall(t);
  if (t->taken || c->opt.tune <= 0) return t->taken;
  tn__work work = tn__work_begin(c);
  if (!quietly(c, tune, t)) t->taken = NULL;
  close_trials(t);
  tn__work_end(c, work);
  return t->taken;
}

/* Equal bodies are looked up, and timed, once. */
const tn__variant *const *tn__tune(tn_ctx *c, const tn__plan *p) {
  if (c->opt.tune < 0 || p->dev->target.interprets || (!c->cache.dir && !c->opt.tune)) return NULL;
  const tn__variant **variant = tn__alloc(c, (p->s->items.n + 1) * sizeof *variant);
  tn__map seen[2]; /* by body, of kernels and of library calls */
  for (int called = 0; called < 2; called++) tn__map_init(&seen[called], &c->scratch);
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tuning t = {.c = c, .of = p, .item = i, .body = p->s->items.v[i].body, .called = tn__plan_calls(p, i)};
    uint64_t first;
    if (!tn__map_get(&seen[t.called], (uintptr_t)t.body, &first)) {
      tn__map_put(&seen[t.called], (uintptr_t)t.body, i);
      variant[i] = tune_item(&t);
    } else {
      variant[i] = variant[first];
    }
  }
  return variant;
}
