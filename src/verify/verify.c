#include "verify/verify.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "verify/bounds.h"
#include "verify/concurrency.h"
#include "verify/graph.h"
#include "verify/library.h"
#include "verify/machine.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { LITTLE_WORK = 100000, MOST_STEPS = 100000000, LAST_STEPS = 1000000000 };
enum { MOST_BYTES = 8 << 20, TRIES = 300, SMALL = 12 };
static const double WIDE = 0.125; /* parts of the greatest number: an error that says nothing */

struct tn__verify {
  tn_ctx *c;
  const tn__verify_subject *s;
  tn__checked *kernel; /* by item */
  tn__verdict verdict;
  bool equal[2];       /* in some even world all is equal; in some odd one */
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
  bool apart;        /* a library call may differ from its reference, for constants round */
  bool untold;       /* something differs that may be anything */
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
  for (uint32_t b = 0; b < s->nblock; b++) {
    const tn__verify_block *x = &s->block[b];
    if (!x->shared) continue;
    size_t at = (size_t)x->from * tn__size_of(x->dtype), room = s->block[x->of].bytes;
    t->span[b] = (tn__span){.block = &t->memory[x->of], .offset = at, .bytes = at + x->bytes <= room ? x->bytes : 0};
  }
}

static tn__val at(const trial *t, int block, int64_t element, int dtype) {
  return tn__span_get(&t->span[block], element, dtype);
}

typedef enum agreement { APART, UNTOLD, SAME } agreement;

/* Four times the room: rules fold a few constants into one.  Nothing is said where that is as wide as an output's
 * numbers are great, and by what is no number on the graph's side: rules over the reals may give it one. */
static agreement compare_number(int dtype, tn__val want, tn__val got, double scale) {
  if (got.kind == TN__VAL_NONE) return APART;
  if (!tn__is_float(dtype)) return want.v == got.v ? SAME : want.off > 0 ? UNTOLD : APART;
  double a = tn__val_number(want), b = tn__val_number(got), room = 4 * (double)want.off + (double)FLT_MIN;
  if (a == b || (isnan(a) && isnan(b))) return SAME;
  if (!isfinite(a)) return UNTOLD;
  return !(fabs(a - b) <= room) ? APART : room > WIDE * scale && fabs(a - b) > 1e-9 * scale ? UNTOLD : SAME;
}

static agreement agree(const trial *t, int dtype, tn__val want, tn__val got, double scale) {
  if (t->w.numeric && want.kind != TN__VAL_NONE) return compare_number(dtype, want, got, scale);
  if (t->w.exact && want.kind == TN__VAL_BITS && got.kind == TN__VAL_BITS && want.v != got.v) { /* zeros have signs */
    bool nan = tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, want.v)) &&
               isnan(tn__eval_to_double(dtype, got.v));
    return nan ? SAME : APART;
  }
  return tn__val_same(dtype, want, got) ? SAME : APART;
}

