#include "support/cost.h"
#include "lower/lower.h"
#include "render/dialect.h"
#include "support/library.h"
#include "tenet_embed.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VECTOR_BYTES = 64, PROCESSORS = 8, DEPTH = 128 };

const char *const cost_name[COST_FIGURES] = {"kernels", "launches", "submitted", "recorded", "waits",
                                             "calls",   "called",   "work",      "path",     "read",
                                             "written", "local",    "barriers",  "lines",    "text",
                                             "memory"};

/* ---- linear programs --------------------------------------------------------------------------------------------- */

typedef struct level { /* inside of one more loop */
  const tn_node *range;
  double times, lanes; /* turns of all loops but those over lanes; lanes */
} level;

typedef struct nest {
  const tn__part *part;
  level level[DEPTH];
  uint32_t depth;
  double inside, outside; /* what one thread does, in the loop that is shared out and beside it */
} nest;

static double turns(const tn_node *range) { return range->src[0]->hi > 0 ? (double)range->src[0]->hi : 0; }

static double rounded_up(double x, double by) { return (double)(int64_t)((x + by - 1) / by); }

static double at_least(double x, double least) { return x > least ? x : least; }

/* Bytes of an element in a vector */
static double width(const tn_node *n) {
  const tn_node *x = n->op == OP_STORE || n->op == OP_STOREADD || n->op == OP_SETACC ? n->src[0] : n;
  if (x->dtype == TN__INDEX) return x->lo >= INT32_MIN && x->hi <= INT32_MAX ? 4 : 8;
  return x->dtype == TN_F16 || x->dtype == TN_BF16 ? 4 : (double)tn__size_of(x->dtype);
}

static double price(const tn_node *n) {
  switch (n->op) {
  case OP_STOREADD: return 3 + (tn__gate_of(n) != NULL);
  case OP_LOAD:
  case OP_STORE: return 1 + (tn__gate_of(n) != NULL);
  case OP_SETACC: return n->src[1]->op == OP_LIST ? 1 : tn__ops[n->ints[0]].cost;
  case OP_GETACC: { /* lanes are combined by halves */
    double halvings = 0;
    for (int64_t h = n->nsrc > 2 ? 0 : n->src[0]->ints[1] / 2; h; h /= 2) halvings++;
    return 1 + halvings * tn__ops[n->ints[0]].cost;
  }
  default: return tn__ops[n->op].cost;
  }
}

/* The groups, or the slices, of a part */
static double shares(const nest *s) { return s->part->global ? turns(s->part->global) : 1; }

static void count(nest *s, const tn_node *n, bool in, cost *sum) {
  const level *at = &s->level[s->depth];
  bool group = s->part->group > 0;
  double each = price(n), times = at->times * (group && !in ? shares(s) : 1);
  if (tn__is_access(n) && at->range && tn__axis_of(at->range) == AX_UNROLL && tn__is_packed(n, at->range))
    each /= turns(at->range); /* one wide access */
  double vectors = group ? at->lanes : rounded_up(at->lanes * (at->lanes > 1 ? width(n) : 1), VECTOR_BYTES);
  if (at->lanes <= 1) vectors = 1;
  sum->of[COST_WORK] += each * times * vectors;
  *(in ? &s->inside : &s->outside) += each * at->times * (group ? rounded_up(at->lanes, s->part->group) : vectors);
  if (n->op == OP_BARRIER) sum->of[COST_BARRIERS] += times;
  if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) return;
  double bytes = times * at->lanes * (double)tn__size_of(n->src[0]->dtype);
  if (n->op != OP_STORE) sum->of[COST_READ] += bytes;
  if (n->op != OP_LOAD) sum->of[COST_WRITTEN] += bytes;
}

static void enter(nest *s, const tn_node *range) {
  const level *at = &s->level[s->depth];
  bool lanes = tn__axis_of(range) == AX_UPCAST;
  if (s->depth + 1 == DEPTH) abort();
  s->level[++s->depth] = (level){range, at->times * (lanes ? 1 : turns(range)), at->lanes * (lanes ? turns(range) : 1)};
}

