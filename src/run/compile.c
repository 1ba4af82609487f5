/* From a graph to kernels: simplify, schedule, lower; and what is known of them once they are there.  plan.h says in
 * which order, schedule_cache.c goes through it. */
#include "ir/text.h"
#include "rewrite/rewrite.h"
#include "run/crew.h"
#include "run/plan.h"
#include "verify/concurrency.h"
#include "verify/facts.h"
#include <math.h>
#include <string.h>

tn__plan *tn__plan_new(tn_ctx *c, tn_node *key) {
  tn__device *dev = tn__device_get(c, key->device < 0 ? 0 : key->device); /* throws if there is none */
  tn__plan *p = tn__mem_zalloc(&c->mem, sizeof *p);
  tn__arena_init(&p->arena, &c->mem);
  tn__map_init(&p->choices, &p->arena);
  p->dev = dev;
  p->key = key;
  p->nout = key->nsrc;
  return p;
}

void tn__plan_free(tn_ctx *c, tn__plan *p) {
  if (!p) return;
  tn__plan_forget(p);
  if (p->code) p->dev->ops->release(p->dev, p->code);
  if (p->temp) tn__buffer_drop(p->temp);
  for (uint32_t i = 0; i < p->kept.n; i++) tn__node_drop(c, p->kept.v[i]);
  tn__arena_free(&p->arena);
  tn__mem_free(&c->mem, p);
}

static void keep(tn__plan *p, tn_node *n) {
  tn__vec_push(&p->arena, &p->kept, n);
  tn__node_keep(n);
}

/* ---- scheduling ---- */

/* Notes which rules of mode fast, all of which hold over the reals only, this took. */
static tn_node *simplify(tn_ctx *c, tn__plan *p) {
  if (c->mode != TN_MODE_FAST) return tn__simplify_graph(c, p->key);
  const tn__ruleset *rules = tn__rules_get(c, "float");
  uint32_t n = tn__rules_count(rules);
  uint64_t *before = tn__alloc(c, (n + 1) * sizeof *before);
  for (uint32_t i = 0; i < n; i++) before[i] = tn__rules_hits(rules, i);
  tn_node *simple = tn__simplify_graph(c, p->key);
  for (uint32_t i = 0; i < n; i++)
    if (tn__rules_hits(rules, i) > before[i]) tn__vec_push(&p->arena, &p->fired, tn__rules_name(rules, i));
  return simple;
}

/* slot: which output each of those that are stored is */
static void find_outputs(tn_ctx *c, tn__plan *p, const uint32_t *slot) {
  p->out_buf = tn__arena_alloc(&p->arena, (p->nout + 1) * sizeof *p->out_buf);
  for (uint32_t i = 0; i < p->nout; i++) p->out_buf[i] = -1;
  for (uint32_t b = 0; b < p->s->bufs.n; b++) {
    tn__buf *x = &p->s->bufs.v[b];
    if (x->kind != BUF_OUTPUT) continue;
    x->slot = (int)slot[x->slot];
    p->out_buf[x->slot] = (int)b;
  }
  for (uint32_t i = 0; i < p->nout; i++) p->out_buf[i] = p->out_buf[p->view[i].lead];
  for (uint32_t i = 0; i < p->nout; i++)
    if (p->out_buf[i] < 0) tn__fail(c, TN_ESTATE, "internal error: the schedule computes no output %u", i);
}

static void keep_sizes(tn__plan *p, const tn__item *it) {
  const tn__gemm *g = it->gemm;
  if (g) {
    tn_node *size[] = {g->batch,          g->m,   g->n, g->k, g->a.offset, g->a.batch_stride, g->a.ld, g->b.offset,
                       g->b.batch_stride, g->b.ld};
    for (uint32_t i = 0; i < sizeof size / sizeof *size; i++) keep(p, size[i]);
  }
  for (int d = 0; it->conv && d < CONV_DIMS; d++) keep(p, it->conv->size[d]);
  for (int o = 0; it->conv && o < 3; o++) keep(p, it->conv->operand[o].offset);
}

