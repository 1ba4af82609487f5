/* Matrix products by tiles: a group computes a tile of the output, staged through shared memory, its elements in the threads' registers.
 *
 * Needs a body with one sum of products, both operands loads.  Gives one whose rows and columns are cut into tiles, and those into
 * digits: of the thread's number, of turns, of neighbours.  The sum keeps its plain form, a loop over the steps for each element, which is
 * what the kernel means and what interpreters run; languages that have a function for the form print that in the loop's place.
 *
 * A form fits where tiles divide the sizes, and runs of 16 bytes lie along one axis of each operand. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { T = TN__DIGIT_THREAD, U = TN__DIGIT_TURN, N = TN__DIGIT_NEIGHBOUR };

static const tn__tile_form forms[] = {
    {.name = "wgmma_bf16", .dtype = TN_BF16, .needs = 90, .rows = 128, .cols = 256, .steps = 64, .threads = 256, .shared = 196608,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 64, 0}, {U, 32, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "wgmma_f16", .dtype = TN_F16, .needs = 90, .rows = 128, .cols = 256, .steps = 64, .threads = 256, .shared = 196608,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 64, 0}, {U, 32, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "fma_f32", .dtype = TN_F32, .needs = 80, .rows = 128, .cols = 256, .steps = 16, .threads = 256, .shared = 75264,
     .digit = {{T, 8, 0, 4}, {T, 4, 4, 0}, {T, 2, 0, 128}, {T, 4, 32, 0}, {U, 2, 16, 0}, {U, 4, 1, 0}, {U, 4, 0, 32}, {N, 4, 0, 1}}},
    {.name = "small_f32", .dtype = TN_F32, .needs = 80, .rows = 16, .cols = 32, .steps = 16, .threads = 256, .shared = 104448,
     .digit = {{T, 16, 0, 2}, {T, 16, 1, 0}, {N, 2, 0, 1}}},
    {.name = "tall_f32", .dtype = TN_F32, .needs = 80, .rows = 32, .cols = 16, .steps = 16, .threads = 256, .shared = 104448,
     .digit = {{T, 8, 0, 2}, {T, 32, 1, 0}, {N, 2, 0, 1}}},
};

enum { BAND = 8 }; /* rows of tiles that are worked on side by side, so that they share columns in the cache */

typedef struct job {
  tn_ctx *c;
  tn__arena *a;
  tn_node *body, *sum;
  tn__survey s;
  tn_node *operand[2]; /* loads: of rows, of columns */
  uint64_t axis[2], batch;
  const tn__tile_form *form;
  bool by_steps[2];
} job;

static tn_node *load_of(tn_node *x) {
  if (x->op == OP_CAST && x->dtype == TN_F32) x = x->src[0];
  return x->op == OP_LOAD && x->src[0]->op == OP_PARAM && x->nsrc == 2 ? x : NULL;
}

/* The one sum of products, and which outputs each factor depends on. */
static bool find_product(job *j) {
  const tn__ranges *r = &j->s.r;
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    if (n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER || (n->op == OP_REDUCE && j->sum)) return false;
    if (n->op == OP_REDUCE) j->sum = n;
  }
  if (!j->sum || j->sum->ints[0] != OP_ADD || j->sum->dtype != TN_F32 || j->sum->src[0]->op != OP_MUL || j->sum->nsrc != 2) return false;
  for (int i = 0; i < 2; i++)
    if (!(j->operand[i] = load_of(j->sum->src[0]->src[i]))) return false;
  uint64_t step = tn__own_of(r, j->sum), x = tn__free_of(r, j->operand[0]), y = tn__free_of(r, j->operand[1]);
  j->axis[0] = x & ~y & ~step;
  j->axis[1] = y & ~x & ~step;
  j->batch = tn__free_of(r, j->sum) & ~(j->axis[0] | j->axis[1]);
  return (x & step) && (y & step) && tn__free_of(r, j->sum) == j->s.common && j->axis[0] && j->axis[1] && !(j->axis[0] & (j->axis[0] - 1)) && !(j->axis[1] & (j->axis[1] - 1));
}

