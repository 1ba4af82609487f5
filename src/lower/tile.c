/* Matrix products by tiles: a group computes a tile of the output, staged through shared memory, its elements in the
 * threads' registers.
 *
 * Needs a body with one sum of products, both operands loads, gated or not (product.c).  Gives one whose rows and
 * columns are cut into tiles, and those into digits: of the thread's number, of turns, of neighbours.  The sum keeps
 * its plain form, a loop over the steps for each element, which is what the kernel means and what interpreters run;
 * languages that have a function for the form print that in the loop's place.
 *
 * Tiles need not divide the sizes: what is outside counts as zeros, and is not stored. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  BAND = 8,     /* rows of tiles that are worked on side by side, so that they share columns in the cache */
  FEW_TURNS = 4 /* tiles of the busiest unit: if it has more, what it has beyond its share hardly counts */
};

typedef struct job {
  tn__lowering *l;
  tn_ctx *c;
  tn__arena *a;
  tn_node *body;
  tn__survey s;
  tn__factors f; /* operand[0]: of rows, [1]: of columns */
  const tn__tile_form *form;
  tn__lie lie[2];
  bool even[2];
} job;

static const tn_node *first_store(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_STORE) return j->s.r.order.v[i];
  return NULL;
}

static uint32_t only_of(uint64_t set) { return (uint32_t)__builtin_ctzll(set); }

static tn_node *range_in(const job *j, uint64_t set) { return j->s.r.range[only_of(set)]; }

static bool is_one(uint64_t set) { return set && !(set & (set - 1)); }

static int64_t size_in(const job *j, uint64_t set) {
  int64_t v = 0;
  tn__const_int(range_in(j, set)->src[0], &v);
  return v;
}

/* Range x of an index, or of a gate, as the e-th of a run. */
static tn_node *in_run(const job *j, tn_node *n, tn_node *x, int64_t run, tn_node *e) {
  tn_node *turn = tn__range(j->c, tn__int(j->c, x->src[0]->lo / run), AX_LOOP, ROLE_MARK, j->l->next_range),
          *at = tn__add(j->c, tn__mul(j->c, turn, tn__int(j->c, run)), e);
  return tn__simplify_index(j->c, tn__substitute(j->c, n, &x, &at, 1));
}

/* Are elements that are neighbours along x neighbours in memory, run by run? */
/* a choice: no is right */
static bool are_neighbours(const job *j, const tn_node *load, tn_node *x, int64_t run) {
  tn_ctx *c = j->c;
  tn_node *e = tn__range(c, tn__int(c, run), AX_LOOP, ROLE_MARK, j->l->next_range + 1), *zero = tn__int(c, 0);
  if (x->src[0]->lo % run) return false;
  tn_node *moved = tn__sub(c, in_run(j, load->src[1], x, run, e), in_run(j, load->src[1], x, run, zero));
  return tn__simplify_index(c, tn__sub(c, moved, e)) == zero;
}

/* Are the first two, at least? */
/* a choice: no is right */
static bool begin_as_neighbours(const job *j, const tn_node *access, tn_node *x) {
  tn_ctx *c = j->c;
  tn_node *zero = tn__int(c, 0), *one = tn__int(c, 1);
  tn_node *first = tn__substitute(c, access->src[1], &x, &zero, 1),
          *second = tn__substitute(c, access->src[1], &x, &one, 1);
  return are_neighbours(j, access, x, 2) ||
         (x->src[0]->lo > 1 && tn__simplify_index(c, tn__sub(c, second, first)) == one);
}

/* ... and may each run be loaded at once? */
/* a choice: no is right */
static bool are_runs(const job *j, const tn_node *load, tn_node *x, int64_t run) {
  tn_ctx *c = j->c;
  tn_node *e = tn__range(c, tn__int(c, run), AX_LOOP, ROLE_MARK, j->l->next_range + 1), *zero = tn__int(c, 0);
  if (!are_neighbours(j, load, x, run) || !tn__divisible(in_run(j, load->src[1], x, run, zero), run)) return false;
  return load->nsrc < 3 || in_run(j, load->src[2], x, run, e) == in_run(j, load->src[2], x, run, zero);
}