/* Of library calls. */
static bool agrees(void *arg, int dtype, tn__val want, tn__val got, bool own) {
  trial *t = arg;
  double scale = t->w.numeric && tn__is_float(dtype) ? fmax(1, fabs(tn__val_number(want))) : 1;
  agreement a = agree(t, dtype, want, got, scale);
  bool rounds = !t->w.numeric && (t->w.rounded || own);
  t->untold |= a == UNTOLD;
  t->apart |= a == APART && rounds;
  return a != APART || rounds;
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

/* Where something differs: an element of an output, and what there is of it. */
typedef struct difference {
  uint32_t output;
  int64_t element;
  tn__val got;
} difference;

static const tn__view *view_of(const tn__verify_subject *s, uint32_t output) {
  const tn__view *v = s->view ? &s->view[output] : NULL;
  return v && (v->moved || v->lead != output) ? v : NULL;
}

/* The block that an output stands in, or is seen in. */
static uint32_t block_of(const tn__verify_subject *s, uint32_t output) {
  const tn__view *v = view_of(s, output);
  uint32_t b = 0;
  while (b < s->nblock && (s->block[b].kind != BUF_OUTPUT || (uint32_t)s->block[b].slot != (v ? v->lead : output))) b++;
  return b;
}

/* Which element of what stands in memory element i of a movement is, as the host goes there. */
static int64_t by_steps(const tn__view *v, int64_t i) {
  int64_t from = v->from;
  for (uint32_t a = v->moved->rank; a && a--; i /= v->moved->dim[a]->ints[0])
    from += i % v->moved->dim[a]->ints[0] * v->step[a];
  return from;
}

/* The elements of an output as whoever asks for it sees them, `n`; NULL: there are others in its block, or one way to
 * see them is not the other. */
static const tn__val *seen(trial *t, uint32_t output, int64_t n) {
  const tn__verify_subject *s = t->v->s;
  const tn__view *v = view_of(s, output);
  uint32_t b = block_of(s, output);
  tn_node *moved = v ? v->moved : NULL, *leaf = moved;
  int64_t stand = moved ? 1 : n, *from = NULL;
  while (leaf && leaf->op != OP_PARAM) leaf = leaf->src[0];
  for (uint32_t d = 0; leaf && d < leaf->rank; d++) stand *= leaf->dim[d]->ints[0];
  if (b == s->nblock || s->block[b].bytes != (size_t)stand * tn__size_of(s->block[b].dtype)) return NULL;
  if (moved && !(from = tn__graph_moved(&t->w, moved, stand, n))) return NULL;
  tn__val *all = tn__alloc(t->v->c, ((size_t)n + 1) * sizeof *all);
  for (int64_t i = 0; i < n; i++) {
    if (moved && from[i] != by_steps(v, i)) return NULL;
    all[i] = at(t, (int)b, moved ? from[i] : i, s->block[b].dtype);
  }
  return all;
}

/* The first element that is another one than the graph's; false: there is none that is told. */
static bool find_difference(trial *t, difference *d) {
  static const tn__val none = {.kind = TN__VAL_NONE};
  for (uint32_t o = 0; o < t->v->s->graph->nsrc; o++) {
    const tn__image *want = &t->want[o];
    double scale = scale_of(t, want);
    const tn__val *got = seen(t, o, want->n);
    for (int64_t i = 0; i < want->n; i++) {
      t->v->verdict.elements++;
      *d = (difference){o, i, got ? got[i] : none};
      agreement a = agree(t, want->dtype, want->v[i], d->got, scale);
      t->untold |= a == UNTOLD;
      if (a == APART) return true;
    }
  }
  return false;
}

static void tell_numbers(int dtype, tn__val want, tn__val got, tn__sb *out) {
  int64_t x = (int64_t)got.v, y = (int64_t)want.v;
  if (tn__is_float(dtype))
    tn__sb_printf(out, "is %.9g, should be %.9g, give or take %.2g", tn__val_number(got),
                  tn__val_number(want), (double)want.off);
  else tn__sb_printf(out, "is %lld, should be %lld", (long long)x, (long long)y);
}

static void tell_difference(trial *t, const difference *d) {
  const tn__image *want = &t->want[d->output];
  tn__val got = d->got;
  int64_t element = d->element, rest = element, place[TN_MAX_RANK];
  for (uint32_t a = want->rank; a && a--; rest /= want->dim[a]) place[a] = rest % want->dim[a];
  tn__sb_printf(&t->why, "output %u, element [", d->output);
  for (uint32_t a = 0; a < want->rank; a++) tn__sb_printf(&t->why, "%s%lld", a ? ", " : "", (long long)place[a]);
  tn__sb_puts(&t->why, "] ");
  if (got.kind == TN__VAL_NONE) tn__sb_puts(&t->why, "is never written");
  else if (t->w.numeric) tell_numbers(want->dtype, want->v[element], got, &t->why);
  else
    tn__term_difference(t->w.terms, tn__val_term(&t->w, want->dtype, want->v[element]),
                        tn__val_term(&t->w, want->dtype, got), &t->why);
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

/* Which inputs does the graph say differ from each other, as PERMUTATION and DISTINCT do of what is moved and cast? */
static void find_places(trial *t) {
  const tn__verify_subject *s = t->v->s;
  tn__env env = {.key = s->var, .val = s->value, .n = s->nvar};
  tn__arena *a = &t->v->c->scratch;
  tn__nodes all = {0};
  tn__topo(a, (tn_node **)(uintptr_t)&s->graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *x = all.v[i];
    uint64_t n = 1;
    if (x->op != OP_PERMUTATION && x->op != OP_DISTINCT) continue;
    do x = x->src[0];
    while (x->op == OP_CAST || (tn__ops[x->op].group == G_MOVE && x->op != OP_PAD && x->op != OP_FOLD));
    for (uint32_t d = 0; d < x->rank; d++) n *= (uint64_t)tn__eval_index(x->dim[d], &env, a);
    if (x->op == OP_PARAM) tn__map_put(&t->w.places, (uint64_t)x->ints[0], n);
  }
}

static uint32_t most_steps(const tn__verify *v) { return v->s->last ? LAST_STEPS : MOST_STEPS; }

static void compute(trial *t, uint32_t world, tn__terms *terms) {
  const tn__verify_subject *s = t->v->s;
  tn_ctx *c = t->v->c;
  const tn__world as = t->w;
  tn__world_open(c, world, terms, &t->w);
  t->w.numeric = as.numeric;
  t->w.exact = as.exact;
  t->w.plain = as.plain;
  find_sizes(t);
  find_places(t);
  tn__sb_init(&t->why, &c->scratch);
  t->m = (tn__machine){.w = &t->w, .steps = most_steps(t->v), .why = &t->why};
  t->want = tn__alloc(c, (s->graph->nsrc + 1) * sizeof *t->want);
  tn__graph_run(&t->w, s->graph, &(tn__env){.key = s->var, .val = s->value, .n = s->nvar}, t->want);
  open_memory(t);
}

/* Kernels could not run to their end. */
static bool stopped(trial *t) {
  if (t->m.too_long) return too_large(t->v, "too large: steps of kernels: more than ", most_steps(t->v));
  if (!t->w.unkept) return differs(t);
  tn__verify_give_up(t->v, "places that the graph says differ do not, as its inputs are drawn");
  return false;
}

/* Constants round, here or in a rule of mode fast: do the same inputs give the same numbers, as far as can be told?
 * False: they do not. */
static bool agree_as_numbers(tn__verify *v, uint32_t world, bool plain, bool *told) {
  trial t = {.v = v, .w.numeric = true, .w.plain = plain};
  difference d;
  compute(&t, world, NULL);
  if (!run_items(&t)) return stopped(&t);
  if (find_difference(&t, &d)) return tell_difference(&t, &d), differs(&t);
  *told = !t.untold;
  return true;
}

/* Mode strict: the same bits, each sum in the order written? */
static bool agrees_exactly(tn__verify *v, uint32_t world) {
  trial t = {.v = v, .w.exact = true};
  difference d;
  compute(&t, world, NULL);
  if (!run_items(&t)) return stopped(&t);
  if (!find_difference(&t, &d)) return true;
  const tn__image *want = &t.want[d.output];
  tn__sb_printf(&t.why,
                "output %u, element %lld: another rounding, or another order of a sum: %.17g where the graph has %.17g",
                d.output, (long long)d.element, tn__eval_to_double(want->dtype, d.got.v),
                tn__eval_to_double(want->dtype, want->v[d.element].v));
  return differs(&t);
}

/* The difference in words; the same once more, with terms. */
static bool tell(tn__verify *v, uint32_t world, bool plain, difference d) {
  trial t = {.v = v, .w.plain = plain};
  tn__terms terms;
  tn__terms_open(&v->c->scratch, &terms);
  compute(&t, world, &terms);
  run_items(&t);
  const tn__val *got = seen(&t, d.output, t.want[d.output].n);
  if (got) d.got = got[d.element];
  tell_difference(&t, &d);
  return differs(&t);
}

/* One world.  told: all is equal; else something may be anything.  False: the verdict stands. */
static bool compare(tn__verify *v, uint32_t world, bool plain, bool *told) {
  trial t = {.v = v, .w.plain = plain};
  difference d = {0};
  compute(&t, world, NULL);
  if (!run_items(&t)) return stopped(&t);
  bool found = find_difference(&t, &d);
  *told = !found && !t.apart;
  bool as_numbers = t.w.rounded || v->s->numbers || v->c->mode == TN_MODE_FAST;
  if (found && !as_numbers) return tell(v, world, plain, d);
  return *told || agree_as_numbers(v, world, plain, told);
}

bool tn__verify_run(tn__verify *v, uint32_t world) {
  const tn__verify_subject *s = v->s;
  double work = tn__graph_work(v->c, s->graph, &(tn__env){.key = s->var, .val = s->value, .n = s->nvar});
  bool told = false, odd = world & 1, strict = v->c->mode == TN_MODE_STRICT;
  if (v->verdict.result != TN__VERIFY_EQUAL) return false;
  if (work > TN__MOST_WORK) return too_large(v, "too large: elements and steps of products: ", work);
  if (bytes_of(s) > MOST_BYTES) return too_large(v, "too large: elements of buffers: ", bytes_of(s));
  if (!compare(v, world, false, &told)) return false;
  if (!told && odd && !compare(v, world, true, &told)) return false;
  if (strict && !agrees_exactly(v, world)) return false;
  v->equal[odd] |= told || strict;
  bool both = v->equal[0] && v->equal[1], few = work > LITTLE_WORK && world + 1 >= TN__VERIFY_FEWEST;
  if (both && few) return false;
  if (world + 1 < TN__VERIFY_WORLDS) return true;
  if (!both) tn__verify_give_up(v, "what rounds, or divides by 0, leaves too much open in all worlds of a kind");
  return false;
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
