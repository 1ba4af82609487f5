/* What devices receive, under TENET_VERIFY: while a plan runs, its device has a table of operations of this file, which
 * holds each call against the schedule before it passes it on.  What a call should be is worked out here, from the
 * schedule and the buffers, and not taken from what bind.c, execute.c and record.c made ready:
 *
 *   the calls       one for each item, in the schedule's order; a kernel's or a library's
 *   the arguments   each slot's memory and size, each variable's value; a library call's operands and numbers
 *   the libraries   a few elements of what each call gives, unless it is recorded (library_check.h)
 *   the memory      temporaries that live at one time stand apart, within the arena buffer; inputs and outputs are as
 *                   large as the kernels believe; nothing is written where an input stands
 *   recordings      the order that the device is told keeps apart what meets in memory; what is replayed was recorded
 *                   of what should run now */
#include "run/bound_check.h"
#include "run/library_check.h"
#include "run/plan.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct area { /* a buffer of the schedule, or a kernel's scratch */
  char *mem;
  size_t bytes;
  int64_t first, last; /* items that use it; -1: none */
} area;

struct tn__received {
  tn_ctx *c;
  tn__mem mem;            /* of its own: what is counted elsewhere are the runs */
  tn__arena scratch;
  tn__plan *p;
  tn__buffer *const *in, *const *out;
  const tn__device_ops *real;
  tn__device_ops ops;
  area *area;
  uint32_t next;          /* item */
  tn__order_item *order;  /* what the device was told, by item; NULL: it keeps the order of the calls */
  bool recording, replayed, failed;
};

static tn_status refuse(struct tn__received *r, const char *what, int64_t n) {
  r->failed = true;
  tn__error(r->c, TN_ERUN, "internal: %s is asked for something else than the schedule says: item %u: %s %lld",
            r->p->dev->name, r->next, what, (long long)n);
  return TN_ERUN;
}

/* ---- what stands where ---- */

static size_t size_at(struct tn__received *r, tn_node *n) {
  tn__env env = {.key = r->p->var.v, .val = r->p->value, .n = r->p->var.n};
  return (size_t)tn__eval_index(n, &env, &r->scratch);
}

static uint32_t number_of(const tn__plan *p, int buf) {
  return buf >= 0 ? (uint32_t)buf : p->s->bufs.n + (uint32_t)(-1 - buf);
}

static void find_area(struct tn__received *r, uint32_t b) {
  const tn__plan *p = r->p;
  const tn__buf *x = b < p->s->bufs.n ? &p->s->bufs.v[b] : NULL;
  uint32_t scratch = x ? 0 : b - p->s->bufs.n;
  area *a = &r->area[b];
  a->bytes = x ? size_at(r, x->size) * tn__size_of(x->dtype)
               : size_at(r, p->scratch.v[scratch]) * tn__size_of(p->scratch_dtype.v[scratch]);
  a->first = a->last = -1;
  if (!x || x->kind == BUF_TEMP) a->mem = p->temp ? (char *)p->temp->mem + p->offset[b] : NULL;
  else a->mem = x->kind == BUF_INPUT ? r->in[x->slot]->mem : r->out[x->slot]->mem;
}

static bool is_temporary(const tn__plan *p, uint32_t b) {
  return b >= p->s->bufs.n || p->s->bufs.v[b].kind == BUF_TEMP;
}

static bool overlap(const area *x, const area *y) {
  return x->bytes && y->bytes && x->mem < y->mem + y->bytes && y->mem < x->mem + x->bytes;
}