/* How the operand of a side lies, and whether its places move evenly from step to step. */
static void look_at(job *j, int side) {
  const tn_node *load = j->f.operand[side];
  tn_node *line = range_in(j, j->f.axis[side]), *step = range_in(j, j->f.steps);
  int64_t run = 16 / (int64_t)tn__size_of(load->dtype);
  j->even[side] = load->nsrc < 3 && tn__stride(&j->s.r, load->src[1], only_of(j->f.steps)) != TN__IRREGULAR;
  if (are_runs(j, load, step, run)) j->lie[side] = TN__LIE_STEPS;
  else if (are_runs(j, load, line, run)) j->lie[side] = TN__LIE_ACROSS;
  else j->lie[side] = begin_as_neighbours(j, load, step) ? TN__LIE_SINGLE_STEPS : TN__LIE_SINGLE;
}

static int64_t covered(int64_t size, int64_t by) { return (size + by - 1) / by * by; }

static double dear_of(const tn__tile_form *f) { return f->dear > 0 ? (double)f->dear : 1; }
static int64_t beside_of(const tn__tile_form *f) { return f->beside ? f->beside : 1; }

/* What takes longest: what the busiest unit has to do, in elements of all units, or its last groups if nothing hides
 * what each waits for. */
/* a choice: either is right */
static double busiest(const tn__target *target, const tn__tile_form *f, double all, double tiles) {
  int64_t most = covered((int64_t)tiles, target->units) / target->units;
  if (f->alone <= 0 || most > FEW_TURNS) return all * dear_of(f);
  double work = (double)most * dear_of(f),
         waits = (double)(covered(most, beside_of(f)) / beside_of(f)) * (double)f->alone;
  return all / tiles * target->units * (work > waits ? work : waits);
}

/* Can the product be done by the form? */
/* a choice: no is right */
static bool is_possible(const job *j, const tn__target *target, const tn__tile_form *f, const tn__product_size *p) {
  bool whole = p->rows % f->rows == 0 && p->cols % f->cols == 0 && p->steps % f->steps == 0;
  if (f->shared > target->shared || (f->tf32 && !j->c->opt.tf32)) return false;
  for (int i = 0; i < 2; i++) {
    if (j->f.operand[i]->dtype != f->dtype || (f->even && !(j->even[i] && whole))) return false;
    bool single = j->lie[i] == TN__LIE_SINGLE || j->lie[i] == TN__LIE_SINGLE_STEPS;
    if (single && (f->even || f->dtype != TN_F32)) return false; /* all but f32 is copied in runs */
  }
  return (!f->cols_by_steps || j->lie[1] == TN__LIE_STEPS) && (!f->cols_across || j->lie[1] == TN__LIE_ACROSS);
}

/* Elements that tiles of a form cover, dear ones as more; 0 if it is not for this product. */
/* a choice: no is right */
static double cover(const job *j, const tn__target *target, const tn__tile_form *f, const tn__product_size *p) {
  if (!is_possible(j, target, f, p) || tn__target_tile_work(target, f, p) >= tn__target_plain_work(target, p)) return 0;
  double rows = (double)covered(p->rows, f->rows), cols = (double)covered(p->cols, f->cols),
         tiles = p->batch * rows * cols / f->rows / f->cols,
         all = rows * cols * (double)covered(p->steps, f->steps);
  if (f->crowd && tiles > (double)f->crowd * target->units) return 0;
  /* sums that are long enough to be split have work for all units */
  return p->steps < 2 * TN__TILE_TURNS * f->steps ? busiest(target, f, all, tiles) : all * dear_of(f);
}

/* The form that has least to do, the first of equals, among those that are not `gone`, and take less time than plain
 * loops if they are to be `quick`; NULL, or how much that is in *least. */
static const tn__tile_form *best_of(const job *j, const tn__target *target, uint32_t gone, bool quick, double *least) {
  const tn__tile_form *best = NULL;
  tn__product_size p = {.batch = tn__volume(&j->s, j->f.batch),
                        .rows = size_in(j, j->f.axis[0]),
                        .cols = size_in(j, j->f.axis[1]),
                        .steps = size_in(j, j->f.steps),
                        .dtype = j->f.operand[0]->dtype};
  for (size_t i = 0; i < target->ntiles; i++) {
    const tn__tile_form *f = &target->tiles[i];
    double all = gone >> i & 1 ? 0 : cover(j, target, f, &p);
    if (all <= 0 || (best && all >= *least)) continue;
    if (quick && tn__target_tile_time(target, f, &p) >= tn__target_plain_time(target, &p)) continue;
    *least = all;
    best = f;
  }
  return best;
}