static void keep_schedule(tn__plan *p) {
  keep(p, p->key);
  keep(p, p->s->text);
  for (uint32_t i = 0; i < p->s->bufs.n; i++) keep(p, p->s->bufs.v[i].size);
  for (uint32_t i = 0; i < p->s->items.n; i++) keep_sizes(p, &p->s->items.v[i]);
  for (uint32_t i = 0; p->view && i < p->nout; i++)
    if (p->view[i].moved) keep(p, p->view[i].moved);
}

static bool calls(const tn__plan *p, const tn__item *it) {
  return (it->gemm && p->dev->ops->gemm) || (it->conv && p->dev->ops->conv);
}

/* The body's mapping, which is chosen once */
static const tn__choice *choice_of(tn_ctx *c, tn__plan *p, tn_node *body) {
  tn__choice *known = tn__map_getp(&p->choices, body);
  if (known) return known;
  tn__choice choice = tn__choose(c, &p->arena, body, &p->dev->target);
  known = tn__arena_dup(&p->arena, &choice, sizeof choice);
  tn__map_putp(&p->choices, body, known);
  return known;
}

/* Seconds that a schedule's kernels are predicted to take, beside calls of libraries, if it is less than `most`;
 * INFINITY: it is not, or of one nothing is */
static double predict(tn_ctx *c, tn__plan *p, const tn__schedule *s, double most, uint32_t *called) {
  double time = 0;
  *called = 0;
  for (uint32_t i = 0; i < s->items.n; i++) {
    bool is_called = calls(p, &s->items.v[i]);
    *called += is_called;
    if (!is_called && time < most) time += choice_of(c, p, s->items.v[i].body)->time;
  }
  return time < most ? time : (double)INFINITY;
}

/* Schedules the graph, or the same graph where operands that lie across what is reduced are copied: on devices whose
 * kernels' times are predicted, if that is sure to take less; gives the one that it took. */
/* a choice: either is right */
static tn_node *schedule(tn_ctx *c, tn__plan *p, tn_node *graph) {
  static const double SURE = 0.85; /* of the other plan's time */
  const tn__target *t = &p->dev->target;
  tn__nodes copies = {0};
  tn_node *turned = p->dev->usual ? graph : tn__schedule_turned(c, graph, t, &copies);
  uint32_t calls_of[2];
  p->s = tn__schedule_make(c, &p->arena, turned, p->dev, &copies);
  if (turned == graph || !t->group) return turned;
  tn__schedule *other = p->s;
  p->s = tn__schedule_make(c, &p->arena, graph, p->dev, NULL);
  double time = predict(c, p, p->s, INFINITY, &calls_of[0]);
  if (isinf(time) || isinf(predict(c, p, other, SURE * time, &calls_of[1])) || calls_of[0] != calls_of[1]) return graph;
  p->s = other;
  return turned;
}

void tn__plan_schedule(tn_ctx *c, tn__plan *p) {
  tn__work work = tn__work_begin(c);
  const tn__target *target = &p->dev->target;
  uint32_t *slot;
  tn_node *graph = tn__schedule_prune(c, tn__schedule_either(c, simplify(c, p)));
  graph = tn__schedule_views(c, &p->arena, graph, tn__views_of(p->key), &p->view, &slot);
  graph = tn__schedule_moments(c, graph, target);
  tn_node *before = graph;
  graph = tn__schedule_exponentials(c, graph, target);
  p->exponentials = graph != before;
  graph = tn__schedule_shared_sums(c, graph, target);
  graph = tn__schedule_orders(c, tn__schedule_scatters(c, graph, target), target);
  graph = tn__schedule_touched(c, graph, target);
  graph = schedule(c, p, graph);
  find_outputs(c, p, slot);
  keep(p, graph);
  keep_schedule(p);
  tn__work_end(c, work);
}