static void add_part(const tn__target *t, const tn__part *p, cost *sum) {
  nest s = {.part = p, .level[0] = {.times = 1, .lanes = 1}};
  bool in = false;
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if (n->op == OP_END) {
      s.depth--;
      in &= n->src[0] != p->global;
      continue;
    }
    if (n->op == OP_RANGE) enter(&s, n), in |= n == p->global;
    count(&s, n, in, sum);
  }
  double all = shares(&s), most = p->group ? t->units : PROCESSORS, grain = p->group ? 1 : (double)p->grain;
  double side_by_side = at_least((double)(int64_t)(all / at_least(grain, 1)), 1);
  if (side_by_side > most) side_by_side = most;
  sum->of[COST_PATH] += s.outside + (all > 0 ? s.inside / all * rounded_up(all, side_by_side) : 0);
}

void cost_of_kernel(const tn__target *t, const tn__kernel *k, cost *sum) {
  for (uint32_t p = 0; p < k->nparts; p++) add_part(t, &k->part[p], sum);
  sum->of[COST_LOCAL] += (double)k->scratch;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Loops to a bound that the text names have so many turns; a helper function does what so many words do. */
enum { NAMED_BOUND = 64, HELPER = 4 };

typedef struct line {
  const char *at;
  uint32_t n;
  double times;
} line;

typedef struct function {
  tn_ctx *c;
  tn__vec(line) lines;
  tn__map used; /* words, by their hash */
  double shares;
} function;

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* A number, -1: something else. */
static double number_at(const char *s) {
  char *end;
  double v = strtod(s, &end);
  return end > s ? v : -1;
}

/* Turns of the loop whose head is the line. */
static double turns_of(const function *f, const char *head) {
  const char *from = strchr(head, '('), *test = strchr(from, ';'), *step = test ? strchr(test + 1, ';') : NULL;
  const char *first = strchr(from, '='), *bound = test ? strchr(test, '<') : NULL;
  if (!step || !bound || bound > step) return NAMED_BOUND;
  const char *by = strstr(step, "+= ");
  double start = first && first < test ? number_at(first + 2) : 0, size = by ? number_at(by + 3) : 1;
  double end = number_at(bound + 1 + (bound[1] == '='));
  bool several = by && by[3] == '(' && isdigit((unsigned char)by[8]); /* groups of one of the parts of a launch */
  if (several && end >= 0) return end;
  if (size <= 0 || !strncmp(bound, "< hi;", 5)) return f->shares;
  if (end < 0 || start < 0) return at_least(NAMED_BOUND / size, 1);
  return rounded_up(end - start, size);
}

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

/* The lines from the head of a function to its end, and how often each of them is done. */
static void read_lines(function *f, const char *text) {
  double times[DEPTH] = {1}, once = 1; /* once: for the line that follows */
  uint32_t depth = 0;
  for (const char *at = text; *at;) {
    const char *end = strchr(at, '\n'), *next = end ? end + 1 : at + strlen(at);
    while (*at == ' ') at++;
    uint32_t n = (uint32_t)((end ? end : next) - at);
    bool loop = starts(at, "for ("), open = n && at[n - 1] == '{', head = (loop || starts(at, "if (")) && !open;
    double turns = loop ? turns_of(f, at) : 1, now = times[depth] * once;
    once = head && at[n - 1] != ';' ? once * turns : 1;
    if (at[0] != '#') tn__vec_push(&f->c->scratch, &f->lines, ((line){at, n, now * turns}));
    for (uint32_t i = 0; i < n; i++) {
      if (at[i] == '{' && depth + 1 < DEPTH) times[depth + 1] = now * turns, depth++;
      if (at[i] == '}' && depth && !--depth) return;
    }
    at = next;
  }
}

static uint64_t key_of(const char *s, size_t n) { return tn__hash_bytes(s, n, 0) | 1; }

/* Does it name a value that no later line reads?  The language's compiler drops it. */
static bool is_dead(const function *f, const line *l) {
  const char *is = NULL;
  if (!starts(l->at, "const ")) return false;
  for (uint32_t i = 0; i + 2 < l->n && !is; i++)
    if (!memcmp(l->at + i, " = ", 3)) is = l->at + i;
  const char *name = is;
  while (name && name > l->at && is_word(name[-1])) name--;
  return is && !tn__map_get(&f->used, key_of(name, (size_t)(is - name)), NULL);
}

/* Words and operators of a line, and what its helper functions do behind a name; its words are in use from now on. */
static double read_words(function *f, const line *l) {
  double n = 0;
  for (uint32_t i = 0; i < l->n;) {
    uint32_t from = i;
    while (i < l->n && is_word(l->at[i])) i++;
    if (i > from) {
      tn__map_put(&f->used, key_of(l->at + from, i - from), 1);
      n += i < l->n && l->at[i] == '(' && starts(l->at + from, "tn_") ? HELPER : 1;
      continue;
    }
    while (i < l->n && strchr("+-*/%<>=!&|^?~", l->at[i])) i++;
    if (i > from) n++;
    else i++;
  }
  return n;
}

double cost_of_text(tn_ctx *c, const char *unit, const tn__kernel *k) {
  double sum = 0;
  for (uint32_t p = 0; p < k->nparts; p = tn__launch_end(k, p)) {
    char name[256];
    snprintf(name, sizeof name, " %s_%u(", k->name, p);
    const char *head = strstr(unit, name);
    function f = {.c = c, .shares = k->part[p].global ? turns(k->part[p].global) : 1};
    if (!head) abort();
    tn__map_init(&f.used, &f.c->scratch);
    read_lines(&f, head);
    for (uint32_t i = f.lines.n; i-- > 1;)
      if (!is_dead(&f, &f.lines.v[i])) sum += f.lines.v[i].times * read_words(&f, &f.lines.v[i]);
  }
  return sum;
}

double cost_lines(const char *unit) {
  static const char *const functions[] = {tn__embed_math_inc, tn__embed_math_f64_inc};
  double sum = 0;
  for (const char *at = unit; *at; sum++) {
    const char *end = strchr(at, '\n'), *next = end ? end + 1 : at + strlen(at);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
      size_t length = strlen(functions[i]);
      if (!strncmp(at, functions[i], length)) next = at + length;
    }
    at = next;
  }
  return sum;
}