static const tn_node *first_store(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_STORE) return j->s.r.order.v[i];
  return NULL;
}

static tn_node *range_in(const job *j, uint64_t set) { return j->s.r.range[__builtin_ctzll(set)]; }

/* Runs of 16 bytes along the axis that lies along memory. */
static bool has_runs(job *j, int side) {
  const tn_node *load = j->operand[side];
  int64_t run = 16 / (int64_t)tn__size_of(load->dtype);
  uint64_t step = tn__own_of(&j->s.r, j->sum);
  bool by_steps = tn__stride(&j->s.r, load->src[1], (uint32_t)__builtin_ctzll(step)) == 1;
  uint64_t along = by_steps ? step : j->axis[side];
  if (tn__stride(&j->s.r, load->src[1], (uint32_t)__builtin_ctzll(along)) != 1) return false;
  j->by_steps[side] = by_steps;
  if (tn__stride(&j->s.r, load->src[1], (uint32_t)__builtin_ctzll(step)) == TN__IRREGULAR) return false; /* places move evenly from step to step */
  tn_node *x = range_in(j, along), *runs = tn__mul(j->c, x, tn__int(j->c, run));
  return tn__divisible(tn__simplify_index(j->c, tn__substitute(j->c, load->src[1], &x, &runs, 1)), run);
}

static bool divides(const tn_node *range, int64_t by) {
  int64_t v;
  return tn__const_int(range->src[0], &v) && v % by == 0;
}

static bool choose_form(job *j, const tn__device *dev) {
  const tn_node *store = first_store(j);
  if (tn__stride(&j->s.r, store->src[1], (uint32_t)__builtin_ctzll(j->axis[1])) != 1) { /* columns lie along the output's memory */
    tn_node *x = j->operand[0];
    uint64_t set = j->axis[0];
    j->operand[0] = j->operand[1], j->operand[1] = x;
    j->axis[0] = j->axis[1], j->axis[1] = set;
  }
  if (!has_runs(j, 0) || !has_runs(j, 1)) return false;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const tn__tile_form *f = &forms[i];
    j->form = f;
    if (f->needs > dev->tiles || f->shared > dev->shared) continue;
    if (f->dtype == j->operand[0]->dtype && f->dtype == j->operand[1]->dtype && divides(range_in(j, j->axis[0]), f->rows) &&
        divides(range_in(j, j->axis[1]), f->cols) && divides(range_in(j, tn__own_of(&j->s.r, j->sum)), f->steps))
      return true;
  }
  return false;
}

/* The ranges of a tile's elements, from the form's digits; their rows and columns. */
static uint32_t open_digits(job *j, tn__tile *t, tn_node **range, tn_node *place[2]) {
  tn_ctx *c = j->c;
  tn_node *rest = tn__range(c, tn__int(c, j->form->threads), AX_UPCAST, TN__R_TILE);
  uint32_t n = 0;
  range[n++] = rest;
  place[0] = place[1] = tn__int(c, 0);
  for (int i = 0; i < TN__DIGITS && j->form->digit[i].extent; i++) {
    const tn__digit *d = &j->form->digit[i];
    tn_node *size = tn__int(c, d->extent), *x;
    if (d->of == TN__DIGIT_THREAD) {
      x = tn__op2(c, OP_MOD, rest, size);
      rest = tn__op2(c, OP_IDIV, rest, size);
    } else {
      x = range[n++] = t->digit[i] = tn__range(c, size, d->of == TN__DIGIT_TURN ? AX_LOOP : AX_UNROLL, TN__R_TILE + 1 + i);
    }
    place[0] = tn__add(c, place[0], tn__mul(c, x, tn__int(c, d->row)));
    place[1] = tn__add(c, place[1], tn__mul(c, x, tn__int(c, d->col)));
  }
  return n;
}

