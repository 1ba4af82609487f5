/* Programs: capture and replay.
 *
 * While one is recorded its inputs are placeholders in the graph and tn_assign() rebinds cells as ever.  At the end
 * every cell that was assigned becomes state: its new value is an output of the program, and the cell itself gets its
 * old value back.  The program refers to state, and to every tensor it reads, through their cells: what a caller writes
 * into them later is what the next run sees. */
#include "base/names.h"
#include "ir/eval.h"
#include "ir/roots.h"
#include "run/bound_check.h"
#include "run/index_check.h"
#include "run/runtime.h"
#include "tensor/cells.h"
#include "tensor/random.h"
#include <string.h>

typedef struct input {
  char *name;
  tn_node *node;      /* the placeholder; kept */
  tn__buffer *own;    /* of tn_program_write */
  tn_tensor *bound;   /* of tn_program_bind; retained */
  bool set, refused;  /* it has a value; the last one given was refused */
  int64_t *size;      /* of what is bound, by axis */
} input;

typedef struct output {
  char *name;
  tn_node *node;      /* kept */
  uint32_t at;        /* output of the plan, and of the program */
  uint32_t lead;      /* the output in whose memory it is seen; or it itself */
  tn__buffer *buf;    /* of that one */
  size_t bytes;       /* and sizes, of the last run */
  int64_t *size;
} output;

typedef struct state {
  tn_tensor *cell;    /* retained; NULL: the random state */
  uint32_t at;
  tn__buffer *spare;  /* the next run writes here, then it changes places with the cell's buffer */
  uint32_t view, views;   /* tensors that see it, from which on and how many */
  const tn_node *counted; /* `refs` of it are the programs' own, as of when `changes` of them had been */
  uint64_t changes;
  uint32_t refs;
} state;

typedef struct checked { /* indices, whose extremes are outputs of the plan */
  tn__index_check of;
  uint32_t at[TN__EXTREMES];
  tn__buffer *buf[TN__EXTREMES];
} checked;

typedef enum source_kind { FROM_INPUT, FROM_CELL, FROM_NODE, FROM_RANDOM } source_kind;

typedef struct source { /* of each PARAM of the plan */
  source_kind kind;
  uint32_t input;
  tn_tensor *cell;    /* retained */
  tn_node *node;      /* kept */
} source;

struct tn_program {
  tn__object object;
  tn_program *next;
  tn__arena arena;
  tn__vec(input) inputs;
  tn__vec(output) outputs;
  tn__names input_names, output_names;
  tn__vec(state) states;
  tn__vec(tn_tensor *) views; /* that were assigned, and have no memory of their own; retained */
  tn__vec(checked) checks;
  tn__vec(source) sources;
  tn__plan *plan;
  uint64_t calls;     /* random tensors a run makes */
  bool recording, ready;
  bool refused;       /* its last run: some index was out of range */
  int64_t *value;     /* of the plan's symbolic sizes */
  const input **from; /* the input that gave each of them */
  tn__map size_of;    /* which of them a node is */
  tn__buffer **in, **out;
  uint32_t roots;     /* of the plan: so many are put out */
  uint64_t seen;      /* for tn__bound_swaps, under TENET_VERIFY */
};

/* ---- recording ---- */

typedef struct args {
  tn_program *p;
  tn_tensor *t, *made;
  const char *name;
  int dtype;
  const tn_dim *shape;
  int rank;
  const void *data;
  void *into;
  size_t bytes;
  int part, index;
  char *text;
} args;

static tn_status run(tn_program *p, const char *api, void (*fn)(tn_ctx *, void *), args *k) {
  tn_ctx *c = tn__object_use(p, TN__PROGRAM, api);
  if (!c) return TN_EINVAL;
  k->p = p;
  tn__cells_drain(c);
  tn__storage_reap(c);
  bool ok = tn__ctx_run(c, api, fn, k);
  tn__storage_reap(c);
  return ok ? TN_OK : c->failed;
}

typedef tn__vec(tn_tensor *) cells;

/* What a view is of, where nothing but movements is between */
static tn_node *below_view(const tn_tensor *t) {
  tn_node *n = t->node;
  for (const tn_node *v = t->view; v && v->op != OP_PARAM; v = v->src[0], n = n->src[0])
    if (n->op != v->op) return t->node;
  return n;
}

static tn_node *before_assign(tn_node *n) {
  while (n->op == OP_ASSIGN) n = n->src[0];
  return n;
}

/* Was a view assigned that has no memory of its own? */
static bool is_assigned_view(const tn_tensor *t) {
  tn_node *below = below_view(t);
  return t->base && below->op == OP_ASSIGN && before_assign(below) == before_assign(t->base->node);
}

static void collect_assigned(tn_ctx *c, tn_tensor *t, void *arg) {
  cells *v = arg;
  if (t->node->op == OP_ASSIGN && !is_assigned_view(t)) tn__vec_push(&c->scratch, v, t);
}

/* Not handles that were made while it was recorded: these are for what they write to. */
static void collect_views(tn_ctx *c, tn_tensor *t, void *arg) {
  cells *v = arg;
  if (!t->recorded && is_assigned_view(t)) tn__vec_push(&c->scratch, v, t);
}

