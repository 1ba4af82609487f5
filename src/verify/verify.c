#include "verify/verify.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "verify/bounds.h"
#include "verify/concurrency.h"
#include "verify/graph.h"
#include "verify/library.h"
#include "verify/machine.h"
#include <math.h>
#include <string.h>

enum { LITTLE_WORK = 100000, MOST_STEPS = 40000000, MOST_BYTES = 8 << 20, TRIES = 300, SMALL = 12 };

struct tn__verify {
  tn_ctx *c;
  const tn__verify_subject *s;
  tn__checked *kernel; /* by item */
  tn__verdict verdict;
  uint32_t equal;      /* worlds in which all is equal */
  tn__sb open;
};

/* One world, on its way. */
typedef struct trial {
  tn__verify *v;
  tn__world w;
  tn__machine m;
  tn__sb why;
  tn__image *want;
  tn__block *memory; /* by block; temporaries: all the first one */
  double tolerance;  /* of numbers, in parts of the greatest one of an output */
  tn__block arena;
  tn__span *span;    /* by block */
} trial;

/* ---- opening ---- */

tn__verify *tn__verify_open(tn_ctx *c, const tn__verify_subject *s) {
  tn__verify *v = tn__arena_zalloc(&c->scratch, sizeof *v);
  *v = (tn__verify){.c = c, .s = s, .kernel = tn__arena_zalloc(&c->scratch, (s->nitem + 1) * sizeof *v->kernel)};
  tn__sb_init(&v->open, &c->scratch);
  for (uint32_t i = 0; i < s->nitem; i++) {
    const tn__verify_item *it = &s->item[i];
    tn__checked *k = &v->kernel[i];
    tn_node **size = tn__alloc(c, (it->nbuf + 1) * sizeof *size);
    for (uint32_t b = 0; b < it->nbuf; b++) size[b] = s->block[it->block[b]].size;
    k->kernel = it->kernel;
    const char *wrong = tn__concurrency_check(c, it->kernel);
    if (!wrong) wrong = tn__writers_prove(c, it->kernel, s->needs, &v->verdict.writers, &v->open);
    tn__bounds b = {.size = size, .nbuf = it->nbuf, .needs = s->needs};
    const char *loose =
        tn__bounds_prove(c, it->kernel, &b, &v->verdict.accesses, &v->verdict.proved, &v->open);
    if (!wrong) wrong = loose;
    if (wrong) v->verdict = (tn__verdict){.result = TN__VERIFY_DIFFERS, .why = wrong};
    tn__encode(c, &c->scratch, it->kernel, &k->code);
    for (uint32_t p = 0; p < k->code.nparts; p++) k->seen[p] = tn__arena_zalloc(&c->scratch, k->code.part[p].n + 1);
  }
  return v;
}

/* ---- sizes ---- */

static bool holds(tn_ctx *c, const tn__constraint_list *needs, const tn__env *env) {
  for (uint32_t i = 0; i < needs->n; i++) {
    int64_t left = tn__eval_index(needs->v[i].left, env, &c->scratch),
            right = tn__eval_index(needs->v[i].right, env, &c->scratch);
    if (needs->v[i].equal ? left != right : left > right) return false;
  }
  return true;
}

bool tn__verify_sizes(tn_ctx *c, tn_node *const *var, uint32_t n, const tn__constraint_list *needs, uint32_t world,
                      int64_t *value) {
  for (uint32_t t = 0; t < TRIES; t++) {
    for (uint32_t i = 0; i < n; i++) {
      uint64_t h = tn__hash_mix(world * TRIES + t, i), room = (uint64_t)(var[i]->hi - var[i]->lo);
      uint64_t more = t == 0 && world == TN__VERIFY_LEAST ? 0 : t == 0 && world == TN__VERIFY_GREATEST ? room : h;
      value[i] = var[i]->lo + (int64_t)(more % ((room > SMALL ? SMALL : room) + 1));
    }
    if (holds(c, needs, &(tn__env){.key = var, .val = value, .n = n})) return true;
  }
  return false;
}

/* ---- one world ---- */

void tn__verify_give_up(tn__verify *v, const char *why) {
  v->verdict.result = TN__VERIFY_UNKNOWN;
  v->verdict.why = why;
}

static bool too_large(tn__verify *v, const char *why, double n) {
  tn__sb s;
  tn__sb_init(&s, &v->c->scratch);
  tn__sb_printf(&s, "%s%.0f", why, n);
  tn__verify_give_up(v, tn__sb_str(&s));
  v->verdict.large = true;
  return false;
}