/* Temporaries by the items that use them, each against those that are still wanted when it comes. */
static tn_status check_arena(struct tn__received *r, uint32_t n) {
  const tn__plan *p = r->p;
  uint32_t *live = tn__arena_alloc(&r->scratch, (n + 1) * sizeof *live), nlive = 0;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t j = 0; j < p->step[i].nbuf; j++) {
      uint32_t b = number_of(p, p->step[i].buf[j]), kept = 0;
      const area *a = &r->area[b];
      if (!is_temporary(p, b) || a->first != (int64_t)i) continue;
      r->next = i;
      if (a->bytes && (!p->temp || p->offset[b] + a->bytes > p->temp->size))
        return refuse(r, "outside of the memory of temporaries stands buffer", b);
      bool known = false;
      for (uint32_t k = 0; k < nlive; k++) {
        if (r->area[live[k]].last < (int64_t)i) continue;
        known |= live[k] == b;
        if (live[k] != b && overlap(&r->area[live[k]], a)) return refuse(r, "over another temporary stands buffer", b);
        live[kept++] = live[k];
      }
      nlive = kept;
      if (!known) live[nlive++] = b;
    }
  return TN_OK;
}

typedef struct outside { /* memory of an input or an output */
  const area *a;
  uint32_t buffer;
  bool written;
} outside;

static int by_address(const void *x, const void *y) {
  const area *a = ((const outside *)x)->a, *b = ((const outside *)y)->a;
  return a->mem < b->mem ? -1 : a->mem > b->mem;
}

/* Nothing stands where an output does: from the lowest on, each begins behind the end of all outputs, and an output
 * behind the end of all. */
static tn_status check_apart(struct tn__received *r, outside *x, uint32_t n) {
  const char *end = NULL, *written = NULL;
  uint32_t last = 0;
  if (n) qsort(x, n, sizeof *x, by_address);
  for (uint32_t i = 0; i < n; i++) {
    const char *from = x[i].a->mem, *to = from + x[i].a->bytes;
    if (from < (x[i].written ? end : written))
      return refuse(r, "an output stands where another value does: buffer", x[i].written ? x[i].buffer : last);
    if (to > end) end = to;
    if (x[i].written) written = to, last = x[i].buffer;
  }
  return TN_OK;
}

/* Does a shared output stand where its input does?  If not, it is a copy. */
static bool is_shared(struct tn__received *r, uint32_t b) {
  const tn__plan *p = r->p;
  const tn__buf *x = &p->s->bufs.v[b];
  const area *own = &r->area[b], *of = &r->area[x->of];
  size_t at = (size_t)x->from * tn__size_of(x->dtype), n = own->bytes;
  if (at + n > of->bytes) return false;
  if (own->mem == of->mem + at) return true;
  char *copy[2] = {tn__arena_alloc(&r->scratch, n + 1), tn__arena_alloc(&r->scratch, n + 1)};
  r->real->download(p->dev, copy[0], own->mem, n);
  r->real->download(p->dev, copy[1], of->mem + at, n);
  return !memcmp(copy[0], copy[1], n);
}

static tn_status check_outside(struct tn__received *r) {
  const tn__plan *p = r->p;
  outside *all = tn__arena_alloc(&r->scratch, (p->s->bufs.n + 1) * sizeof *all);
  uint32_t n = 0;
  for (uint32_t b = 0; b < p->s->bufs.n; b++) {
    const tn__buf *x = &p->s->bufs.v[b];
    if (x->kind == BUF_TEMP) continue;
    const tn__buffer *mine = x->kind == BUF_INPUT ? r->in[x->slot] : r->out[x->slot];
    if (mine->size < r->area[b].bytes) return refuse(r, "too little memory is given for buffer", b);
    if (x->kind == BUF_INPUT && (uintptr_t)mine->mem % TN__INPUT_ALIGN)
      return refuse(r, "is not where kernels expect memory to begin: buffer", b);
    if (x->shared && !is_shared(r, b)) return refuse(r, "the part of an input is not what stands in buffer", b);
    if (r->area[b].bytes) all[n++] = (outside){&r->area[b], b, x->kind == BUF_OUTPUT && !x->shared};
  }
  return check_apart(r, all, n);
}