static void free_program(void *program) {
  tn_program *p = program;
  tn_ctx *c = p->object.ctx;
  for (tn_program **at = &c->runtime->programs; *at; at = &(*at)->next)
    if (*at == p) {
      *at = p->next;
      break;
    }
  c->runtime->changes++;
  if (c->runtime->recording == p) c->runtime->recording = NULL;
  for (uint32_t i = 0; i < p->inputs.n; i++) {
    tn__node_drop(c, p->inputs.v[i].node);
    if (p->inputs.v[i].own) tn__buffer_drop(p->inputs.v[i].own);
    if (p->inputs.v[i].bound) tn_release(p->inputs.v[i].bound);
  }
  for (uint32_t i = 0; i < p->outputs.n; i++) {
    tn__node_drop(c, p->outputs.v[i].node);
    if (p->outputs.v[i].buf) tn__buffer_drop(p->outputs.v[i].buf);
  }
  for (uint32_t i = 0; i < p->states.n; i++) {
    if (p->states.v[i].cell) tn_release(p->states.v[i].cell);
    if (p->states.v[i].spare) tn__buffer_drop(p->states.v[i].spare);
  }
  for (uint32_t i = 0; i < p->views.n; i++) tn_release(p->views.v[i]);
  for (uint32_t i = 0; i < p->checks.n; i++) {
    tn__node_drop(c, p->checks.v[i].of.mark);
    tn__node_drop(c, p->checks.v[i].of.size);
    for (int e = 0; e < TN__EXTREMES; e++)
      if (p->checks.v[i].buf[e]) tn__buffer_drop(p->checks.v[i].buf[e]);
  }
  for (uint32_t i = 0; i < p->sources.n; i++) {
    tn__node_drop(c, p->sources.v[i].node);
    if (p->sources.v[i].cell) tn_release(p->sources.v[i].cell);
  }
  if (p->plan) tn__plan_pin(p->plan, -1);
  tn__arena_free(&p->arena);
}

static void do_begin(tn_ctx *c, void *arg) {
  args *k = arg;
  if (c->runtime->recording) tn__fail(c, TN_ESTATE, "another program is being recorded");
  cells pending = {0};
  tn__cells_each(c, collect_assigned, &pending);
  if (pending.n) tn__run_realize(c, pending.v, (int)pending.n);
  tn__run_index_checks(c);
  tn__random_flush(c);
  tn__random_state(c, NULL);
  tn_program *p = tn__object_new(c, TN__PROGRAM, sizeof *p, free_program);
  tn__arena_init(&p->arena, &c->mem);
  tn__names_init(&p->input_names, &p->arena);
  tn__names_init(&p->output_names, &p->arena);
  tn__map_init(&p->size_of, &p->arena);
  p->next = c->runtime->programs;
  c->runtime->programs = p;
  p->recording = true;
  c->runtime->recording = p;
  tn__cells_hold(c, true);
  k->p = p;
}

tn_program *tn_program_begin(tn_ctx *ctx) {
  args k = {0};
  if (!ctx) return NULL;
  tn__cells_drain(ctx);
  tn__storage_reap(ctx);
  return tn__ctx_run(ctx, "tn_program_begin", do_begin, &k) ? k.p : NULL;
}

static void need_recording(tn_ctx *c, const tn_program *p) {
  if (!p->recording) tn__fail(c, TN_ESTATE, "the program's recording has ended");
}

static input *find_input(tn_ctx *c, tn_program *p, const char *name) {
  uint32_t i;
  if (name && tn__names_find(&p->input_names, name, &i)) return &p->inputs.v[i];
  tn__fail(c, TN_EINVAL, "the program has no input '%s'", name ? name : "NULL");
}

static void check_sizes(tn_ctx *c, const tn_dim *shape, int rank) {
  if (rank < 0 || rank > TN_MAX_RANK) tn__fail(c, TN_EINVAL, "rank %d is outside of 0..%d", rank, TN_MAX_RANK);
  if (rank && !shape) tn__fail(c, TN_EINVAL, "the shape is NULL but its rank is %d", rank);
}

static void do_input(tn_ctx *c, void *arg) {
  args *k = arg;
  tn_node *dim[TN_MAX_RANK];
  need_recording(c, k->p);
  if (!k->name || !*k->name) tn__fail(c, TN_EINVAL, "an input needs a name");
  uint32_t other;
  if (tn__names_find(&k->p->input_names, k->name, &other))
    tn__fail(c, TN_EINVAL, "there is an input '%s' already", k->name);
  check_sizes(c, k->shape, k->rank);
  if (k->dtype < 0 || k->dtype >= TN_DTYPE_COUNT) tn__fail(c, TN_EDTYPE, "unknown dtype %d", k->dtype);
  for (int i = 0; i < k->rank; i++) dim[i] = tn__dim_in(c, k->shape[i]);
  tn_node *n = tn__param(c, k->dtype, TN__PLACEHOLDER + c->runtime->next_placeholder++, 0, dim, (uint32_t)k->rank);
  input in = {.node = n, .size = tn__arena_zalloc(&k->p->arena, (n->rank + 1u) * sizeof *in.size)};
  k->made = tn__cell_new(c, n);
  in.name = tn__arena_strdup(&k->p->arena, k->name);
  tn__vec_push(&k->p->arena, &k->p->inputs, in);
  k->p->inputs.n--; /* until it has its name */
  tn__names_add(&k->p->input_names, in.name, k->p->inputs.n);
  k->p->inputs.n++;
  tn__node_keep(n);
}

tn_tensor *tn_program_input(tn_program *p, const char *name, tn_dtype dtype, const tn_dim *shape, int rank) {
  args k = {.name = name, .dtype = (int)dtype, .shape = shape, .rank = rank};
  return run(p, "tn_program_input", do_input, &k) == TN_OK ? k.made : NULL;
}

static void do_output(tn_ctx *c, void *arg) {
  args *k = arg;
  need_recording(c, k->p);
  if (!k->name || !*k->name) tn__fail(c, TN_EINVAL, "an output needs a name");
  const char *fault = tn__cell_fault(c, k->t);
  if (fault) tn__fail(c, TN_EINVAL, "output '%s' %s", k->name, fault);
  uint32_t other;
  if (tn__names_find(&k->p->output_names, k->name, &other))
    tn__fail(c, TN_EINVAL, "there is an output '%s' already", k->name);
  output o = {.node = k->t->node};
  o.size = tn__arena_zalloc(&k->p->arena, (o.node->rank + 1u) * sizeof *o.size);
  o.name = tn__arena_strdup(&k->p->arena, k->name);
  tn__vec_push(&k->p->arena, &k->p->outputs, o);
  k->p->outputs.n--; /* so */
  tn__names_add(&k->p->output_names, o.name, k->p->outputs.n);
  k->p->outputs.n++;
  tn__node_keep(o.node);
}