static bool differs(trial *t) {
  t->v->verdict.result = TN__VERIFY_DIFFERS;
  t->v->verdict.why = tn__sb_str(&t->why);
  return false;
}

static uint32_t grain_of(const tn__verify_subject *s) {
  uint32_t least = 8;
  for (uint32_t b = 0; b < s->nblock; b++)
    if (s->block[b].kind == BUF_TEMP && tn__size_of(s->block[b].dtype) < least)
      least = (uint32_t)tn__size_of(s->block[b].dtype);
  return least;
}

static double bytes_of(const tn__verify_subject *s) {
  double bytes = (double)s->arena / grain_of(s);
  for (uint32_t b = 0; b < s->nblock; b++)
    if (s->block[b].kind != BUF_TEMP) bytes += (double)s->block[b].bytes / (double)tn__size_of(s->block[b].dtype);
  return bytes;
}

static void open_memory(trial *t) {
  const tn__verify_subject *s = t->v->s;
  tn__arena *a = &t->v->c->scratch;
  t->memory = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *t->memory);
  t->span = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *t->span);
  tn__block_open(a, &t->arena, s->arena, grain_of(s));
  for (uint32_t b = 0; b < s->nblock; b++) {
    const tn__verify_block *x = &s->block[b];
    size_t size = tn__size_of(x->dtype);
    bool temp = x->kind == BUF_TEMP;
    t->span[b] =
        (tn__span){.block = temp ? &t->arena : &t->memory[b], .offset = temp ? x->offset : 0, .bytes = x->bytes};
    if (!temp) tn__block_open(a, &t->memory[b], x->bytes, (uint32_t)size);
    for (size_t i = 0; x->kind == BUF_INPUT && i < x->bytes / size; i++)
      tn__block_put(&t->memory[b], i * size, x->dtype, tn__val_input(&t->w, x->dtype, x->slot, (int64_t)i));
  }
}

static tn__val at(const trial *t, int block, int64_t element, int dtype) {
  return tn__span_get(&t->span[block], element, dtype);
}

/* Numbers agree where they are far closer than what rounding constants may change.  What is no number on the graph's
 * side says nothing: rules over the reals may give it one. */
static bool agree(const trial *t, int dtype, tn__val want, tn__val got, double scale) {
  if (t->w.exact && want.kind == TN__VAL_BITS && got.kind == TN__VAL_BITS && want.v != got.v) /* zeros have signs */
    return tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, want.v)) && isnan(tn__eval_to_double(dtype, got.v));
  if (!t->w.numeric || !tn__is_float(dtype) || got.kind == TN__VAL_NONE) return tn__val_same(dtype, want, got);
  double a = tn__val_number(want), b = tn__val_number(got);
  return !isfinite(a) || fabs(a - b) <= t->tolerance * (fabs(a) + scale);
}

/* Of library calls. */
static bool agrees(const void *arg, int dtype, tn__val want, tn__val got) {
  const trial *t = arg;
  return agree(t, dtype, want, got, 1) || t->w.rounded;
}

/* The reference has run: does the call mean the same? */
static bool check_call(trial *t, const tn__verify_item *it) {
  const char *wrong = tn__library_compare(&t->w, t->span, it, agrees, t);
  if (wrong) tn__sb_puts(&t->why, wrong);
  return !wrong;
}

static bool run_items(trial *t) {
  const tn__verify_subject *s = t->v->s;
  for (uint32_t i = 0; i < s->nitem; i++) {
    const tn__verify_item *it = &s->item[i];
    tn__span *span = tn__alloc(t->v->c, (it->nbuf + 1) * sizeof *span);
    int64_t *value = tn__alloc(t->v->c, (it->kernel->nvar + 1) * sizeof *value);
    for (uint32_t b = 0; b < it->nbuf; b++) span[b] = t->span[it->block[b]];
    for (uint32_t k = 0; k < it->kernel->nvar; k++)
      for (uint32_t x = 0; x < s->nvar; x++)
        if (s->var[x] == it->kernel->var[k]) value[k] = s->value[x];
    if (!tn__machine_run(&t->m, &t->v->kernel[i], span, value)) return false;
    if ((it->product || it->conv) && !check_call(t, it)) return false;
  }
  return true;
}