/* ---- lowering ---- */

bool tn__plan_calls(const tn__plan *p, uint32_t item) { return calls(p, &p->s->items.v[item]); }

static void keep_tile(tn__plan *p, const tn__tile *t) {
  for (int i = 0; t && i < 2; i++) {
    keep(p, t->load[i]);
    keep(p, t->line[i]);
    keep(p, t->at[i]);
    if (t->gate[i]) keep(p, t->gate[i]);
    for (int part = 0; part < 2; part++) {
      if (t->part[i][part]) keep(p, t->part[i][part]);
      if (t->part_gate[i][part]) keep(p, t->part_gate[i][part]);
    }
  }
  for (int i = 0; t && i < TN__DIGITS; i++)
    if (t->digit[i]) keep(p, t->digit[i]);
  if (!t) return;
  keep(p, t->steps);
  keep(p, t->turn);
  keep(p, t->step);
}

static void keep_kernel(tn__plan *p, const tn__kernel *k) {
  for (uint32_t i = 0; i < k->nrequire; i++) keep(p, k->require[i]);
  for (uint32_t part = 0; part < k->nparts; part++) {
    keep(p, k->part[part].body);
    for (uint32_t j = 0; j < k->part[part].n; j++) keep(p, k->part[part].ins[j]);
    keep_tile(p, k->part[part].tile);
  }
}

/* Of the kernel in scratch, what the plan has of it */
static tn__kernel *take_kernel(tn_ctx *c, tn__plan *p, const tn__kernel *k) {
  const char *wrong = tn__facts_check(&c->scratch, k, &p->dev->target);
  if (!wrong) wrong = tn__concurrency_check(c, k);
  if (wrong && p->by_hand) tn__fail(c, TN_EFORMAT, "%s", wrong);
  if (wrong) tn__fail(c, TN_ERUN, "internal: %s", wrong);
  tn__kernel *copy = tn__kernel_copy(&p->arena, k);
  keep_kernel(p, copy);
  return copy;
}

/* Kernels by their bodies: items that differ only in their buffers share one. */
typedef struct lowering {
  tn_ctx *c;
  tn__plan *p;
  const tn__variant **variant; /* of each kernel */
  tn__map of;                  /* body -> its first kernel */
} lowering;

static uint32_t find_kernel(lowering *l, tn_node *body, const tn__variant *variant) {
  tn__plan *p = l->p;
  uint64_t found;
  bool known = tn__map_get(&l->of, (uintptr_t)body, &found);
  if (known && l->variant[found] == variant) return (uint32_t)found;
  tn__choice choice = {.variant = variant};
  if (variant == tn__variant_at(0)) choice = *choice_of(l->c, p, body);
  tn__work work = tn__work_begin(l->c);
  tn__kernel *k = tn__lower(l->c, &l->c->scratch, body, &p->dev->target, choice.variant, p->nkernels);
  p->kernel[p->nkernels] = k = take_kernel(l->c, p, k);
  k->ranking = choice.ranking;
  tn__work_end(l->c, work);
  if (!known) tn__map_put(&l->of, (uintptr_t)body, p->nkernels);
  l->variant[p->nkernels] = variant;
  return p->nkernels++;
}

/* kernel: -1: a library's call */
static void give_kernel(tn__plan *p, const tn__item *it, tn__step *st, int kernel) {
  *st = (tn__step){.kernel = kernel, .nbuf = it->nbuf};
  if (kernel >= 0) {
    const tn__kernel *k = p->kernel[kernel];
    /* its own scratch; fewer, where simplifying has left nothing of a load */
    if (k->nbuf > st->nbuf) st->nbuf = k->nbuf;
    st->var = tn__arena_zalloc(&p->arena, (k->nvar + 1) * sizeof *st->var);
  }
  st->buf = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->buf);
  st->ptr = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->ptr);
  st->bytes = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->bytes);
  for (uint32_t j = 0; j < it->nbuf; j++) st->buf[j] = it->buf[j];
}