/* ---- a device that is watched ------------------------------------------------------------------------------------ */

typedef struct unit {
  uint32_t n;
  cost each[]; /* by kernel: of a launch */
} unit;

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  cost sum;
  double memory;   /* now */
  cost *recording; /* NULL: what is asked for is done at once */
} watched;

static cost *to_do(void) { return watched.recording ? watched.recording : &watched.sum; }

static tn_status submit(void) {
  if (!watched.recording) watched.sum.of[COST_SUBMITTED]++;
  return TN_OK;
}

typedef struct printing {
  const tn__device *d;
  tn__kernel *const *kernels;
  unit *u;
} printing;

static void print_kernels(tn_ctx *c, void *arg) {
  const printing *p = arg;
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  tn__render_unit(c, &text, p->d->dialect ? p->d->dialect : &tn__dialect_c, p->kernels, p->u->n);
  const char *unit_text = tn__sb_str(&text);
  watched.sum.of[COST_LINES] += cost_lines(unit_text);
  for (uint32_t i = 0; i < p->u->n; i++) p->u->each[i].of[COST_TEXT] = cost_of_text(c, unit_text, p->kernels[i]);
}

static tn__code *compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  unit *u = calloc(1, sizeof *u + n * sizeof *u->each);
  if (!u) abort();
  u->n = n;
  for (uint32_t i = 0; i < n; i++) cost_of_kernel(&d->target, kernels[i], &u->each[i]);
  tn__ctx_run(d->ctx, "print", print_kernels, &(printing){d, kernels, u});
  watched.sum.of[COST_KERNELS] += n;
  return (tn__code *)(void *)u;
}