tn_status tn_program_output(tn_program *p, const char *name, tn_tensor *t) {
  args k = {.name = name, .t = t};
  return run(p, "tn_program_output", do_output, &k);
}

/* ---- the end of a recording ---- */

/* The oldest cell of each value, which comes last: others that are the same value were made of it. */
static void note_cell(tn_ctx *c, tn_tensor *t, void *arg) {
  (void)c;
  tn__map_putp(arg, t->node, t);
}

/* The random state after a run: {seed, calls + n} */
static tn_node *advance_random(tn_ctx *c, tn_node *s, uint64_t n) {
  tn_node *two = tn__int(c, 2), *at = tn__iota(c, two), *one = tn__scalar_to(c, tn__const_bits(c, TN_I64, 1), &two, 1);
  tn_node *by = tn__scalar_to(c, tn__const_bits(c, TN_U64, n), &two, 1),
          *none = tn__scalar_to(c, tn__const_bits(c, TN_U64, 0), &two, 1);
  return tn__add(c, s, tn__where(c, tn__op2(c, OP_EQ, at, one), by, none));
}

static void take_sources(tn_ctx *c, tn_program *p, const tn__nodes *in, const tn_node *random) {
  tn__map cell, input_of;
  c->runtime->changes++;
  tn__map_init(&cell, &c->scratch);
  tn__map_init(&input_of, &c->scratch);
  tn__cells_each(c, note_cell, &cell);
  for (uint32_t i = 0; i < p->states.n; i++)
    if (p->states.v[i].cell) note_cell(c, p->states.v[i].cell, &cell);
  for (uint32_t i = 0; i < p->inputs.n; i++) tn__map_put(&input_of, (uintptr_t)p->inputs.v[i].node, i);
  for (uint32_t i = 0; i < in->n; i++) {
    tn_node *n = in->v[i];
    uint64_t number;
    source s = {.kind = FROM_NODE, .node = n};
    if (tn__map_get(&input_of, (uintptr_t)n, &number)) s.kind = FROM_INPUT, s.input = (uint32_t)number;
    else if (n == random) s.kind = FROM_RANDOM;
    else if (n->op == OP_PARAM) tn__fail(c, TN_ESTATE, "an input of another program is used in this one");
    else if ((s.cell = tn__map_getp(&cell, n)) != NULL) s.kind = FROM_CELL;
    tn__vec_push(&p->arena, &p->sources, s);
    tn__node_keep(n);
    if (s.cell) tn_retain(s.cell);
  }
}

static void undo_assign(tn_ctx *c, tn_tensor *t, void *arg) {
  (void)arg;
  tn_node *below = below_view(t), *old = below;
  while (old->op == OP_ASSIGN) old = old->src[0];
  if (old != below) tn__cell_set(t, t->node == below ? old : tn__moves_replay(c, t->node, below, old));
  t->recorded = false;
}

/* What the recorded calls were given is looked at in each run. */
static void add_checks(tn_ctx *c, tn_program *p, tn__roots *roots) {
  for (uint32_t i = 0; i < c->cells->check.n; i++) {
    checked k = {.of = c->cells->check.v[i]};
    tn_node *extreme[TN__EXTREMES];
    tn__index_extremes(c, &k.of, extreme);
    k.of.type = tn__arena_strdup(&p->arena, k.of.type);
    for (int e = 0; e < TN__EXTREMES; e++) k.at[e] = tn__roots_add(c, roots, extreme[e]);
    tn__vec_push(&p->arena, &p->checks, k);
    tn__node_keep(k.of.mark);
    tn__node_keep(k.of.size);
  }
}

/* Under TENET_VERIFY: are the roots the values of the outputs and of the states? */
static void check_roots(tn_ctx *c, const tn_program *p, const tn__nodes *roots) {
  tn__map known;
  tn__map_init(&known, &c->scratch);
  for (uint32_t i = 0; i < p->outputs.n + p->states.n; i++) {
    const output *o = i < p->outputs.n ? &p->outputs.v[i] : NULL;
    const state *s = o ? NULL : &p->states.v[i - p->outputs.n];
    uint32_t at = o ? o->at : s->at;
    if (s && !s->cell) continue;
    tn_node *want = tn__roots_value(&known, o ? o->node : s->cell->node);
    if (at >= roots->n || tn__roots_value(&known, roots->v[at]) != want)
      tn__fail(c, TN_ERUN, "internal: output %u of the program is another value", at);
  }
}

static void check_sources(tn_ctx *c, const tn_program *p, const tn__nodes *in) {
  bool same = p->sources.n == in->n;
  for (uint32_t i = 0; same && i < in->n; i++) {
    const source *s = &p->sources.v[i];
    same = s->node == in->v[i] && (s->kind != FROM_CELL || s->cell->node == s->node) &&
           (s->kind == FROM_INPUT) == (s->node->op == OP_PARAM) &&
           (s->kind != FROM_INPUT || p->inputs.v[s->input].node == s->node);
  }
  if (!same) tn__fail(c, TN_ERUN, "internal: the program reads another value than was recorded");
}

static void take_views(tn_program *p, const cells *views, state *s) {
  s->view = p->views.n;
  for (uint32_t i = 0; i < views->n; i++)
    if (views->v[i]->base == s->cell) tn__vec_push(&p->arena, &p->views, tn_retain(views->v[i]));
  s->views = p->views.n - s->view;
}