static tn_status lay_out(struct tn__received *r) {
  const tn__plan *p = r->p;
  uint32_t n = p->s->bufs.n + p->scratch.n;
  r->area = tn__arena_alloc(&r->scratch, (n + 1) * sizeof *r->area);
  for (uint32_t b = 0; b < n; b++) find_area(r, b);
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t j = 0; j < p->step[i].nbuf; j++) {
      area *a = &r->area[number_of(p, p->step[i].buf[j])];
      if (a->first < 0) a->first = i;
      a->last = i;
    }
  tn_status status = check_arena(r, n);
  if (status == TN_OK) status = check_outside(r);
  r->next = 0;
  return status;
}

/* ---- calls ---- */

static tn_status check_launch(struct tn__received *r, const tn__code *code, uint32_t kernel, void *const *buf,
                              const size_t *bytes, const int64_t *var) {
  const tn__plan *p = r->p;
  if (r->next >= p->s->items.n) return refuse(r, "a kernel behind the last one of", p->s->items.n);
  const tn__item *it = &p->s->items.v[r->next];
  const tn__step *st = &p->step[r->next];
  if (code != p->code || st->kernel < 0 || kernel != (uint32_t)st->kernel) return refuse(r, "runs kernel", kernel);
  const tn__kernel *k = p->kernel[kernel];
  for (uint32_t j = 0; j < k->nbuf; j++) {
    uint32_t b = number_of(p, st->buf[j]);
    if (j < it->nbuf && it->buf[j] != (int)b) return refuse(r, "has another buffer in slot", j);
    if (buf[j] != r->area[b].mem) return refuse(r, "is given other memory in slot", j);
    if (bytes[j] != r->area[b].bytes) return refuse(r, "is told another size of slot", j);
  }
  for (uint32_t v = 0; v < k->nvar; v++) {
    uint32_t x = 0;
    while (x < p->var.n && p->var.v[x] != k->var[v]) x++;
    if (x == p->var.n || var[v] != p->value[x]) return refuse(r, "is given another value for variable", v);
  }
  r->next++;
  return TN_OK;
}

/* An operand of a library call: `span` elements from `offset` on of this buffer. */
static bool is_operand(const struct tn__received *r, const void *given, int buf, size_t offset, int dtype,
                       int64_t span) {
  const area *a = &r->area[number_of(r->p, buf)];
  size_t size = tn__size_of(dtype);
  return given == a->mem + offset * size && (span <= 0 || (offset + (size_t)span) * size <= a->bytes);
}

static int64_t span_of(int64_t batch, int64_t stride, int64_t rows, int64_t ld, int64_t columns) {
  return batch > 0 && rows > 0 && columns > 0 ? (batch - 1) * stride + (rows - 1) * ld + columns : 0;
}

static bool is_product(struct tn__received *r, const tn__gemm *w, const tn__product *g) {
  int64_t m = (int64_t)size_at(r, w->m), n = (int64_t)size_at(r, w->n), k = (int64_t)size_at(r, w->k);
  int64_t batch = (int64_t)size_at(r, w->batch);
  bool sizes = g->dtype == w->dtype && g->m == m && g->n == n && g->k == k && g->batch == batch &&
               g->after == w->after && g->beta >= 0 && g->beta <= 0;
  bool steps = g->trans_a == w->a.trans && g->trans_b == !w->b.trans && g->ldc == (n > 0 ? n : 1) &&
               g->stride_c == m * n && g->lda == (int64_t)size_at(r, w->a.ld) &&
               g->ldb == (int64_t)size_at(r, w->b.ld) && g->stride_a == (int64_t)size_at(r, w->a.batch_stride) &&
               g->stride_b == (int64_t)size_at(r, w->b.batch_stride);
  int64_t a = g->trans_a ? span_of(batch, g->stride_a, k, g->lda, m) : span_of(batch, g->stride_a, m, g->lda, k);
  int64_t b = g->trans_b ? span_of(batch, g->stride_b, n, g->ldb, k) : span_of(batch, g->stride_b, k, g->ldb, n);
  return sizes && steps && is_operand(r, g->a, w->a.buf, size_at(r, w->a.offset), w->dtype, a) &&
         is_operand(r, g->b, w->b.buf, size_at(r, w->b.offset), w->dtype, b) &&
         is_operand(r, g->c, w->c, 0, w->dtype, batch * m * n) &&
         (w->row < 0 ? !g->row : is_operand(r, g->row, w->row, 0, w->dtype, n));
}