static void release(tn__device *d, tn__code *code) {
  (void)d;
  free(code);
}

static tn_status launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                        const int64_t *var) {
  const unit *u = (const unit *)(const void *)code;
  (void)d, (void)buf, (void)bytes, (void)var;
  to_do()->of[COST_LAUNCHES]++;
  for (int f = 0; f < COST_FIGURES; f++) to_do()->of[f] += u->each[i].of[f];
  return submit();
}

static void *take(tn__device *d, size_t size) {
  watched.memory += (double)size;
  watched.sum.of[COST_MEMORY] = at_least(watched.sum.of[COST_MEMORY], watched.memory);
  return watched.real->alloc(d, size);
}

static void give(tn__device *d, void *p, size_t size) {
  watched.memory -= (double)size;
  watched.real->free(d, p, size);
}

static bool does_after(tn__device *d, int dtype, tn__after after) { return (void)d, (void)after, tn__is_float(dtype); }

static tn_status call(double multiplications) {
  to_do()->of[COST_CALLS]++;
  to_do()->of[COST_CALLED] += multiplications;
  return submit();
}

static tn_status multiply(tn__device *d, const tn__product *g) {
  (void)d;
  return call((double)g->m * (double)g->n * (double)g->k * (double)g->batch);
}

static tn_status convolve(tn__device *d, const tn__conv_call *v) {
  double n = 1;
  (void)d;
  for (int i = 0; i < CONV_DIMS; i++) n *= i == CONV_H || i == CONV_W ? 1 : (double)v->size[i];
  return call(n);
}

static tn_status record(tn__device *d) {
  (void)d;
  watched.recording = calloc(1, sizeof *watched.recording);
  if (!watched.recording) abort();
  watched.sum.of[COST_RECORDED]++;
  return TN_OK;
}

static tn_status wait_for(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                          int urgent) {
  (void)d, (void)item, (void)before, (void)early, (void)urgent;
  watched.sum.of[COST_WAITS] += n;
  return TN_OK;
}

static tn__recording *recorded(tn__device *d) {
  cost *sum = watched.recording;
  (void)d;
  watched.recording = NULL;
  return (tn__recording *)(void *)sum;
}

static tn_status replay(tn__device *d, tn__recording *r) {
  const cost *sum = (const cost *)(const void *)r;
  (void)d;
  for (int f = 0; f < COST_FIGURES; f++) watched.sum.of[f] += sum->of[f];
  return submit();
}

static void forget(tn__device *d, tn__recording *r) {
  (void)d;
  free(r);
}

void cost_watch(tn__device *d, bool library) {
  watched.real = d->ops;
  watched.ops = *d->ops;
  watched.sum = (cost){0};
  watched.memory = 0;
  watched.ops.compile = compile;
  watched.ops.release = release;
  watched.ops.launch = launch;
  watched.ops.alloc = take;
  watched.ops.free = give;
  watched.ops.has_gemm = library ? library_takes : NULL;
  watched.ops.has_after = library ? does_after : NULL;
  watched.ops.gemm = library ? multiply : NULL;
  watched.ops.has_conv = library ? library_takes : NULL;
  watched.ops.conv = library ? convolve : NULL;
  watched.recording = NULL;
  if (d->ops->record) {
    watched.ops.record = record;
    watched.ops.after = d->ops->after ? wait_for : NULL;
    watched.ops.recorded = recorded;
    watched.ops.replay = replay;
    watched.ops.forget = forget;
  }
  d->ops = &watched.ops;
}

cost cost_taken(void) {
  cost c = watched.sum;
  watched.sum = (cost){.of[COST_MEMORY] = watched.memory};
  return c;
}