/* The greatest number of an output. */
static double scale_of(const trial *t, const tn__image *want) {
  double most = 0;
  for (int64_t i = 0; t->w.numeric && tn__is_float(want->dtype) && i < want->n; i++) {
    double d = want->v[i].kind == TN__VAL_NONE ? 0 : fabs(tn__val_number(want->v[i]));
    if (isfinite(d) && d > most) most = d;
  }
  return most;
}

/* The first element that is another one than the graph's; false: there is none. */
static bool find_difference(trial *t, uint32_t *block, int64_t *element) {
  const tn__verify_subject *s = t->v->s;
  for (uint32_t b = 0; b < s->nblock; b++) {
    if (s->block[b].kind != BUF_OUTPUT) continue;
    const tn__image *want = &t->want[s->block[b].slot];
    double scale = scale_of(t, want);
    for (int64_t i = 0; i < want->n; i++) {
      t->v->verdict.elements++;
      if (agree(t, want->dtype, want->v[i], at(t, (int)b, i, s->block[b].dtype), scale)) continue;
      *block = b;
      *element = i;
      return true;
    }
  }
  return false;
}

static void tell_difference(trial *t, uint32_t block, int64_t element) {
  int slot = t->v->s->block[block].slot;
  const tn__image *want = &t->want[slot];
  tn__val got = at(t, (int)block, element, want->dtype);
  int64_t rest = element, place[TN_MAX_RANK];
  for (uint32_t a = want->rank; a && a--; rest /= want->dim[a]) place[a] = rest % want->dim[a];
  tn__sb_printf(&t->why, "output %d, element [", slot);
  for (uint32_t a = 0; a < want->rank; a++) tn__sb_printf(&t->why, "%s%lld", a ? ", " : "", (long long)place[a]);
  tn__sb_puts(&t->why, "] ");
  if (got.kind == TN__VAL_NONE) tn__sb_puts(&t->why, "is never written");
  else
    tn__term_difference(t->w.terms, tn__val_term(&t->w, want->dtype, want->v[element]),
                        tn__val_term(&t->w, want->dtype, got), &t->why);
}

/* How far a constant of the shortest float may be from what it was before it was rounded, and some. */
static double tolerance_of(tn_ctx *c, tn_node *graph) {
  tn__nodes all = {0};
  double most = 1e-12;
  tn__topo(&c->scratch, &graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    int dt = all.v[i]->dtype;
    double one = dt == TN_F32 ? 1e-5 : dt == TN_F16 || dt == TN_BF16 ? 3e-2 : 0;
    if (one > most) most = one;
  }
  return most;
}