static bool is_conv(struct tn__received *r, const tn__conv *w, const tn__conv_call *v) {
  bool same = v->dtype == w->dtype && v->kind == w->kind && v->channels_last == w->channels_last && v->beta >= 0 &&
              v->beta <= 0;
  for (int d = 0; d < CONV_DIMS; d++) same &= v->size[d] == (int64_t)size_at(r, w->size[d]);
  for (int d = 0; d < 2; d++)
    same &= v->stride[d] == w->stride[d] && v->pad[d] == w->pad[d] && v->dilation[d] == w->dilation[d];
  for (int o = 0; o < 3; o++) {
    int64_t n = 1;
    for (int d = 0; d < 4; d++) n *= v->size[tn__conv_dims[o][d]];
    same &= is_operand(r, v->operand[o], w->operand[o].buf, size_at(r, w->operand[o].offset), w->dtype, n);
  }
  return same;
}

static tn_status check_library(struct tn__received *r, const tn__product *g, const tn__conv_call *v) {
  const tn__plan *p = r->p;
  const tn__item *it = r->next < p->s->items.n ? &p->s->items.v[r->next] : NULL;
  if (!it || p->step[r->next].kernel >= 0 || !(g ? it->gemm != NULL : it->conv != NULL))
    return refuse(r, "a call of a library, of items", p->s->items.n);
  if (g && !is_product(r, it->gemm, g)) return refuse(r, "has other operands or sizes, a product of rows", g->m);
  if (v && !is_conv(r, it->conv, v)) return refuse(r, "has other operands or sizes, a convolution of kind", v->kind);
  r->next++;
  return TN_OK;
}

/* ---- order and recordings ---- */

/* What items touch, and the waits that the device was told: is what meets in memory in order? */
static tn_status check_order(struct tn__received *r) {
  const tn__plan *p = r->p;
  uint32_t x, y;
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__order_item *o = &r->order[i];
    const tn__step *st = &p->step[i];
    o->touch = tn__arena_alloc(&r->scratch, (st->nbuf + 1) * sizeof *o->touch);
    o->n = st->nbuf;
    o->library = st->kernel < 0;
    for (uint32_t j = 0; j < st->nbuf; j++) {
      const area *a = &r->area[number_of(p, st->buf[j])];
      uint64_t lo = (uint64_t)(uintptr_t)a->mem;
      const bool writes = st->kernel >= 0 ? p->kernel[st->kernel]->buf_written[j] : j < p->s->items.v[i].nout;
      o->touch[j] = (tn__touch){.lo = lo, .hi = lo + a->bytes, .write = writes};
    }
  }
  if (tn__order_holds(&r->scratch, r->order, p->s->items.n, &x, &y)) return TN_OK;
  r->next = y;
  return refuse(r, "nothing orders it behind item", x);
}

/* All that a recording of the plan hangs on: where everything stands, and the sizes. */
static uint64_t digest(const struct tn__received *r) {
  const tn__plan *p = r->p;
  uint64_t h = tn__hash_mix((uint64_t)(uintptr_t)p->code, p->s->items.n);
  for (uint32_t b = 0; b < p->s->bufs.n + p->scratch.n; b++)
    h = tn__hash_mix(tn__hash_mix(h, (uint64_t)(uintptr_t)r->area[b].mem), r->area[b].bytes);
  for (uint32_t v = 0; v < p->var.n; v++) h = tn__hash_mix(h, (uint64_t)p->value[v]);
  return h;
}