static void do_end(tn_ctx *c, void *arg) {
  args *k = arg;
  tn_program *p = k->p;
  need_recording(c, p);
  tn__roots roots;
  tn__nodes in = {0};
  cells assigned = {0}, views = {0};
  uint64_t ahead = 0;
  tn__roots_init(c, &roots);
  tn__cells_each(c, collect_assigned, &assigned);
  tn__cells_each(c, collect_views, &views);
  for (uint32_t i = 0; i < p->outputs.n; i++) p->outputs.v[i].at = tn__roots_put(c, &roots, p->outputs.v[i].node);
  for (uint32_t i = 0; i < assigned.n; i++) {
    state s = {.cell = assigned.v[i], .at = tn__roots_add(c, &roots, assigned.v[i]->node)};
    take_views(p, &views, &s);
    tn__vec_push(&p->arena, &p->states, s);
    tn_retain(s.cell);
  }
  add_checks(c, p, &roots);
  tn_node *random = tn__random_state(c, &ahead);
  if (ahead) {
    state s = {.at = tn__roots_add(c, &roots, advance_random(c, random, ahead))};
    tn__vec_push(&p->arena, &p->states, s);
    p->calls = ahead;
  }
  if (c->opt.verify) check_roots(c, p, &roots.node);
  tn__cells_each(c, undo_assign, NULL);
  if (!roots.node.n) tn__fail(c, TN_EINVAL, "the program has no output and assigns nothing");
  tn_node *key = tn__plan_key_seen(c, roots.node.v, roots.node.n, p->outputs.n, &in);
  take_sources(c, p, &in, random);
  if (c->opt.verify) {
    tn__bound_key(c, key, &in, &roots.node);
    check_sources(c, p, &in);
  }
  p->plan = tn__plan_get(c, key);
  tn__plan_pin(p->plan, 1);
  tn_node *const *var;
  uint32_t nvar = tn__plan_vars(p->plan, &var);
  p->value = tn__arena_zalloc(&p->arena, (nvar + 1) * sizeof *p->value);
  p->from = tn__arena_zalloc(&p->arena, (nvar + 1) * sizeof *p->from);
  p->in = tn__arena_zalloc(&p->arena, (in.n + 1) * sizeof *p->in);
  p->out = tn__arena_zalloc(&p->arena, (roots.node.n + 1) * sizeof *p->out);
  p->roots = roots.node.n;
  for (uint32_t i = 0; i < nvar; i++) tn__map_put(&p->size_of, (uintptr_t)var[i], i);
  for (uint32_t i = 0; i < p->outputs.n; i++) p->outputs.v[i].lead = tn__plan_lead(p->plan, i);
  p->ready = true;
}

/* Random tensors made while recording are the program's, not the caller's: the generator goes back. */
static void do_rewind(tn_ctx *c, void *arg) {
  uint64_t seed = 0, calls = 0, ahead = 0;
  (void)arg;
  tn_node *random = tn__random_state(c, &ahead);
  tn_rng_get_state(c, &seed, &calls);
  tn__random_set_state(c, random, calls - ahead);
  tn__cells_each(c, undo_assign, NULL);
  tn__index_checks_drop(c);
}

/* Nothing if it is not being recorded. */
static void stop_recording(tn_program *p, const char *api) {
  tn_ctx *c = tn__object_use(p, TN__PROGRAM, api);
  if (!c || !p->recording) return;
  p->recording = false;
  c->runtime->recording = NULL;
  tn__ctx_run(c, api, do_rewind, NULL);
  tn__cells_hold(c, false);
}

tn_status tn_program_end(tn_program *p) {
  args k = {0};
  tn_status status = run(p, "tn_program_end", do_end, &k);
  stop_recording(p, "tn_program_end");
  return status;
}

/* ---- inputs ---- */

static void need_ready(tn_ctx *c, const tn_program *p) {
  if (!p->ready) tn__fail(c, TN_ESTATE, "the program is not compiled: tn_program_end() has not succeeded");
}

/* Checks a concrete shape against the recorded one. */
static void match_shape(tn_ctx *c, const input *in, const int64_t *size, uint32_t rank) {
  const char *type = tn__node_type(in->node, &c->scratch);
  if (rank != in->node->rank) tn__fail(c, TN_ESHAPE, "input '%s' is %s; %u axes were given", in->name, type, rank);
  for (uint32_t i = 0; i < rank; i++) {
    const tn_node *d = in->node->dim[i];
    if (tn__is_const(d)) {
      if (size[i] != d->ints[0])
        tn__fail(c, TN_ESHAPE, "input '%s' is %s; axis %u was given as %lld", in->name, type, i, (long long)size[i]);
    } else if (d->op != OP_VAR) {
      tn__fail(c, TN_ENOTSUP, "input '%s': only plain and single symbolic sizes can be bound", in->name);
    } else if (size[i] < d->lo || size[i] > d->hi) {
      tn__fail(c, TN_EBOUND, "input '%s': size %s = %lld is outside of %lld..%lld", in->name, d->name,
               (long long)size[i], (long long)d->lo, (long long)d->hi);
    }
  }
}

/* The input has this shape from now on. */
static void set_shape(input *in, const int64_t *size) {
  for (uint32_t i = 0; i < in->node->rank; i++) in->size[i] = size[i];
  in->set = true;
}

/* The input that gets a value now.  Until that has succeeded it has none: what was there before is not what the caller
 * wants. */
static input *open_input(tn_ctx *c, tn_program *p, const char *name) {
  need_ready(c, p);
  input *in = find_input(c, p, name);
  in->set = false;
  in->refused = true;
  return in;
}

static void plain_shape(tn_ctx *c, const tn_dim *shape, int rank, int64_t *out) {
  check_sizes(c, shape, rank);
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) tn__fail(c, TN_EINVAL, "size %lld of axis %d is not a plain size", (long long)shape[i], i);
    out[i] = shape[i];
  }
}

static size_t bytes_of(tn_ctx *c, const input *in, const int64_t *size) {
  size_t b = tn__size_of(in->node->dtype);
  bool empty = false, over = false;
  for (uint32_t i = 0; i < in->node->rank; i++) {
    empty |= size[i] == 0;
    over |= __builtin_mul_overflow(b, (size_t)size[i], &b);
  }
  if (empty) return 0;
  if (over || b > PTRDIFF_MAX)
    tn__fail(c, TN_EINVAL, "input '%s': the shape takes more bytes than memory can hold", in->name);
  return b;
}