static void lower_item(lowering *l, uint32_t i, const tn__variant *variant) {
  const tn__item *it = &l->p->s->items.v[i];
  bool own = variant->own || !tn__plan_calls(l->p, i);
  give_kernel(l->p, it, &l->p->step[i], own ? (int)find_kernel(l, it->body, variant) : -1);
}

static void lower_items(tn_ctx *c, tn__plan *p, const tn__variant *const *variant) {
  uint32_t n = p->s->items.n;
  const tn__variant *usual = p->dev->usual ? p->dev->usual : tn__variant_at(0);
  lowering l = {.c = c, .p = p, .variant = tn__alloc(c, (n + 1) * sizeof *l.variant)};
  tn__map_init(&l.of, &c->scratch);
  p->step = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->step);
  p->kernel = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->kernel);
  for (uint32_t i = 0; i < n; i++) lower_item(&l, i, variant && variant[i] ? variant[i] : usual);
}

/* The kernels that steps have, numbered anew. */
static void drop_kernels(tn_ctx *c, tn__plan *p) {
  int *number = tn__alloc(c, (p->nkernels + 1) * sizeof *number);
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->nkernels; k++) number[k] = -1;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    if (p->step[i].kernel >= 0) number[p->step[i].kernel] = 0;
  for (uint32_t k = 0; k < p->nkernels; k++) {
    if (number[k] < 0) continue;
    number[k] = (int)n;
    p->kernel[n++] = p->kernel[k];
  }
  p->nkernels = n;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    if (p->step[i].kernel >= 0) p->step[i].kernel = number[p->step[i].kernel];
}

typedef struct united { /* items that are one, and the number of their kernel */
  tn__crew crew;
  uint32_t number;
} united;

typedef struct uniting {
  tn__lowered all;
  tn__vec(united) made;
} uniting;

/* The kernel that the crew's are, made once */
static uint32_t find_united(tn_ctx *c, tn__plan *p, uniting *u, const tn__crew *w) {
  for (uint32_t i = 0; i < u->made.n; i++)
    if (tn__crew_same(c, &u->all, &u->made.v[i].crew, w)) return u->made.v[i].number;
  tn__vec_push(&c->scratch, &u->made, ((united){*w, p->nkernels}));
  tn__work work = tn__work_begin(c);
  p->kernel[p->nkernels] = take_kernel(c, p, tn__crew_kernel(c, &u->all, w, p->nkernels));
  tn__work_end(c, work);
  return p->nkernels++;
}

static tn__lowered lowered_of(tn_ctx *c, tn__plan *p) {
  uint32_t n = p->s->items.n;
  int *kernel_of = tn__alloc(c, (n + 1) * sizeof *kernel_of);
  for (uint32_t i = 0; i < n; i++) kernel_of[i] = p->step[i].kernel;
  return (tn__lowered){.target = &p->dev->target,
                       .item = p->s->items.v,
                       .kernel_of = kernel_of,
                       .n = n,
                       .nbuf = p->s->bufs.n,
                       .kernel = tn__arena_dup(&c->scratch, p->kernel, (p->nkernels + 1) * sizeof *p->kernel),
                       .nkernel = p->nkernels};
}

/* Items that go together as one */
static void unite_items(tn_ctx *c, tn__plan *p, tn__crews (*find)(tn_ctx *, const tn__lowered *)) {
  uint32_t n = p->s->items.n;
  uniting u = {.all = lowered_of(c, p)};
  tn__crews crews = find(c, &u.all);
  if (crews.n == n) return;
  tn__item *item = tn__arena_alloc(&p->arena, (crews.n + 1) * sizeof *item);
  tn__step *step = tn__arena_zalloc(&p->arena, (crews.n + 1) * sizeof *step);
  p->kernel = tn__arena_alloc(&p->arena, (p->nkernels + crews.n + 1) * sizeof *p->kernel);
  memcpy(p->kernel, u.all.kernel, p->nkernels * sizeof *p->kernel);
  for (uint32_t i = 0; i < crews.n; i++) {
    const tn__crew *w = &crews.v[i];
    item[i] = p->s->items.v[w->item[0]];
    step[i] = p->step[w->item[0]];
    if (w->n == 1) continue;
    item[i] = tn__crew_item(&p->arena, &u.all, w);
    give_kernel(p, &item[i], &step[i], (int)find_united(c, p, &u, w));
  }
  p->s->items.v = item, p->s->items.n = crews.n;
  p->step = step;
  drop_kernels(c, p);
}