typedef struct tn__made_of { /* a recording: what it was made of; kept for as long as the plan, and used again */
  struct tn__made_of *next;
  const tn__recording *work; /* NULL: free */
  uint64_t digest;
} made_of;

static made_of *find_recording(const struct tn__received *r, const tn__recording *work) {
  made_of *m = r->p->made_of;
  while (m && m->work != work) m = m->next;
  return m;
}

static void note_recording(struct tn__received *r, const tn__recording *work) {
  made_of *m = find_recording(r, work);
  if (!m) m = find_recording(r, NULL);
  if (!m) {
    m = tn__arena_zalloc(&r->p->arena, sizeof *m);
    m->next = r->p->made_of;
    r->p->made_of = m;
  }
  m->work = work;
  m->digest = digest(r);
}

/* ---- the table ---- */

static struct tn__received *of(const tn__device *d) { return d->ctx->runtime->received; }

static tn_status receive_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                                const int64_t *var) {
  struct tn__received *r = of(d);
  tn_status status = check_launch(r, code, i, buf, bytes, var);
  return status == TN_OK ? r->real->launch(d, code, i, buf, bytes, var) : status;
}

/* What cannot be told is said, once for each call, and is counted. */
static tn_status note_untold(struct tn__received *r, const char *what, const char *why) {
  tn_ctx *c = r->c;
  c->runtime->calls[CALLS_UNTOLD]++;
  if (!strcmp(c->opt.verify, "strict")) {
    tn__error(c, TN_ERUN, "a library's %s, item %u, cannot be worked out again: %s", what, r->next - 1, why);
    return TN_ERUN;
  }
  fprintf(stderr, "tenet: %s: a library's %s, item %u, is not worked out again: %s\n", r->p->dev->name, what,
          r->next - 1, why);
  return TN_OK;
}

static tn_status check_result(struct tn__received *r, const tn__product *g, const tn__conv_call *v) {
  const char *why, *what = g ? "product" : "convolution";
  int64_t element;
  uint32_t *calls = r->c->runtime->calls;
  if (r->recording) return calls[CALLS_RECORDED]++, TN_OK;
  tn__mark work = tn__arena_mark(&r->scratch);
  tn__recomputed said = g ? tn__recompute_product(r->p->dev, &r->scratch, g, &element, &why)
                            : tn__recompute_conv(r->p->dev, &r->scratch, v, &element, &why);
  tn__arena_rewind(&r->scratch, work);
  if (said == TN__RECOMPUTED_UNTOLD) return note_untold(r, what, why);
  calls[CALLS_RIGHT] += said == TN__RECOMPUTED_RIGHT;
  return said == TN__RECOMPUTED_RIGHT ? TN_OK
         : g ? refuse(r, "the library's product is another one at element", element)
             : refuse(r, "the library's convolution is another one at element", element);
}

static tn_status receive_gemm(tn__device *d, const tn__product *g) {
  struct tn__received *r = of(d);
  tn_status status = check_library(r, g, NULL);
  if (status == TN_OK) status = r->real->gemm(d, g);
  return status == TN_OK ? check_result(r, g, NULL) : status;
}

static tn_status receive_conv(tn__device *d, const tn__conv_call *v) {
  struct tn__received *r = of(d);
  tn_status status = check_library(r, NULL, v);
  if (status == TN_OK) status = r->real->conv(d, v);
  return status == TN_OK ? check_result(r, NULL, v) : status;
}

static tn_status receive_record(tn__device *d) {
  struct tn__received *r = of(d);
  r->recording = true;
  return r->real->record(d);
}