static void do_write(tn_ctx *c, void *arg) {
  args *k = arg;
  int64_t size[TN_MAX_RANK];
  input *in = open_input(c, k->p, k->name);
  plain_shape(c, k->shape, k->rank, size);
  match_shape(c, in, size, (uint32_t)k->rank);
  size_t want = bytes_of(c, in, size);
  if (k->bytes != want)
    tn__fail(c, TN_EINVAL, "input '%s': %zu bytes given, the shape takes %zu", in->name, k->bytes, want);
  if (!k->data && want) tn__fail(c, TN_EINVAL, "the source is NULL");
  tn__device *d = tn__device_get(c, 0); /* inputs are made on the default device */
  if (!in->own || in->own->size < want || in->own->refs > 1) {
    tn__buffer *b = tn__buffer_new(d, want);
    if (in->own) tn__buffer_drop(in->own);
    in->own = b;
  }
  if (want) d->ops->upload(d, in->own->mem, k->data, want);
  if (in->bound) tn_release(in->bound);
  in->bound = NULL;
  set_shape(in, size);
}

tn_status tn_program_write(tn_program *p, const char *name, const tn_dim *shape, int rank, const void *data,
                           size_t bytes) {
  args k = {.name = name, .shape = shape, .rank = rank, .data = data, .bytes = bytes};
  return run(p, "tn_program_write", do_write, &k);
}

/* Is n a realised value, moved or not? */
static bool is_moved(const tn_node *n) {
  while (tn__ops[n->op].group == G_MOVE && n->op != OP_FOLD) n = n->src[0];
  return n->op == OP_STORAGE;
}

static void do_bind(tn_ctx *c, void *arg) {
  args *k = arg;
  int64_t size[TN_MAX_RANK];
  input *in = open_input(c, k->p, k->name);
  const char *fault = tn__cell_fault(c, k->t);
  if (fault) tn__fail(c, TN_EINVAL, "the value of input '%s' %s", in->name, fault);
  const tn_node *n = k->t->node;
  if (n->op != OP_STORAGE && is_moved(n)) tn__run_realize_alone(c, &k->t, 1); /* a result may be: it has to stand */
  n = k->t->node;
  if (n->op != OP_STORAGE) tn__fail(c, TN_ESTATE, "input '%s': the value is not realised (tn_realize)", in->name);
  if (n->dtype != in->node->dtype)
    tn__fail(c, TN_EDTYPE, "input '%s' is %s, not %s", in->name, tn__node_type(in->node, &c->scratch),
             tn__node_type(n, &c->scratch));
  if (n->device != 0)
    tn__fail(c, TN_EDEVICE, "input '%s' is on %s, not on %s: move the value with tn_to", in->name,
             tn__device_get(c, 0)->name, tn__device_get(c, n->device)->name);
  for (uint32_t i = 0; i < n->rank; i++) size[i] = n->dim[i]->ints[0];
  match_shape(c, in, size, n->rank);
  tn_retain(k->t);
  if (in->bound) tn_release(in->bound);
  in->bound = k->t;
  set_shape(in, size);
}

tn_status tn_program_bind(tn_program *p, const char *name, tn_tensor *value) {
  args k = {.name = name, .t = value};
  return run(p, "tn_program_bind", do_bind, &k);
}

/* ---- replay ---- */

static tn__buffer *cell_buffer(tn_ctx *c, tn_tensor *t) {
  if (t->node->op != OP_STORAGE) tn__run_realize(c, &t, 1);
  return tn__storage_input(c, t->node);
}

static void fill_inputs(tn_ctx *c, tn_program *p) {
  for (uint32_t i = 0; i < p->sources.n; i++) {
    const source *s = &p->sources.v[i];
    const input *in = s->kind == FROM_INPUT ? &p->inputs.v[s->input] : NULL;
    if (in && !in->set)
      tn__fail(c, TN_ESTATE,
               in->refused ? "input '%s' has no value: the last one was refused" : "input '%s' has not been bound",
               in->name);
    if (in) p->in[i] = in->bound ? cell_buffer(c, in->bound) : in->own;
    else if (s->kind == FROM_CELL) p->in[i] = cell_buffer(c, s->cell);
    else if (s->kind == FROM_RANDOM) p->in[i] = tn__storage_on(c, tn__random_state(c, NULL), tn__plan_device(p->plan));
    else p->in[i] = tn__storage_input(c, s->node);
  }
}

static tn_node *state_node(tn_ctx *c, const state *s) { return s->cell ? s->cell->node : tn__random_state(c, NULL); }

/* References to nodes by sources of programs that read a tensor, whatever its value is then; counted when the first is
 * asked for.  A source without a tensor reads this very value, as anybody else may. */
typedef struct counted {
  tn__map refs;
  bool done;
} counted;

static void count_refs(tn_ctx *c, counted *k) {
  tn__map_init(&k->refs, &c->scratch);
  k->done = true;
  for (const tn_program *p = c->runtime->programs; p; p = p->next)
    for (uint32_t i = 0; i < p->sources.n; i++) {
      uint64_t n = 0, key = (uintptr_t)p->sources.v[i].node;
      if (p->sources.v[i].kind == FROM_NODE) continue;
      tn__map_get(&k->refs, key, &n);
      tn__map_put(&k->refs, key, n + 1);
    }
}

/* References to n, the state's node, that are those of programs: counted when it is another one or programs have come
 * or gone, not in every run. */
static uint32_t programs_refs(tn_ctx *c, state *s, const tn_node *n, counted *k) {
  uint64_t refs = 0;
  if (s->counted == n && s->changes == c->runtime->changes) return s->refs;
  if (!k->done) count_refs(c, k);
  tn__map_get(&k->refs, (uintptr_t)n, &refs);
  s->counted = n;
  s->changes = c->runtime->changes;
  return s->refs = (uint32_t)refs;
}

/* What of the tensor's value refers to n itself; NULL if it is another value, or somebody else may have part of it. */
static tn_node *sees_alone(const tn_tensor *t, const tn_node *n) {
  tn_node *last = t->node;
  for (tn_node *x = last; x != n; last = x, x = x->src[0])
    if (x->refs != 1 || tn__ops[x->op].group != G_MOVE) return NULL;
  return last;
}