/* Launches of one kernel as items of their own, where they wait for different things */
static void part_items(tn_ctx *c, tn__plan *p) {
  tn__work work = tn__work_begin(c);
  tn__lowered all = lowered_of(c, p), x = tn__part_launches(c, &p->arena, &all);
  tn__step *step = tn__arena_zalloc(&p->arena, (x.n + 1) * sizeof *step);
  p->kernel = tn__arena_dup(&p->arena, x.kernel, (x.nkernel + 1) * sizeof *x.kernel);
  for (uint32_t k = all.nkernel; k < x.nkernel; k++) p->kernel[k] = take_kernel(c, p, x.kernel[k]);
  p->nkernels = x.nkernel;
  for (uint32_t i = 0, from = 0; i < x.n; i++) {
    bool parted = x.kernel_of[i] >= (int)all.nkernel, second = parted && (x.kernel_of[i] - (int)all.nkernel) % 2;
    if (parted) give_kernel(p, &x.item[i], &step[i], x.kernel_of[i]);
    else step[i] = p->step[from];
    from += !parted || second;
  }
  p->s->items.v = (tn__item *)(uintptr_t)x.item, p->s->items.n = x.n;
  p->step = step;
  drop_kernels(c, p);
  tn__work_end(c, work);
}

/* A buffer that lowering added: partial results */
typedef struct added {
  uint32_t slot;
  tn_node *size;
  int dtype;
} added;
typedef tn__vec(added) added_list;

static added_list find_added(tn_ctx *c, const tn__kernel *k, uint32_t nbuf) {
  tn__nodes all = {0}, bodies = {0};
  added_list list = {0};
  for (uint32_t part = 0; part < k->nparts; part++) tn__vec_push(&c->scratch, &bodies, k->part[part].body);
  tn__topo(&c->scratch, bodies.v, bodies.n, &all);
  for (uint32_t j = 0; j < all.n; j++) {
    const tn_node *n = all.v[j];
    if (n->op != OP_PARAM || n->ints[0] < nbuf) continue;
    added x = {.slot = (uint32_t)n->ints[0], .size = n->src[0], .dtype = n->dtype};
    tn__vec_push(&c->scratch, &list, x);
  }
  return list;
}

/* Each step has those of its kernel for itself. */
static void find_scratch(tn_ctx *c, tn__plan *p) {
  added_list *of = tn__arena_zalloc(&c->scratch, (p->nkernels + 1) * sizeof *of);
  bool *known = tn__arena_zalloc(&c->scratch, p->nkernels + 1);
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__step *st = &p->step[i];
    if (st->kernel < 0) continue;
    added_list *list = &of[st->kernel];
    if (!known[st->kernel]) *list = find_added(c, p->kernel[st->kernel], p->s->items.v[i].nbuf);
    known[st->kernel] = true;
    for (uint32_t j = 0; j < list->n; j++) {
      st->buf[list->v[j].slot] = -1 - (int)p->scratch.n;
      tn__vec_push(&p->arena, &p->scratch, list->v[j].size);
      tn__vec_push(&p->arena, &p->scratch_dtype, (uint8_t)list->v[j].dtype);
    }
  }
}

static void find_vars(tn_ctx *c, tn__plan *p) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, (tn_node *[]){p->key, p->s->text}, 2, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_VAR) tn__vec_push(&p->arena, &p->var, all.v[i]);
  p->value = tn__arena_zalloc(&p->arena, (p->var.n + 1) * sizeof *p->value);
}