static tn_status receive_after(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                               int urgent) {
  struct tn__received *r = of(d);
  uint32_t items = r->p->s->items.n;
  if (item != r->next || item >= items) return refuse(r, "out of turn comes item", item);
  if (early[0] && n != 1) return refuse(r, "may be there early, but waits for items:", n);
  if (!r->order) r->order = tn__arena_zalloc(&r->scratch, (items + 1) * sizeof *r->order);
  for (uint32_t i = 0; i < n; i++)
    if (before[i] >= item) return refuse(r, "is to wait for item", before[i]);
  r->order[item].before = tn__arena_dup(&r->scratch, before, (n + 1) * sizeof *before);
  r->order[item].nbefore = n;
  return r->real->after(d, item, before, n, early, urgent);
}

static tn__recording *receive_recorded(tn__device *d) {
  struct tn__received *r = of(d);
  tn__recording *work = r->real->recorded(d);
  if (work && r->next == r->p->s->items.n) note_recording(r, work);
  return work;
}

static tn_status receive_replay(tn__device *d, tn__recording *work) {
  struct tn__received *r = of(d);
  const made_of *m = find_recording(r, work);
  if (r->replayed || r->next != (r->recording ? r->p->s->items.n : 0))
    return refuse(r, "replays, of items", r->p->s->items.n);
  if (!m || m->digest != digest(r)) return refuse(r, "a recording of other memory or sizes is replayed, of items",
                                                  r->p->s->items.n);
  tn_status status = r->order ? check_order(r) : TN_OK;
  r->replayed = true;
  return status == TN_OK ? r->real->replay(d, work) : status;
}

static void receive_forget(tn__device *d, tn__recording *work) {
  struct tn__received *r = of(d);
  made_of *m = find_recording(r, work);
  if (m) m->work = NULL;
  r->real->forget(d, work);
}

/* ---- a run ---- */

typedef struct running {
  struct tn__received *r;
  bool replays;
  tn_status status;
} running;

static void run_plan(void *arg) {
  running *k = arg;
  struct tn__received *r = k->r;
  r->mem.top = r->c->mem.top;
  k->status = lay_out(r);
  if (k->status != TN_OK) return;
  k->status = k->replays ? tn__plan_submit(r->c, r->p, r->in, r->out)
                         : tn__plan_run_items(r->c, r->p, r->in, r->out, NULL);
  bool done = r->replayed || (!r->recording && r->next == r->p->s->items.n);
  if (k->status == TN_OK && (r->failed || !done)) k->status = refuse(r, "never comes, of items", r->p->s->items.n);
  tn__bound_note(r->c, r->p->key, r->in, r->out);
}

static tn_status receive(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out, bool replays) {
  tn__device *d = p->dev;
  struct tn__received r = {.c = c, .p = p, .in = in, .out = out, .real = d->ops, .ops = *d->ops};
  running k = {.r = &r, .replays = replays};
  tn_status thrown;
  r.ops.launch = receive_launch;
  if (r.real->gemm) r.ops.gemm = receive_gemm;
  if (r.real->conv) r.ops.conv = receive_conv;
  if (r.real->after) r.ops.after = receive_after;
  if (r.real->record) {
    r.ops.record = receive_record;
    r.ops.recorded = receive_recorded;
    r.ops.replay = receive_replay;
    r.ops.forget = receive_forget;
  }
  tn__arena_init(&r.scratch, &r.mem);
  d->ops = &r.ops;
  c->runtime->received = &r;
  tn__mem_try(&c->mem, run_plan, &k, &thrown);
  c->runtime->received = NULL;
  d->ops = r.real;
  tn__arena_free(&r.scratch);
  if (thrown != TN_OK) tn__mem_throw(&c->mem, thrown);
  return k.status;
}

tn_status tn__plan_run(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  return c->opt.verify ? receive(c, p, in, out, false) : tn__plan_run_items(c, p, in, out, NULL);
}

tn_status tn__plan_replay(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  return c->opt.verify ? receive(c, p, in, out, true) : tn__plan_submit(c, p, in, out);
}