/* Sizes of axes, each once. */
static void find_sizes(trial *t) {
  const tn__verify_subject *s = t->v->s;
  tn__arena *a = &t->v->c->scratch;
  const tn__env env = {.key = s->var, .val = s->value, .n = s->nvar};
  tn__nodes all = {0};
  tn__vec(int64_t) size = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  tn__topo(a, (tn_node **)(uintptr_t)&s->graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    for (uint32_t d = 0; d < all.v[i]->rank; d++) {
      int64_t n = tn__eval_index(all.v[i]->dim[d], &env, a);
      if (tn__map_get(&seen, (uint64_t)n, NULL)) continue;
      tn__map_put(&seen, (uint64_t)n, 1);
      tn__vec_push(a, &size, n);
    }
  t->w.size = size.v;
  t->w.nsize = size.n;
}

static void compute(trial *t, uint32_t world, tn__terms *terms) {
  const tn__verify_subject *s = t->v->s;
  tn_ctx *c = t->v->c;
  bool numeric = t->w.numeric, exact = t->w.exact;
  tn__world_open(c, world, terms, &t->w);
  t->w.numeric = numeric;
  t->w.exact = exact;
  find_sizes(t);
  tn__sb_init(&t->why, &c->scratch);
  t->m = (tn__machine){.w = &t->w, .steps = MOST_STEPS, .why = &t->why};
  t->want = tn__alloc(c, (s->graph->nsrc + 1) * sizeof *t->want);
  tn__graph_run(&t->w, s->graph, &(tn__env){.key = s->var, .val = s->value, .n = s->nvar}, t->want);
  open_memory(t);
}

/* A world in which constants round on one side only: do the same inputs give the same numbers? */
static bool agree_as_numbers(tn__verify *v, uint32_t world) {
  trial t = {.v = v, .tolerance = tolerance_of(v->c, v->s->graph)};
  uint32_t block;
  int64_t element;
  t.w.numeric = true;
  compute(&t, world, NULL);
  return run_items(&t) && !find_difference(&t, &block, &element);
}

/* Mode strict: the same bits, each sum in the order written? */
static bool agrees_exactly(tn__verify *v, uint32_t world) {
  trial t = {.v = v, .w.exact = true};
  uint32_t block;
  int64_t element;
  compute(&t, world, NULL);
  if (!run_items(&t))
    return t.m.too_long ? too_large(v, "too large: steps of kernels: more than ", MOST_STEPS) : differs(&t);
  if (!find_difference(&t, &block, &element)) return true;
  const tn__image *want = &t.want[v->s->block[block].slot];
  tn__sb_printf(&t.why,
                "output %d, element %lld: another rounding, or another order of a sum: %.17g where the graph has %.17g",
                v->s->block[block].slot, (long long)element,
                tn__eval_to_double(want->dtype, at(&t, (int)block, element, want->dtype).v),
                tn__eval_to_double(want->dtype, want->v[element].v));
  return differs(&t);
}

/* The difference in words; the same once more, with terms. */
static bool tell(tn__verify *v, uint32_t world, uint32_t block, int64_t element) {
  trial t = {.v = v};
  tn__terms terms;
  tn__terms_open(&v->c->scratch, &terms);
  compute(&t, world, &terms);
  run_items(&t);
  tell_difference(&t, block, element);
  return differs(&t);
}

bool tn__verify_run(tn__verify *v, uint32_t world) {
  const tn__verify_subject *s = v->s;
  double work = tn__graph_work(v->c, s->graph, &(tn__env){.key = s->var, .val = s->value, .n = s->nvar});
  trial t = {.v = v};
  uint32_t block = 0;
  int64_t element = 0;
  if (v->verdict.result != TN__VERIFY_EQUAL) return false;
  if (work > TN__MOST_WORK) return too_large(v, "too large: elements and steps of products: ", work);
  if (bytes_of(s) > MOST_BYTES) return too_large(v, "too large: elements of buffers: ", bytes_of(s));
  compute(&t, world, NULL);
  if (!run_items(&t))
    return t.m.too_long ? too_large(v, "too large: steps of kernels: more than ", MOST_STEPS) : differs(&t);
  bool last = world + 1 == (work > LITTLE_WORK ? TN__VERIFY_FEWEST : TN__VERIFY_WORLDS);
  bool same = !find_difference(&t, &block, &element), fast = v->c->mode == TN_MODE_FAST;
  if (!same && !t.w.rounded && !fast) return tell(v, world, block, element);
  if (!same) { /* constants round, here or in a rule of mode fast */
    same = agree_as_numbers(v, world);
    if (!same && !t.w.rounded) return tell(v, world, block, element);
    v->verdict.numeric |= same;
  }
  if (same && v->c->mode == TN_MODE_STRICT && !agrees_exactly(v, world)) return false;
  v->equal += same;
  if (last && !v->equal) tn__verify_give_up(v, "constants round, in all worlds");
  return !last;
}

const tn__verdict *tn__verify_close(tn__verify *v) {
  for (uint32_t i = 0; i < v->s->nitem; i++)
    for (uint32_t p = 0; p < v->kernel[i].code.nparts; p++)
      for (uint32_t k = 0; k < v->kernel[i].code.part[p].n; k++) {
        const tn__ins *x = &v->kernel[i].code.part[p].ins[k];
        bool access = x->code == TN__I_LOAD || x->code == TN__I_STORE || x->code == TN__I_STOREADD;
        if (!(access && x->src[1] != TN__NO_REG) && !(x->code == TN__I_EVAL && x->op == OP_WHERE)) continue;
        v->verdict.branches += 2;
        v->verdict.entered += (uint32_t)__builtin_popcount(v->kernel[i].seen[p][k]);
      }
  v->verdict.open = tn__sb_str(&v->open);
  return &v->verdict;
}

const char *tn__verify_line(tn_ctx *c, const tn__verdict *v) {
  static const char *const words[] = {"equal", "differs", "unknown"};
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, "%s elements %llu accesses %u proved %u branches %u entered %u", words[v->result],
                (unsigned long long)v->elements, v->accesses, v->proved, v->branches, v->entered);
  tn__sb_printf(&s, " stores %u by form %u by trying %u%s%s", v->writers.stores, v->writers.by_form,
                v->writers.by_trying, v->why ? ": " : "", v->why ? v->why : "");
  return tn__sb_str(&s);
}