/* So; or the next best, and so on, as the choice leans: those that take longer than plain loops, too, but not those
 * that do more. */
static const tn__tile_form *best_form(job *j, const tn__target *target, double *least) {
  uint32_t gone = 0;
  for (int side = 0; side < 2; side++) look_at(j, side);
  const tn__tile_form *best = best_of(j, target, gone, true, least);
  for (int rank = 0; rank < j->l->variant->tile; rank++) {
    if (best) gone |= 1u << (best - target->tiles);
    best = best_of(j, target, gone, false, least);
  }
  return best;
}

static void turn(job *j) {
  tn_node *x = j->f.operand[0];
  uint64_t set = j->f.axis[0];
  j->f.operand[0] = j->f.operand[1], j->f.operand[1] = x;
  j->f.axis[0] = j->f.axis[1], j->f.axis[1] = set;
}

/* Columns lie along the output's memory, unless tiles would be nearly empty then. */
/* a choice: no is right */
static bool choose_form(job *j, const tn__target *target) {
  double along = 0, across = 0;
  if (begin_as_neighbours(j, first_store(j), range_in(j, j->f.axis[0]))) turn(j);
  j->form = best_form(j, target, &along);
  turn(j);
  const tn__tile_form *other = best_form(j, target, &across);
  if (other && (!j->form || across * 2 < along)) {
    j->form = other;
    return true;
  }
  turn(j);
  for (int side = 0; side < 2; side++) look_at(j, side);
  return j->form;
}

static int64_t lines_of(const job *j, int side) { return side ? j->form->cols : j->form->rows; }
static int64_t tiles_of(const job *j, int side) {
  return covered(size_in(j, j->f.axis[side]), lines_of(j, side)) / lines_of(j, side);
}

/* The ranges of a tile's elements, from the form's digits; their rows and columns, and those of the first neighbour. */
static uint32_t open_digits(job *j, tn__tile *t, tn_node **range, tn_node *place[2], tn_node *begin[2]) {
  tn_ctx *c = j->c;
  tn_node *rest = tn__fresh_range(j->l, tn__int(c, j->form->threads), AX_UPCAST, ROLE_TILE_THREAD);
  uint32_t n = 0;
  range[n++] = rest;
  for (int side = 0; side < 2; side++) place[side] = begin[side] = tn__int(c, 0);
  for (int i = 0; i < TN__DIGITS && j->form->digit[i].extent; i++) {
    const tn__digit *d = &j->form->digit[i];
    tn_node *size = tn__int(c, d->extent), *x;
    if (d->of == TN__DIGIT_THREAD) {
      x = tn__op2(c, OP_MOD, rest, size);
      rest = tn__op2(c, OP_IDIV, rest, size);
    } else {
      x = range[n++] = t->digit[i] =
          tn__fresh_range(j->l, size, d->of == TN__DIGIT_TURN ? AX_LOOP : AX_UNROLL, ROLE_TILE_DIGIT);
    }
    for (int side = 0; side < 2; side++) {
      tn_node *move = tn__mul(c, x, tn__int(c, side ? d->col : d->row));
      place[side] = tn__add(c, place[side], move);
      if (d->of != TN__DIGIT_NEIGHBOUR) begin[side] = tn__add(c, begin[side], move);
    }
  }
  return n;
}

/* The group's number as row and column of tiles, rows in bands, and what is left as the places in the batch. */
static tn_node *number_tiles(job *j, tn_node *const *batch, uint32_t nbatch, tn_node **value, tn_node *first[2]) {
  tn_ctx *c = j->c;
  int64_t rows = tiles_of(j, 0), cols = tiles_of(j, 1);
  tn_node *tiles = tn__int(c, rows * cols), *size = tiles, *band = tn__int(c, rows % BAND ? 1 : BAND),
          *in_band = tn__int(c, cols * band->ints[0]);
  for (uint32_t i = 0; i < nbatch; i++) size = tn__mul(c, size, batch[i]->src[0]);
  tn_node *group = tn__fresh_range(j->l, tn__simplify_index(c, size), AX_GLOBAL, ROLE_OUTPUT),
          *rest = tn__op2(c, OP_IDIV, group, tiles);
  tn_node *tile = tn__op2(c, OP_MOD, group, tiles), *at = tn__op2(c, OP_MOD, tile, in_band);
  tn_node *row = tn__add(c, tn__mul(c, tn__op2(c, OP_IDIV, tile, in_band), band), tn__op2(c, OP_MOD, at, band));
  first[0] = tn__mul(c, row, tn__int(c, j->form->rows));
  first[1] = tn__mul(c, tn__op2(c, OP_IDIV, at, band), tn__int(c, j->form->cols));
  for (uint32_t i = nbatch; i && i--;) {
    value[i] = i ? tn__op2(c, OP_MOD, rest, batch[i]->src[0]) : rest;
    rest = tn__op2(c, OP_IDIV, rest, batch[i]->src[0]);
  }
  return group;
}