/* The group's number as row and column of tiles, rows in bands, and what is left as the places in the batch. */
static tn_node *number_tiles(job *j, tn_node *const *batch, uint32_t nbatch, tn_node **value, tn_node *first[2]) {
  tn_ctx *c = j->c;
  int64_t rows = range_in(j, j->axis[0])->src[0]->ints[0] / j->form->rows, cols = range_in(j, j->axis[1])->src[0]->ints[0] / j->form->cols;
  tn_node *tiles = tn__int(c, rows * cols), *size = tiles, *band = tn__int(c, rows % BAND ? 1 : BAND), *in_band = tn__int(c, cols * band->ints[0]);
  for (uint32_t i = 0; i < nbatch; i++) size = tn__mul(c, size, batch[i]->src[0]);
  tn_node *group = tn__range(c, tn__simplify_index(c, size), AX_GLOBAL, TN__R_FLAT), *rest = tn__op2(c, OP_IDIV, group, tiles);
  tn_node *tile = tn__op2(c, OP_MOD, group, tiles), *at = tn__op2(c, OP_MOD, tile, in_band);
  tn_node *row = tn__add(c, tn__mul(c, tn__op2(c, OP_IDIV, tile, in_band), band), tn__op2(c, OP_MOD, at, band));
  first[0] = tn__mul(c, row, tn__int(c, j->form->rows));
  first[1] = tn__mul(c, tn__op2(c, OP_IDIV, at, band), tn__int(c, j->form->cols));
  for (uint32_t i = nbatch; i-- > 0;) {
    value[i] = i ? tn__op2(c, OP_MOD, rest, batch[i]->src[0]) : rest;
    rest = tn__op2(c, OP_IDIV, rest, batch[i]->src[0]);
  }
  return group;
}

static bool plan(job *j, tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node *body) {
  *j = (job){.c = c, .a = a, .body = body};
  tn__survey_loops(c, a, body, &j->s);
  return dev->tiles && c->mode != TN_MODE_STRICT && find_product(j) && choose_form(j, dev);
}

int64_t tn__tile_count(tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node *body, int64_t *steps) {
  job j;
  if (!plan(&j, c, a, dev, body)) return 0;
  *steps = j.form->steps;
  return (int64_t)(tn__volume(&j.s, j.s.common) / (j.form->rows * j.form->cols));
}

tn__tile *tn__tile_part(tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node **body, tn__sb *note) {
  job j;
  if (!plan(&j, c, a, dev, *body)) return NULL;
  tn_node *gone[TN__MAX_RANGES], *value[TN__MAX_RANGES], *fresh[TN__DIGITS + 2], *first[2], *place[2];
  uint32_t nbatch = 0;
  for (uint32_t k = 0; k < j.s.r.n; k++)
    if (j.batch >> k & 1) gone[nbatch++] = j.s.r.range[k];
  fresh[0] = number_tiles(&j, gone, nbatch, value, first);
  tn__tile *t = tn__arena_zalloc(a, sizeof *t);
  *t = (tn__tile){.form = j.form, .steps = range_in(&j, tn__own_of(&j.s.r, j.sum))};
  uint32_t n = 1 + open_digits(&j, t, fresh + 1, place);
  for (int i = 0; i < 2; i++) gone[nbatch + (uint32_t)i] = range_in(&j, j.axis[i]);
  for (int i = 0; i < 2; i++) {
    t->line[i] = tn__range(c, tn__int(c, i ? j.form->cols : j.form->rows), AX_LOOP, TN__R_LINE + i);
    value[nbatch] = value[nbatch + 1] = tn__add(c, first[i], t->line[i]);
    t->load[i] = j.operand[i];
    t->at[i] = tn__simplify_index(c, tn__substitute(c, j.operand[i]->src[1], gone, value, nbatch + 2));
    t->by_steps[i] = j.by_steps[i];
  }
  for (int i = 0; i < 2; i++) value[nbatch + (uint32_t)i] = tn__add(c, first[i], place[i]);
  *body = tn__exchange_ranges(c, a, j.body, gone, value, nbatch + 2, fresh, n);
  *body = tn__show_neighbours(c, a, tn__simplify_accesses(c, a, *body));
  tn__sb_printf(note, " tile(%s,%dx%dx%d)", j.form->name, j.form->rows, j.form->cols, j.form->steps);
  return t;
}