static uint32_t views_of(const tn_program *p, const state *s, const tn_node *n) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < s->views; i++) count += sees_alone(p->views.v[s->view + i], n) != NULL;
  return count;
}

/* Where the new value will stand.  NULL if nothing but programs, the cell and views that are to see it refers to the
 * old storage: then the two buffers trade places, and nothing is allocated.  Else a storage of its own, made before the
 * run, so that afterwards nothing can fail. */
static tn_node *prepare(tn_ctx *c, const tn_program *p, state *s, counted *k) {
  tn_node *n = state_node(c, s);
  /* assigned from outside since: it stands nowhere yet */
  if (n->op == OP_STORAGE && n->refs <= 1 + programs_refs(c, s, n, k) + views_of(p, s, n)) return NULL;
  tn__buffer *b = s->spare;
  s->spare = NULL;
  return s->cell ? tn__storage_make(c, n->dtype, b, n->dim, n->rank)
                 : tn__storage_loose(c, n->dtype, b, n->dim, n->rank);
}

static void commit(tn_ctx *c, state *s, tn_node *fresh) {
  if (!fresh) s->spare = tn__storage_swap(c, state_node(c, s), s->spare);
  else if (s->cell) tn__cell_set(s->cell, fresh);
  else tn__random_set_state(c, fresh, 0);
}

/* What the state's views will be of, one after the other; NULL: what they are */
static void prepare_views(tn_ctx *c, const tn_program *p, const state *s, tn_node *fresh, tn_node **next) {
  for (uint32_t i = s->view; i < s->view + s->views; i++) {
    const tn_tensor *t = p->views.v[i];
    tn_node *of = fresh ? fresh : s->cell->node;
    next[i] = below_view(t) == of ? NULL : tn__cell_view(c, t, of);
  }
}

/* One size, from an axis of an input. */
static void take_size(tn_ctx *c, tn_program *p, const input *in, uint32_t axis) {
  uint64_t v;
  if (!tn__map_get(&p->size_of, (uintptr_t)in->node->dim[axis], &v)) return;
  if (p->from[v] && p->value[v] != in->size[axis])
    tn__fail(c, TN_EBOUND, "size %s is %lld in input '%s' but %lld in input '%s'", in->node->dim[axis]->name,
             (long long)p->value[v], p->from[v]->name, (long long)in->size[axis], in->name);
  p->value[v] = in->size[axis];
  p->from[v] = in;
}

/* The symbolic sizes from the shapes of all inputs, which must agree. */
static void take_sizes(tn_ctx *c, tn_program *p) {
  tn_node *const *var;
  uint32_t nvar = tn__plan_vars(p->plan, &var);
  for (uint32_t v = 0; v < nvar; v++) p->from[v] = NULL;
  for (uint32_t i = 0; i < p->inputs.n; i++) {
    const input *in = &p->inputs.v[i];
    for (uint32_t a = 0; in->set && a < in->node->rank; a++) take_size(c, p, in, a);
  }
  for (uint32_t v = 0; v < nvar; v++)
    if (!p->from[v]) tn__fail(c, TN_EBOUND, "size %s has no value: no input has it", var[v]->name);
}

/* Kept here: another program may run the same plan with other sizes before this output is read. */
static void size_output(tn_ctx *c, const tn_program *p, output *o) {
  tn__env env = {.val = p->value};
  env.n = tn__plan_vars(p->plan, &env.key);
  o->bytes = tn__size_of(o->node->dtype);
  for (uint32_t i = 0; i < o->node->rank; i++) {
    o->size[i] =
        tn__is_const(o->node->dim[i]) ? o->node->dim[i]->ints[0] : tn__eval_index(o->node->dim[i], &env, &c->scratch);
    if (o->size[i] < 0 || __builtin_mul_overflow(o->bytes, (size_t)o->size[i], &o->bytes) || o->bytes > PTRDIFF_MAX)
      tn__fail(c, TN_ENOMEM, "output '%s' is beyond any memory", o->name);
  }
}

/* Of the run that has just been; before its states are the tensors'. */
static void look_at_indices(tn_ctx *c, const tn_program *p) {
  tn__env env = {.val = p->value};
  env.n = tn__plan_vars(p->plan, &env.key);
  for (uint32_t i = 0; i < p->checks.n; i++) {
    const checked *k = &p->checks.v[i];
    int64_t extreme[TN__EXTREMES];
    for (int e = 0; e < TN__EXTREMES; e++)
      k->buf[e]->device->ops->download(k->buf[e]->device, &extreme[e], k->buf[e]->mem, sizeof extreme[e]);
    const char *wrong = tn__index_judge(c, &k->of, extreme, &env);
    if (wrong) tn__fail(c, TN_EINVAL, "%s", wrong);
  }
}

/* Under TENET_VERIFY: is the value of each source what it stands for now, of the sizes that are bound? */
static void check_inputs(tn_ctx *c, const tn_program *p) {
  tn__env env = {.val = p->value};
  env.n = tn__plan_vars(p->plan, &env.key);
  for (uint32_t i = 0; i < p->sources.n; i++) {
    const source *s = &p->sources.v[i];
    const input *in = s->node->op == OP_PARAM ? &p->inputs.v[s->input] : NULL;
    const tn_node *now = in ? in->bound ? in->bound->node : NULL : s->cell ? s->cell->node : s->node;
    bool random = s->kind == FROM_RANDOM;
    const tn__buffer *want = random ? p->in[i] : now ? tn__storage_buffer(c, now) : in ? in->own : NULL;
    bool same = p->in[i] == want;
    for (uint32_t a = 0; in && a < in->node->rank; a++)
      same &= in->size[a] == tn__eval_index(in->node->dim[a], &env, &c->scratch) &&
              (!now || now->dim[a]->ints[0] == in->size[a]);
    if (!same) tn__fail(c, TN_ERUN, "internal: the program is given another value for its source %u", i);
  }
  for (uint32_t v = 0; v < env.n; v++)
    if (tn__plan_value(p->plan, v) != p->value[v])
      tn__fail(c, TN_ERUN, "internal: the program runs with size %s = %lld, not %lld", env.key[v]->name,
               (long long)tn__plan_value(p->plan, v), (long long)p->value[v]);
}