/* a choice: no is right */
static bool plan(job *j, tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  const tn__target *target = l->target;
  *j = (job){.l = l, .c = c, .a = l->a, .body = body};
  tn__survey_loops(c, l->a, body, &j->s);
  if (!target->ntiles || l->variant->tile == TN__VARIANT_NONE || c->mode == TN_MODE_STRICT ||
      !tn__factors_find(&j->s, &j->f))
    return false;
  const uint64_t set[] = {j->f.axis[0], j->f.axis[1], j->f.steps};
  for (int i = 0; i < 3; i++)
    if (!is_one(set[i]) || !tn__is_const(range_in(j, set[i])->src[0])) return false;
  return choose_form(j, target);
}

tn_node *tn__tile_shape(tn__lowering *l, tn_node *body) {
  job j;
  if (!l->target->ntiles || l->variant->tile == TN__VARIANT_NONE || l->c->mode == TN_MODE_STRICT) return body;
  tn_node *flat = tn__factors_flatten(l, body);
  if (flat == body || !plan(&j, l, flat)) return body;
  tn__sb_puts(&l->note, " product");
  return flat;
}

int64_t tn__tile_count(tn__lowering *l, tn_node *body, int64_t *steps, int64_t *beside) {
  job j;
  if (!plan(&j, l, body)) return 0;
  *steps = j.form->steps;
  *beside = beside_of(j.form);
  return (int64_t)tn__volume(&j.s, j.f.batch) * tiles_of(&j, 0) * tiles_of(&j, 1);
}

/* Where a place is below the size, if there are places beyond it; NULL: everywhere */
static tn_node *below(tn_ctx *c, tn_node *place, int64_t size, int64_t of) {
  return of <= size ? NULL : tn__simplify_index(c, tn__op2(c, OP_LT, place, tn__int(c, size)));
}

static tn_node *inside(const job *j, int side, tn_node *place) {
  return below(j->c, place, size_in(j, j->f.axis[side]), tiles_of(j, side) * lines_of(j, side));
}

static tn_node *both(tn_ctx *c, tn_node *x, tn_node *y) {
  return x && y ? tn__simplify_index(c, tn__op2(c, OP_AND, x, y)) : x ? x : y;
}

/* The conditions of a gate that hang on the line, or on neither, and those on turn and step; false: some hang on both.
 */
static bool part_gate(const job *j, const tn__tile *t, int side, tn_node *part[2]) {
  tn__nodes todo = {0};
  if (t->gate[side]) tn__vec_push(j->a, &todo, t->gate[side]);
  while (todo.n) {
    tn_node *g = todo.v[--todo.n];
    if (g->op == OP_AND) {
      for (uint32_t s = 0; s < 2; s++) tn__vec_push(j->a, &todo, g->src[s]);
      continue;
    }
    bool line = tn__hangs_on(j->a, g, t->line[side]),
         step = tn__hangs_on(j->a, g, t->turn) || tn__hangs_on(j->a, g, t->step);
    if (line && step) return false;
    part[step] = both(j->c, part[step], g);
  }
  return true;
}

/* Where a thread keeps to one step, what its lines come to need not be computed in every turn. */
static void take_apart(const job *j, tn__tile *t, int side) {
  tn_ctx *c = j->c;
  tn_node *zero = tn__int(c, 0), *zeros[] = {zero, zero}, *at = t->at[side], *line, *start, *step;
  if (!t->gate[side] || (t->lie[side] != TN__LIE_STEPS && t->lie[side] != TN__LIE_SINGLE_STEPS) ||
      !part_gate(j, t, side, t->part_gate[side]))
    return;
  line = tn__simplify_index(c, tn__substitute(c, at, (tn_node *[]){t->turn, t->step}, zeros, 2));
  start = tn__simplify_index(c, tn__substitute(c, line, &t->line[side], &zero, 1));
  step = tn__simplify_index(c, tn__sub(c, tn__substitute(c, at, &t->line[side], &zero, 1), start));
  if (tn__simplify_index(c, tn__sub(c, at, tn__add(c, line, step))) != zero) return;
  t->part[side][0] = line;
  t->part[side][1] = step;
}

