/* Recordings of the guises of devices that record: launches are written down with the order that they were given, and
 * run in another one that it allows, which a seed draws.  What such a device may do at once is so done in any order: an
 * item that waits for too little gives other values here, too. */
#include "backend/ref/recording.h"
#include <string.h>

typedef struct call {
  tn__code *code;
  uint32_t kernel, item;
  void *const *buf;
  const size_t *bytes;
  const int64_t *var;
} call;

typedef struct item {
  const uint32_t *before;
  uint32_t nbefore, waits; /* of those before it, not yet done in this replay */
  uint32_t *then, nthen;   /* those that it is before */
  uint32_t first, end;     /* calls */
} item;

struct tn__recording {
  tn__mem mem; /* of its own: what the context's limit lets pass does not hang on who looks on */
  tn__arena arena;
  tn__vec(call) calls;
  tn__vec(item) items;
  uint32_t *ready;
  tn_status status; /* the first thing that went wrong while it was made */
};

typedef struct recorder {
  tn__recording *open; /* NULL: nothing is being recorded */
  uint64_t replays;
} recorder;

typedef struct step { /* what is to be written down: an item, or a call of it */
  tn__recording *r;
  item item;
  call call;
  uint32_t nbuf, nvar;
} step;

void *tn__ref_recorder_new(tn_ctx *c) { return tn__mem_zalloc(&c->mem, sizeof(recorder)); }

void tn__ref_recorder_free(tn__device *d) {
  recorder *self = d->self;
  if (!self) return; /* there was no memory for it */
  if (self->open) tn__ref_forget(d, self->open);
  tn__mem_free(&d->ctx->mem, self);
}

bool tn__ref_is_recording(const tn__device *d) { return d->self && ((const recorder *)d->self)->open; }

tn_status tn__ref_record(tn__device *d) {
  recorder *self = d->self;
  tn__recording *r = tn__mem_try_alloc(&d->ctx->mem, sizeof *r);
  if (!r) {
    tn__error(d->ctx, TN_ENOMEM, "no memory for a recording");
    return TN_ENOMEM;
  }
  memset(r, 0, sizeof *r);
  tn__arena_init(&r->arena, &r->mem);
  self->open = r;
  return TN_OK;
}

void tn__ref_forget(tn__device *d, tn__recording *r) {
  recorder *self = d->self;
  if (self->open == r) self->open = NULL;
  tn__arena_free(&r->arena);
  tn__mem_free(&d->ctx->mem, r);
}

static void put_item(void *arg) {
  step *s = arg;
  s->item.before = tn__arena_dup(&s->r->arena, s->item.before, s->item.nbefore * sizeof *s->item.before);
  s->item.first = s->item.end = s->r->calls.n;
  tn__vec_push(&s->r->arena, &s->r->items, s->item);
}

static void put_call(void *arg) {
  step *s = arg;
  tn__arena *a = &s->r->arena;
  if (!s->r->items.n) tn__vec_push(a, &s->r->items, (item){0}); /* no order was given: all calls are one item's */
  s->call.buf = tn__arena_dup(a, s->call.buf, s->nbuf * sizeof *s->call.buf);
  s->call.bytes = tn__arena_dup(a, s->call.bytes, s->nbuf * sizeof *s->call.bytes);
  s->call.var = tn__arena_dup(a, s->call.var, s->nvar * sizeof *s->call.var);
  tn__vec_push(a, &s->r->calls, s->call);
  s->r->items.v[s->r->items.n - 1].end = s->r->calls.n;
}

static tn_status write_down(tn__device *d, void (*put)(void *), step *s) {
  tn_status status = TN_OK;
  s->r = ((const recorder *)d->self)->open;
  if (s->r->status == TN_OK && !tn__mem_try(&s->r->mem, put, s, &status)) {
    tn__error(d->ctx, status, "no memory for a recording");
    s->r->status = status;
  }
  return s->r->status;
}

tn_status tn__ref_after(tn__device *d, uint32_t number, const uint32_t *before, uint32_t n, const bool *early,
                         int urgent) {
  (void)number, (void)early, (void)urgent;
  return write_down(d, put_item, &(step){.item = {.before = before, .nbefore = n}});
}

tn_status tn__ref_record_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                                uint32_t nbuf, const int64_t *var, uint32_t nvar) {
  return write_down(d, put_call, &(step){.call = {.code = code, .kernel = i, .buf = buf, .bytes = bytes, .var = var},
                                         .nbuf = nbuf, .nvar = nvar});
}

static void find_followers(void *arg) {
  tn__recording *r = arg;
  item *all = r->items.v;
  r->ready = tn__arena_alloc(&r->arena, (r->items.n + 1) * sizeof *r->ready);
  for (uint32_t i = 0; i < r->items.n; i++)
    for (uint32_t k = 0; k < all[i].nbefore; k++) all[all[i].before[k]].nthen++;
  for (uint32_t i = 0; i < r->items.n; i++) {
    all[i].then = tn__arena_alloc(&r->arena, (all[i].nthen + 1) * sizeof *all[i].then);
    all[i].nthen = 0;
    for (uint32_t k = 0; k < all[i].nbefore; k++) {
      item *x = &all[all[i].before[k]]; /* an earlier one */
      x->then[x->nthen++] = i;
    }
  }
}

tn__recording *tn__ref_recorded(tn__device *d) {
  recorder *self = d->self;
  tn__recording *r = self->open;
  self->open = NULL;
  if (r->status == TN_OK && !tn__mem_try(&r->mem, find_followers, r, &r->status))
    tn__error(d->ctx, r->status, "no memory for a recording");
  if (r->status == TN_OK) return r;
  tn__ref_forget(d, r);
  return NULL;
}

static tn_status run_item(tn__device *d, const tn__recording *r, const item *x) {
  tn_status status = TN_OK;
  for (uint32_t i = x->first; i < x->end && status == TN_OK; i++) {
    const call *k = &r->calls.v[i];
    status = tn__ref_launch(d, k->code, k->kernel, k->buf, k->bytes, k->var);
  }
  return status;
}

tn_status tn__ref_replay(tn__device *d, tn__recording *r) {
  recorder *self = d->self;
  uint64_t seed = tn__hash_mix(d->ctx->races + 1, ++self->replays);
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->items.n; i++) {
    r->items.v[i].waits = r->items.v[i].nbefore;
    if (!r->items.v[i].waits) r->ready[n++] = i;
  }
  while (n) {
    seed = tn__hash_mix(seed, n);
    uint32_t at = (uint32_t)(seed >> 32) % n, now = r->ready[at];
    r->ready[at] = r->ready[--n];
    tn_status status = run_item(d, r, &r->items.v[now]);
    if (status != TN_OK) return status;
    for (uint32_t k = 0; k < r->items.v[now].nthen; k++) {
      uint32_t next = r->items.v[now].then[k];
      if (!--r->items.v[next].waits) r->ready[n++] = next;
    }
  }
  return TN_OK;
}