/* Who keeps the value of a state whose memory is to be another's?  And is any memory written that is read, or written
 * twice? */
static void check_places(tn_ctx *c, tn_program *p, tn_node *const *fresh) {
  tn__nodes swapped = {0}, kept = {0};
  tn__map used, sees; /* tensors, and movements, that are to see what is written */
  tn__map_init(&sees, &c->scratch);
  for (uint32_t i = 0; i < p->states.n; i++) {
    const state *s = &p->states.v[i];
    if (fresh[i]) continue;
    tn__vec_push(&c->scratch, &swapped, state_node(c, s));
    tn__map_put(&sees, (uintptr_t)s->cell, 1);
    for (uint32_t v = s->view; v < s->view + s->views; v++) {
      tn__map_put(&sees, (uintptr_t)p->views.v[v], 1);
      tn__map_put(&sees, (uintptr_t)sees_alone(p->views.v[v], state_node(c, s)), 1);
    }
  }
  for (const tn_program *q = c->runtime->programs; q; q = q->next) {
    for (uint32_t i = 0; i < q->sources.n; i++)
      if (q->sources.v[i].kind == FROM_NODE) tn__vec_push(&c->scratch, &kept, q->sources.v[i].node);
  }
  tn__bound_swaps(c, &swapped, &sees, &kept, &p->seen);
  tn__map_init(&used, &c->scratch);
  for (uint32_t i = 0; i < p->sources.n; i++) tn__map_putp(&used, p->in[i], p->in[i]);
  for (uint32_t i = 0; i < p->roots; i++) {
    if (i < p->outputs.n && p->outputs.v[i].lead != i) continue;
    if (tn__map_getp(&used, p->out[i]))
      tn__fail(c, TN_ERUN, "internal: output %u of the program is memory that is in use", i);
    tn__map_putp(&used, p->out[i], p->out[i]);
  }
}

/* So, is each output and each state where the run put it? */
static void check_results(tn_ctx *c, const tn_program *p) {
  bool same = true;
  for (uint32_t i = 0; i < p->outputs.n; i++) same &= p->outputs.v[i].buf == p->out[p->outputs.v[i].at];
  for (uint32_t i = 0; i < p->states.n; i++) {
    const state *s = &p->states.v[i];
    same &= tn__storage_buffer(c, state_node(c, s)) == p->out[s->at];
  }
  if (!same) tn__fail(c, TN_ERUN, "internal: a result of the program stands elsewhere");
}

static void do_run(tn_ctx *c, void *arg) {
  tn_program *p = ((args *)arg)->p;
  need_ready(c, p);
  if (c->runtime->recording) tn__fail(c, TN_ESTATE, "a program cannot run while one is being recorded");
  uint64_t seed = 0, calls = 0;
  counted refs = {0};
  if (p->calls) {
    tn__random_flush(c);
    tn_rng_get_state(c, &seed, &calls);
  }
  fill_inputs(c, p);
  take_sizes(c, p);
  tn__plan_bind(c, p->plan, p->value);
  for (uint32_t i = 0; i < p->outputs.n; i++) {
    output *o = &p->outputs.v[i];
    size_output(c, p, o);
    if (o->lead != i) continue;
    tn__plan_output(p->plan, o->at, p->in, &o->buf);
    p->out[o->at] = o->buf;
  }
  for (uint32_t i = 0; i < p->states.n; i++) {
    state *s = &p->states.v[i];
    tn__plan_output(p->plan, s->at, p->in, &s->spare);
    p->out[s->at] = s->spare;
  }
  for (uint32_t i = 0; i < p->checks.n; i++)
    for (int e = 0; e < TN__EXTREMES; e++) {
      checked *k = &p->checks.v[i];
      tn__plan_output(p->plan, k->at[e], p->in, &k->buf[e]);
      p->out[k->at[e]] = k->buf[e];
    }
  tn_node **fresh = tn__alloc(c, (p->states.n + 1) * sizeof *fresh);
  for (uint32_t i = 0; i < p->states.n; i++) fresh[i] = prepare(c, p, &p->states.v[i], &refs);
  if (c->opt.verify) {
    check_inputs(c, p);
    check_places(c, p, fresh);
  }
  tn_node **next = tn__alloc(c, (p->views.n + 1) * sizeof *next);
  for (uint32_t i = 0; i < p->states.n; i++) prepare_views(c, p, &p->states.v[i], fresh[i], next);
  tn_status status = tn__plan_replay(c, p->plan, p->in, p->out);
  /* state keeps its old value */
  if (status != TN_OK) tn__fail(c, status, "a kernel of the program failed: %s", tn_status_text(status));
  p->refused = true;
  look_at_indices(c, p);
  p->refused = false;
  for (uint32_t i = 0; i < p->states.n; i++) commit(c, &p->states.v[i], fresh[i]);
  for (uint32_t i = 0; i < p->views.n; i++)
    if (next[i]) tn__cell_set(p->views.v[i], next[i]);
  if (c->opt.verify) check_results(c, p);
  if (p->calls) tn__random_set_state(c, tn__random_state(c, NULL), calls + p->calls);
}

tn_status tn_program_run(tn_program *p) {
  args k = {0};
  return run(p, "tn_program_run", do_run, &k);
}

static tn__buffer *buffer_of(const tn_program *p, const output *o) { return p->outputs.v[o->lead].buf; }

static output *find_output(tn_ctx *c, tn_program *p, const char *name) {
  need_ready(c, p);
  uint32_t i;
  if (name && tn__names_find(&p->output_names, name, &i)) {
    if (!buffer_of(p, &p->outputs.v[i])) tn__fail(c, TN_ESTATE, "output '%s': the program has not run yet", name);
    if (p->refused) tn__fail(c, TN_ESTATE, "output '%s': in the last run an index was out of range", name);
    return &p->outputs.v[i];
  }
  tn__fail(c, TN_EINVAL, "the program has no output '%s'", name ? name : "NULL");
}