static void find_needs(tn_ctx *c, tn__plan *p) {
  if (p->var.n) tn__constraints_find(c, &p->arena, p->key, &p->needs);
  for (uint32_t i = 0; i < p->needs.n; i++) {
    keep(p, p->needs.v[i].left);
    keep(p, p->needs.v[i].right);
  }
}

static void find_lives(tn__plan *p) {
  uint32_t nb = p->s->bufs.n, n = nb + p->scratch.n;
  p->bytes = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->bytes);
  p->offset = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->offset);
  p->first = tn__arena_alloc(&p->arena, (n + 1) * sizeof *p->first);
  p->last = tn__arena_alloc(&p->arena, (n + 1) * sizeof *p->last);
  for (uint32_t b = 0; b < n; b++) p->first[b] = p->last[b] = -1;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t j = 0; j < p->step[i].nbuf; j++) {
      int b = p->step[i].buf[j] < 0 ? (int)nb - 1 - p->step[i].buf[j] : p->step[i].buf[j];
      if (p->first[b] < 0) p->first[b] = (int)i;
      p->last[b] = (int)i;
    }
}

void tn__plan_lower(tn_ctx *c, tn__plan *p, const tn__variant *const *variant) {
  lower_items(c, p, variant);
  for (int way = 0; way < TN__CREW_WAYS && p->dev->target.joins; way++) unite_items(c, p, tn__crew_ways[way]);
  if (p->dev->target.joins && !p->by_hand) part_items(c, p); /* what is written by hand is checked as one */
  find_scratch(c, p);
  find_vars(c, p);
  find_needs(c, p);
  find_lives(p);
}

/* ---- what devices make of it ---- */

void tn__plan_compile(tn__plan *p) {
  if (p->nkernels && !p->code) p->code = p->dev->ops->compile(p->dev, p->kernel, p->nkernels);
}

/* ---- one item alone, for tuning ---- */

void tn__plan_trial(tn_ctx *c, const tn__plan *p, uint32_t item, const tn__variant *variant, tn__plan **out) {
  tn__plan *t = *out = tn__plan_new(c, p->key);
  t->s = tn__arena_zalloc(&t->arena, sizeof *t->s);
  t->s->text = p->s->text;
  tn__vec_push(&t->arena, &t->s->items, p->s->items.v[item]);
  for (uint32_t b = 0; b < p->s->bufs.n; b++) {
    tn__buf x = p->s->bufs.v[b];
    x.kind = BUF_INPUT; /* all from outside */
    x.shared = false;
    x.slot = (int)b;
    tn__vec_push(&t->arena, &t->s->bufs, x);
  }
  keep_schedule(t);
  tn__plan_lower(c, t, &variant);
}

/* ---- for people ---- */

void tn__plan_info(const tn__plan *p, tn_program_info *out) {
  *out = (tn_program_info){.intermediate = p->temp_sum, .arena = p->temp_size};
  for (uint32_t i = 0; i < p->s->items.n; i++) ++*(p->step[i].kernel < 0 ? &out->library_calls : &out->kernels);
}

void tn__plan_print(tn_ctx *c, const tn__plan *p, tn__sb *out) {
  tn__sb_puts(out, "# graph\n");
  tn__print(out, p->key);
  tn__sb_puts(out, "\n# rules that hold over the reals only:");
  for (uint32_t i = 0; i < p->fired.n; i++) tn__sb_printf(out, "%s %s", i ? "," : "", p->fired.v[i]);
  tn__sb_puts(out, p->fired.n ? "\n\n# schedule\n" : " none\n\n# schedule\n");
  tn__print(out, p->s->text);
  tn__plan_print_seen(c, p, out);
  tn__sb_puts(out, "\n");
  tn__kernels_print(c, p->dev, p->kernel, p->nkernels, out);
}