/* What the form's function is told about an operand. */
static void tell_operand(job *j, tn__tile *t, int side, tn_node *first, tn_node **gone, tn_node **value,
                         uint32_t nbatch) {
  tn_ctx *c = j->c;
  const tn_node *load = j->f.operand[side];
  int64_t steps = size_in(j, j->f.steps), line = lines_of(j, side);
  t->line[side] = tn__fresh_range(j->l, tn__int(c, line), AX_LOOP, ROLE_TILE_LINE);
  gone[nbatch] = range_in(j, j->f.axis[side]);
  gone[nbatch + 1] = t->steps;
  value[nbatch] = tn__add(c, first, t->line[side]);
  value[nbatch + 1] = tn__add(c, tn__mul(c, t->turn, tn__int(c, j->form->steps)), t->step);
  t->load[side] = j->f.operand[side];
  t->lie[side] = j->lie[side];
  t->at[side] = tn__simplify_index(c, tn__substitute(c, load->src[1], gone, value, nbatch + 2));
  tn_node *edges =
      both(c, inside(j, side, value[nbatch]), below(c, value[nbatch + 1], steps, covered(steps, j->form->steps)));
  if (load->nsrc > 2)
    edges = both(c, edges, tn__simplify_index(c, tn__substitute(c, load->src[2], gone, value, nbatch + 2)));
  t->gate[side] = edges || j->even[side] ? edges : tn__const_bits(c, TN_BOOL, 1);
  take_apart(j, t, side);
}

tn__tile *tn__tile_part(tn__lowering *l, tn_node **body) {
  job j;
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  if (!plan(&j, l, *body)) return NULL;
  tn_node *gone[TN__MAX_RANGES + 2], *value[TN__MAX_RANGES + 2], *fresh[TN__DIGITS + 2], *first[2], *place[2],
      *begin[2];
  uint32_t nbatch = 0;
  for (uint32_t k = 0; k < j.s.r.n; k++)
    if (j.f.batch >> k & 1) gone[nbatch++] = j.s.r.range[k];
  fresh[0] = number_tiles(&j, gone, nbatch, value, first);
  tn__tile *t = tn__arena_zalloc(a, sizeof *t);
  *t = (tn__tile){.form = j.form, .steps = range_in(&j, j.f.steps)};
  int64_t turns = covered(size_in(&j, j.f.steps), j.form->steps) / j.form->steps;
  t->turn = tn__fresh_range(l, tn__int(c, turns), AX_LOOP, ROLE_TILE_STEP);
  t->step = tn__fresh_range(l, tn__int(c, j.form->steps), AX_LOOP, ROLE_TILE_STEP);
  for (int i = 0; i < 2; i++) tell_operand(&j, t, i, first[i], gone, value, nbatch);
  uint32_t n = 1 + open_digits(&j, t, fresh + 1, place, begin);
  for (int i = 0; i < 2; i++) {
    gone[nbatch + (uint32_t)i] = range_in(&j, j.f.axis[i]);
    value[nbatch + (uint32_t)i] = tn__add(c, first[i], place[i]);
    bool together = size_in(&j, j.f.axis[i]) % 8 == 0; /* neighbours are inside together */
    tn_node *gate = inside(&j, i, tn__add(c, first[i], together ? begin[i] : place[i]));
    /* what hangs on rows alone is asked for once for a row, whatever becomes of its columns */
    if (gate) j.body = tn__gate_accesses(l, j.body, gate, gone[nbatch + (uint32_t)i], NULL);
  }
  *body = tn__exchange_ranges(l, j.body, gone, value, nbatch + 2, fresh, n);
  *body = tn__show_neighbours(c, a, tn__simplify_accesses(c, a, *body));
  tn__sb_printf(&l->note, " tile(%s,%dx%dx%d)", j.form->name, j.form->rows, j.form->cols, j.form->steps);
  return t;
}