static void do_result(tn_ctx *c, void *arg) {
  args *k = arg;
  const output *o = find_output(c, k->p, k->name);
  tn__buffer *b = buffer_of(k->p, o);
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < o->node->rank; i++) dim[i] = tn__int(c, o->size[i]);
  k->made = tn__cell_new(c, tn__plan_is_moved(k->p->plan, o->at)
                                ? tn__plan_seen(c, k->p->plan, o->at, b)
                                : tn__storage_make(c, o->node->dtype, tn__buffer_keep(b), dim, o->node->rank));
}

tn_tensor *tn_program_result(tn_program *p, const char *name) {
  args k = {.name = name};
  return run(p, "tn_program_result", do_result, &k) == TN_OK ? k.made : NULL;
}

static void do_read(tn_ctx *c, void *arg) {
  args *k = arg;
  output *o = find_output(c, k->p, k->name);
  if (k->bytes != o->bytes) tn__fail(c, TN_EINVAL, "output '%s' takes %zu bytes, not %zu", o->name, o->bytes, k->bytes);
  if (!k->into && o->bytes) tn__fail(c, TN_EINVAL, "the destination is NULL");
  if (!o->bytes) return;
  tn__buffer *b = buffer_of(k->p, o);
  if (tn__plan_is_moved(k->p->plan, o->at)) tn__plan_gather(c, k->p->plan, o->at, b, k->into);
  else b->device->ops->download(b->device, k->into, b->mem, o->bytes);
}

tn_status tn_program_read(tn_program *p, const char *name, void *out, size_t bytes) {
  args k = {.name = name, .into = out, .bytes = bytes};
  return run(p, "tn_program_read", do_read, &k);
}

static void do_info(tn_ctx *c, void *arg) {
  args *k = arg;
  need_ready(c, k->p);
  if (!k->into) tn__fail(c, TN_EINVAL, "out is NULL");
  tn__plan_info(k->p->plan, k->into);
}

tn_status tn_program_get_info(const tn_program *p, tn_program_info *out) {
  args k = {.into = out};
  tn_program *self = (tn_program *)(uintptr_t)p;
  return run(self, "tn_program_get_info", do_info, &k);
}

static void do_explain(tn_ctx *c, void *arg) {
  args *k = arg;
  tn__sb s;
  need_ready(c, k->p);
  tn__sb_init(&s, &c->scratch);
  tn__plan_print(c, k->p->plan, &s);
  if (!k->into) k->text = tn__string_out(c, tn__sb_str(&s));
  else if (fputs(tn__sb_str(&s), k->into) == EOF) tn__fail(c, TN_EIO, "writing failed");
}

tn_status tn_program_explain(const tn_program *p, FILE *out) {
  args k = {.into = out ? out : stdout};
  tn_program *self = (tn_program *)(uintptr_t)p;
  return run(self, "tn_program_explain", do_explain, &k);
}

char *tn_program_explain_string(const tn_program *p) {
  args k = {0};
  tn_program *self = (tn_program *)(uintptr_t)p;
  return run(self, "tn_program_explain_string", do_explain, &k) == TN_OK ? k.text : NULL;
}

static int count_of(tn_ctx *c, const tn_program *p, int part) {
  need_ready(c, p);
  switch (part) {
  case TN_PROGRAM_INPUT: return (int)p->inputs.n;
  case TN_PROGRAM_OUTPUT: return (int)p->outputs.n;
  case TN_PROGRAM_STATE: return (int)p->states.n;
  default: tn__fail(c, TN_EINVAL, "a program has no part %d", part);
  }
}

static void do_count(tn_ctx *c, void *arg) {
  args *k = arg;
  k->index = count_of(c, k->p, k->part);
}

int tn_program_count(const tn_program *p, tn_program_part part) {
  args k = {.part = (int)part};
  tn_program *self = (tn_program *)(uintptr_t)p;
  return run(self, "tn_program_count", do_count, &k) == TN_OK ? k.index : -1;
}

static void do_describe(tn_ctx *c, void *arg) {
  args *k = arg;
  const tn_program *p = k->p;
  int n = count_of(c, p, k->part);
  if (k->index < 0 || k->index >= n) tn__fail(c, TN_EINVAL, "there is no number %d of %d", k->index, n);
  if (!k->into) tn__fail(c, TN_EINVAL, "out is NULL");
  tn_program_value v = {.name = ""};
  const tn_node *node;
  if (k->part == TN_PROGRAM_STATE) {
    const state *s = &p->states.v[k->index];
    node = state_node(c, s);
    v.tensor = s->cell;
  } else {
    node = k->part == TN_PROGRAM_INPUT ? p->inputs.v[k->index].node : p->outputs.v[k->index].node;
    v.name = k->part == TN_PROGRAM_INPUT ? p->inputs.v[k->index].name : p->outputs.v[k->index].name;
  }
  v.dtype = (tn_dtype)node->dtype;
  v.rank = node->rank;
  for (uint32_t i = 0; i < node->rank; i++) v.shape[i] = tn__dim_out(c, node->dim[i]);
  *(tn_program_value *)k->into = v;
}

tn_status tn_program_describe(const tn_program *p, tn_program_part part, int index, tn_program_value *out) {
  args k = {.part = (int)part, .index = index, .into = out};
  tn_program *self = (tn_program *)(uintptr_t)p;
  return run(self, "tn_program_describe", do_describe, &k);
}

void tn_program_close(tn_program *p) {
  tn_ctx *c = tn__object_use(p, TN__PROGRAM, "tn_program_close");
  if (!c) return;
  stop_recording(p, "tn_program_close");
  tn__object_close(p);
  tn__cells_drain(c);
}

void tn__run_close(tn_ctx *c) {
  struct tn__runtime *rt = c->runtime;
  if (!rt) return;
  tn__validate_close(c);
  while (rt->plans) {
    tn__plan *p = rt->plans;
    rt->plans = tn__plan_next(p);
    tn__plan_free(c, p);
  }
}
