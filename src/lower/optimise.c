/* Kernel optimisation: a list of steps, each of which keeps the body's meaning; what was done is noted in the kernel's
 * head comment.
 *
 *   share(a,b)      two reduce loops become one                 (rows.c)
 *   row(op)         a value wanted in several loops over a row is kept in scratch memory    (rows.c)
 *   ahead(load)     so, and the next row's is on its way meanwhile
 *   merge(a,b)      two loops become one, where every access walks through both as through one        (merge.c)
 *   repeat(a,b)     ... but for what is the same in each turn of the outer one, of which there are copies
 *   spread(a,b)     ... but for what is the same in each turn of the inner one, which stands in scratch memory
 *   split(a)        a long reduction becomes partial sums over blocks of rows and a further part that adds them up
 *   blocks(a)       stores of a long row's elements are shared out by blocks, as its reductions are
 *   lanes(a,n)      the loop is cut into lanes for vector instructions
 *   jam(a,n)        n turns of an output's loop at once, which share what they load                  (jam.c)
 *   turn(a,b)       the loops are cut into tiles, in which what lies along a is loaded and stored along it, but
 *                   computed along b                            (turn.c)
 *   turn(a)         what all turns of a load across their lanes is loaded once for a block of them  (turn_columns.c)
 *   chunk(a,n)      a flat loop is cut into chunks for the threads
 */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  CHUNK = 2048,           /* elements of a flat loop per slice */
  PARTIALS = 64,          /* blocks of a split reduction */
  MIN_SPLIT = 16,         /* shorter ranges stay whole, */
  MAX_SPLIT_CELLS = 2047, /* so does what has outputs enough for the threads, */
  MAX_SPLIT_ROWS = 255,   /* fewer where what is reduced lies along memory: any of them is as good a share as a block */
  MIN_BLOCK = 16,         /* rows that are worth a block */
  MAX_STEP = 64,          /* of what lanes access beside each other, and of a short row, in elements */
  GROUPS_OF_UNIT = 8,     /* of long rows cut into blocks, */
  SHARE_OF_BLOCK = 4      /* and elements of a block for each thread, at least */
};

/* ---- choosing what to vectorise and what to share out ---- */

/* Is a row kept for each turn of range j?  Its lanes would share it. */
static bool keeps_rows(const tn__survey *p, uint32_t j) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STORE && tn__buffer_of(n)->op == OP_LOCAL && (tn__free_of(&p->r, n) >> j & 1)) return true;
  }
  return false;
}

/* The range along which to vectorise: of a reduction where all reductions run along it, unless it is for outputs only,
 * or of the outputs.  -1 where accesses rather walk along what values run along. */
/* a choice: no is right */
static int vector_range(const tn__survey *p, bool only_outputs) {
  int best = -1;
  double best_score = -1e300;
  for (uint32_t j = 0; j < p->r.n; j++) {
    bool output = p->outputs >> j & 1, runs = p->running >> j & 1;
    int axis = tn__axis_of(p->r.range[j]);
    if ((axis != AX_LOOP && axis != AX_REDUCE && !runs) || tn__bounds_loops(&p->r, j) || keeps_rows(p, j)) continue;
    if (only_outputs && !output && !runs) continue;
    if (output && p->reduces) { /* lanes across outputs: every reduction and store must have the range */
      bool all = p->common >> j & 1;
      for (uint32_t i = 0; i < p->r.order.n && all; i++) {
        const tn_node *n = p->r.order.v[i];
        uint32_t first;
        if (tn__closes(n, &first)) all = (tn__free_of(&p->r, n) | tn__own_of(&p->r, n)) >> j & 1;
        if (n->op == OP_LOCAL) all = false;
      }
      if (!all) continue;
    }
    double s = tn__walk_score(p, j) + (output ? 0.5 : 0);
    if (s > best_score) best_score = s, best = (int)j;
  }
  return best >= 0 && !(p->running >> best & 1) && !(p->running && best_score <= 0) ? best : -1;
}

/* Of shorter reductions most lanes would be empty. */
/* a choice: either is right */
static double min_lanes(const tn__lowering *l) { return l->target->lane_bytes / (double)sizeof(float) / 4; }

static tn_node *cut_lanes(tn__lowering *l, tn_node *body, tn_node *x, int64_t lanes, int axis) {
  tn__sb_printf(&l->note, " lanes(%lld,%lld)", tn__id_of(x), (long long)lanes);
  return tn__cut(l, body, x, lanes, axis, AX_UPCAST, NULL);
}

/* Reductions over the same loops as x: x innermost, so that lanes go on where the last turn's ended */
static tn_node *go_inside(tn__lowering *l, tn_node *body, tn_node *x) {
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  uint64_t set = 0;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t at = 1ull << tn__range_at(&p.r, x);
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    tn_node *n = p.r.order.v[i], *src[TN__MAX_RANGES + 1];
    uint64_t own = tn__own_of(&p.r, n);
    uint32_t m = 0;
    if (n->op != OP_REDUCE || !(own & at)) continue;
    src[m++] = n->src[0];
    if ((set && own != set) || tn__stands_between(&p.r, own)) return body;
    set = own;
    for (uint32_t s = 1; s < n->nsrc; s++)
      if (n->src[s] != x) src[m++] = n->src[s];
    src[m++] = x;
    tn__vec_push(l->a, &old, n);
    tn__vec_push(l->a, &new_, tn__node_with(l->c, n, src));
  }
  for (uint32_t k = 0; k < p.r.n; k++)
    if ((set >> k & 1) && tn__bounds_loops(&p.r, k)) return body;
  return tn__substitute(l->c, body, old.v, new_.v, old.n);
}

/* The lanes of a reduction: turns of as many as there are accumulators, or all of it where that is less than two */
static tn_node *reduce_in_lanes(tn__lowering *l, tn_node *body, tn_node *x, int64_t lanes) {
  body = go_inside(l, body, x);
  if (!tn__is_const(x->src[0]) || tn__extent(x) >= 2 * (double)lanes) return cut_lanes(l, body, x, lanes, AX_REDUCE);
  tn__sb_printf(&l->note, " lanes(%lld,%lld)", tn__id_of(x), (long long)x->hi + 1);
  return tn__retype(l->c, body, x, AX_UPCAST);
}

/* a choice: either is right */
static int64_t lanes_for(const tn__lowering *l, int dtype) {
  int64_t size = tn__size_of(dtype) < 4 ? 4 : (int64_t)tn__size_of(dtype);
  return tn__variant_by(l->target->lane_bytes, l->variant->lanes) / size;
}

/* a choice: either is right */
static int value_dtype(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) return p->r.order.v[i]->dtype;
  return TN_F32;
}

/* Do all accesses along range j step from line to line, or not far?  So windows are looked at, and rows of few
 * elements: what one lane leaves out of a line is another's. */
/* a choice: no is right */
static bool steps_within_lines(const tn__survey *p, uint32_t j) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) continue;
    int64_t step = tn__stride(&p->r, n->src[1], j);
    if (step < 0 || step > MAX_STEP) return false;
  }
  return true;
}

/* The outputs that have lanes, where accesses walk along them, or along a reduction that is too short for any but among
 * outputs that lie side by side; -1 */
/* a choice: no is right */
static int column_range(const tn__lowering *l, const tn__survey *p) {
  int v = p->reduces ? vector_range(p, false) : -1;
  if (v < 0 || (p->outputs >> v & 1) || tn__extent(p->r.range[v]) >= MAX_STEP) return v;
  int row = vector_range(p, true);
  if (row < 0 || tn__walk_score(p, (uint32_t)row) > 0) return row;
  bool across = steps_within_lines(p, (uint32_t)row);
  return across && tn__across_rows(l, p, (uint32_t)row, (uint32_t)v, min_lanes(l)) ? row : -1;
}

/* Reductions across rows, before any row is kept: lanes of columns beside each other, each of which keeps its own.
 * NULL: accesses rather walk along the reductions */
static tn_node *lanes_of_columns(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  int v = column_range(l, &p);
  if (v < 0 || !(p.outputs >> v & 1) || tn__extent(p.r.range[v]) < 2) return NULL; /* a choice: no is right */
  tn_node *x = p.r.range[v];
  int64_t lanes = lanes_for(l, value_dtype(&p));
  if (tn__extent(x) > (double)lanes || !tn__is_const(x->src[0])) return cut_lanes(l, body, x, lanes, AX_LOOP);
  tn__sb_printf(&l->note, " lanes(%lld,%lld)", tn__id_of(x), (long long)lanes);
  return tn__retype(l->c, body, x, AX_UPCAST);
}

/* The loops that all stores and reductions stand in, whose lengths hang on no other */
static uint64_t loops_of_all(const tn__survey *p) {
  uint64_t shared = p->common;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) shared &= tn__free_of(&p->r, p->r.order.v[i]);
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__free_of(&p->r, p->r.range[k]) != 1ull << k) shared &= ~(1ull << k);
  return shared;
}

/* In the order in which stores go through memory, as many as give each thread a few turns, or all that stand around
 * `inner` */
tn_node *tn__share_out(tn__lowering *l, tn_node *body, const tn_node *inner) {
  tn_node *x[TN__MAX_RANGES], *one;
  uint32_t n = 0, outer = 0;
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t shared = loops_of_all(&p);
  for (uint32_t k = 0; k < p.r.n; k++) {
    if (!(shared >> k & 1) || p.r.range[k] == inner) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(p.r.range[k]); at--) x[at] = x[at - 1];
    x[at] = p.r.range[k];
  }
  for (double turns = 1; outer < n && (inner || turns < PARTIALS); outer++) turns *= tn__extent(x[outer]);
  if (outer > 1) return tn__as_one(l, body, x, outer, AX_GLOBAL, &one);
  return outer ? tn__retype(l->c, body, x[0], AX_GLOBAL) : body;
}

/* Reductions of many outputs, none of whose loops is long enough for the threads */
/* a choice: either is right */
static tn_node *share_rows(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t shared = loops_of_all(&p);
  double longest = 1;
  for (uint32_t k = 0; k < p.r.n; k++)
    if ((shared >> k & 1) && tn__extent(p.r.range[k]) > longest) longest = tn__extent(p.r.range[k]);
  return longest < PARTIALS && tn__volume(&p, shared) >= PARTIALS ? tn__share_out(l, body, NULL) : body;
}

static tn_node *vectorise(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn__survey_loops(c, l->a, body, &p);
  int v = vector_range(&p, false);
  if (v < 0) return body;
  tn_node *x = p.r.range[v];
  if (!p.reduces) {
    int64_t chunk = tn__variant_by(CHUNK, l->variant->group); /* a choice: either is right */
    double all = tn__volume(&p, p.outputs), turns = all / tn__extent(x);
    bool lines = turns < PARTIALS && tn__extent(x) > (double)chunk; /* a choice: either is right */
    /* a flat loop, or few long ones: chunks for the threads */
    if (lines) tn__sb_printf(&l->note, " chunk(%lld,%lld)", tn__id_of(x), (long long)chunk);
    body = lines ? tn__cut(l, body, x, chunk, AX_LOOP, AX_UPCAST, NULL) : tn__retype(c, body, x, AX_UPCAST);
    bool much = lines || all >= (double)PARTIALS * CHUNK; /* a choice: either is right */
    return much ? tn__share_out(l, body, NULL) : body;
  }
  bool output = p.outputs >> v & 1; /* lanes_of_columns has left it */
  if (output || tn__extent(x) < min_lanes(l)) return body; /* a choice: either is right */
  return share_rows(l, tn__jam(l, reduce_in_lanes(l, body, x, lanes_for(l, value_dtype(&p)))));
}

/* Few of a kind, or copies of loops that have lanes where they are whole: these stay as they are. */
/* a choice: either is right */
static bool stays_whole(const tn_node *range) {
  tn__role role = tn__role_of(range);
  return role == ROLE_BLOCK || role == ROLE_BLOCK_SUM || role == ROLE_APART;
}

/* Does range j do nothing but fill a kept row from others? */
/* a choice: no is right */
static bool fills_row(const tn__survey *p, uint32_t j) {
  bool fills = false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!(tn__own_of(&p->r, n) >> j & 1)) continue;
    if (n->op != OP_STORE || tn__buffer_of(n)->op != OP_LOCAL || n->src[1] != p->r.range[j]) return false;
    fills = true;
  }
  return fills;
}

/* The stores of a row kernel that run along the row become vector loops; so do other reductions' ranges of the same
 * kind, and loops over columns. */
static tn_node *vectorise_rest(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  for (int round = 0; round < 8; round++) {
    tn__survey p;
    tn__survey_loops(c, l->a, body, &p);
    if (!p.reduces) return body;
    int best = -1;
    uint64_t columns = 0; /* ranges of outputs with reductions of their own */
    for (uint32_t j = 0; j < p.r.n; j++) {
      const tn_node *x = p.r.range[j];
      if (tn__axis_of(x) != AX_LOOP && tn__axis_of(x) != AX_REDUCE) continue;
      double score = tn__walk_score(&p, j);
      if (tn__bounds_loops(&p.r, j)) continue;
      if (stays_whole(x) || score < 0) continue; /* a choice: either is right */
      if (score == 0 && !fills_row(&p, j)) continue; /* a choice: either is right */
      /* one lane range per expression; reductions beneath it are those of a column each */
      bool clash = keeps_rows(&p, j), closes = false;
      for (uint32_t i = 0; i < p.r.order.n; i++) {
        const tn_node *n = p.r.order.v[i];
        uint64_t own = tn__own_of(&p.r, n), set = tn__free_of(&p.r, n);
        if ((n->op == OP_REDUCE || n->op == OP_RUNNING) && (set >> j & 1))
          clash |= tn__axis_of(x) != AX_LOOP, columns |= 1ull << j;
        if (!((own | set) >> j & 1)) continue;
        closes |= own >> j & 1;
        for (uint32_t k = 0; k < p.r.n; k++)
          if (tn__axis_of(p.r.range[k]) == AX_UPCAST && ((own | set) >> k & 1)) clash = true;
      }
      if (tn__axis_of(x) == AX_REDUCE && tn__extent(x) < min_lanes(l)) clash = true; /* a choice: either is right */
      if (!clash && closes) best = (int)j;
    }
    if (best < 0) return body;
    tn_node *x = p.r.range[best];
    bool output = tn__axis_of(x) == AX_LOOP, sums = columns >> best & 1;
    int64_t lanes = lanes_for(l, value_dtype(&p));
    if ((output && !sums) || fills_row(&p, (uint32_t)best) || tn__extent(x) <= (double)(sums ? lanes : 0)) {
      body = tn__retype(c, body, x, AX_UPCAST);
    } else {
      body = output ? cut_lanes(l, body, x, lanes, AX_LOOP) : reduce_in_lanes(l, body, x, lanes);
    }
  }
  return body;
}

/* ---- split: partial results over blocks of a reduce range, added up by a second part ---- */

/* The reductions that no other reduction is made of */
static uint32_t top_level(const tn__survey *p) {
  uint32_t top = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE && tn__level_of(&p->r, p->r.order.v[i]) > top)
      top = tn__level_of(&p->r, p->r.order.v[i]);
  return top;
}

/* The outermost range that all top reductions share, -1; they must depend on outputs only, so that each partial result
 * has its cell. */
/* a choice: no is right */
static int split_range(const tn__survey *p) {
  uint32_t top = top_level(p);
  int at = -1;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_AFTER || n->op == OP_STOREADD) return -1;
    if (n->op != OP_REDUCE || tn__level_of(&p->r, n) != top) continue;
    int outer = tn__range_at(&p->r, n->src[1]);
    if ((at >= 0 && at != outer) || (tn__free_of(&p->r, n) & ~p->common)) return -1;
    at = outer;
  }
  for (uint32_t i = 0; i < p->r.order.n && at >= 0; i++) { /* nothing else may run over it but stores */
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE && tn__level_of(&p->r, n) != top && (tn__own_of(&p->r, n) >> at & 1)) return -1;
  }
  return at;
}

static uint64_t all_of(const tn__survey *p) { return p->r.n == 64 ? ~0ull : (1ull << p->r.n) - 1; }

typedef struct blocks { /* range x as block * rows + inner */
  tn_node *x, *block, *inner, *place, *sum;
  int64_t count;
} blocks;

/* The loops of the top reductions as one, where nothing but stores of each element closes them, too, and no other
 * reduction stands between them (it would be done again for each turn of the one loop): a group device wants blocks of
 * all they run over. */
static tn_node *flatten_top(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t own = 0;
  const tn_node *top = NULL;
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    const tn_node *n = p.r.order.v[i];
    if (n->op != OP_REDUCE || tn__level_of(&p.r, n) != top_level(&p)) continue;
    if (top && tn__own_of(&p.r, n) != own) return body;
    top = n;
    own = tn__own_of(&p.r, n);
  }
  if (!top || top->nsrc < 3 || tn__stands_between(&p.r, own)) return body;
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    const tn_node *n = p.r.order.v[i];
    bool stores = n->op == OP_STORE && (tn__own_of(&p.r, n) & own) == own;
    bool reduces = n->op == OP_REDUCE && tn__level_of(&p.r, n) == top_level(&p);
    if ((tn__own_of(&p.r, n) & own) && !stores && !reduces) return body;
    /* bounds another loop */
    if (n->op == OP_RANGE && (tn__free_of(&p.r, n) & own) && !(own >> tn__range_at(&p.r, n) & 1)) return body;
  }
  tn_node *flat;
  tn__sb_puts(&l->note, " whole");
  return tn__as_one(l, body, top->src + 1, top->nsrc - 1, AX_REDUCE, &flat);
}

/* Size of the largest elements that are loaded */
/* a choice: either is right */
static size_t loaded_bytes(const tn__survey *p) {
  size_t size = 1;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_LOAD && tn__size_of(p->r.order.v[i]->dtype) > size)
      size = tn__size_of(p->r.order.v[i]->dtype);
  return size;
}

/* The longest loop of reductions inside range x */
/* a choice: either is right */
static double nested_in(const tn__survey *p, const tn_node *x) {
  uint64_t at = 1ull << tn__range_at(&p->r, x);
  double most = 1;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    double v = n->op == OP_REDUCE && (tn__free_of(&p->r, n) & at) ? tn__volume(p, tn__own_of(&p->r, n)) : 1;
    if (v > most) most = v;
  }
  return most;
}

/* How many blocks range x of the top reductions is cut into; 0: it stays whole.  Threads get a few blocks each, group
 * devices enough for all their threads: a number that divides the range if there is one near. */
/* a choice: either is right */
static int64_t count_blocks(const tn__lowering *l, const tn__survey *p, const tn_node *x) {
  int64_t most = (int64_t)tn__extent(x), size, partials = tn__variant_by(PARTIALS, l->variant->blocks);
  const tn__target *t = l->target;
  double cells = tn__volume(p, p->common);
  /* of what is a group's work by itself, each makes a block */
  if (t->group && nested_in(p, x) >= tn__usual_group(t)) return tn__is_const(x->src[0]) ? most : 0;
  bool walks = tn__walks_outputs(p, p->common);
  if (!t->group) return cells > (walks ? MAX_SPLIT_CELLS : MAX_SPLIT_ROWS) ? 0 : most < partials ? most : partials;
  /* half the threads keep a unit busy if each reads all at once that it may; of those with patches a quarter does */
  double patch = l->variant->rows && tn__has_patches(p) ? l->variant->rows * l->variant->cols : 0,
         threads = patch > 0 ? cells / patch * 4
                   : walks   ? cells * (double)loaded_bytes(p) / t->access * 2
                             : cells * tn__usual_group(t),
         want = (double)tn__variant_by((int64_t)t->units * t->unit_threads, l->variant->blocks) / threads;
  int64_t n = 1;
  while ((double)n * 2 <= want && n * 2 * MIN_BLOCK <= most) n *= 2;
  if (n < 2 || !tn__const_int(x->src[0], &size)) return n < 2 ? 0 : n;
  for (int64_t k = n; k > n / 2; k--)
    if (size % k == 0) return k;
  return n;
}

/* So for products by tiles: blocks of whole steps, until every unit has as many tiles as it has room for. */
/* a choice: either is right */
static int64_t count_tile_blocks(const tn__lowering *l, const tn_node *x, int64_t tiles, int64_t steps,
                                 int64_t beside) {
  int64_t size, n = tn__variant_by(l->target->units * beside, l->variant->blocks) / tiles;
  if (!tn__const_int(x->src[0], &size)) return 0;
  while (n > 1 && (size % (n * steps) || size / n < TN__TILE_TURNS * steps)) n--;
  return n > 1 ? n : 0;
}

static blocks cut_blocks(tn__lowering *l, tn_node *x, int64_t blocks_wanted) {
  tn_ctx *c = l->c;
  int64_t whole = 0;
  blocks b = {.x = x, .count = blocks_wanted};
  tn_node *count = tn__int(c, b.count), *size = x->src[0];
  tn_node *rows = tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, b.count - 1)), count));
  b.block = tn__fresh_range(l, count, AX_LOOP, ROLE_BLOCK);
  b.sum = tn__fresh_range(l, count, AX_REDUCE, ROLE_BLOCK_SUM);
  tn_node *first = tn__mul(c, b.block, rows), *left = rows;
  if (!tn__const_int(size, &whole) || whole % b.count) /* the last blocks may be short, or empty */
    left = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, rows, tn__sub(c, size, first)), tn__int(c, 0));
  b.inner = tn__is_int_const(left, 1) ? tn__int(c, 0) : tn__range_like(c, x, left, AX_REDUCE);
  b.place = tn__add(c, first, b.inner);
  return b;
}

/* A closer over the blocks: its values at block and inner, its ranges with `extra` (may be NULL) and the inner range in
 * x's place */
static tn_node *over_blocks(tn_ctx *c, const blocks *b, tn_node *n, tn_node *extra) {
  tn_node *src[TN__MAX_RANGES + 4];
  uint32_t first, m = 0;
  tn__closes(n, &first);
  for (uint32_t s = 0; s < n->nsrc; s++) {
    if (s < first) {
      src[m++] = tn__substitute(c, n->src[s], (tn_node **)(uintptr_t)&b->x, (tn_node **)(uintptr_t)&b->place, 1);
    } else if (n->src[s] == b->x) {
      if (extra) src[m++] = extra;
      if (b->inner->op == OP_RANGE) src[m++] = b->inner;
    } else {
      src[m++] = n->src[s];
    }
  }
  if (n->op == OP_REDUCE && m == 1) return src[0]; /* one row a block, and nothing else to reduce over */
  return tn__node_make(c, &(tn__make){.op = n->op, .src = src, .nsrc = m, .ints = n->ints, .nint = n->nint});
}

/* A top reduction: stored per block and output, then reduced over the blocks. */
static tn_node *two_steps(tn_ctx *c, const tn__ranges *ranges, const blocks *b, tn_node *r, int64_t slot) {
  tn_node *offset = tn__int(c, 0), *cells = tn__int(c, 1), *st[TN__MAX_RANGES + 4];
  uint64_t free = tn__free_of(ranges, r);
  uint32_t m = 3;
  st[m++] = b->block;
  for (uint32_t j = 0; j < ranges->n; j++) {
    if (!(free >> j & 1)) continue;
    offset = tn__add(c, tn__mul(c, offset, ranges->range[j]->src[0]), ranges->range[j]);
    cells = tn__mul(c, cells, ranges->range[j]->src[0]);
    st[m++] = ranges->range[j];
  }
  tn_node *total = tn__mul(c, cells, tn__int(c, b->count));
  tn_node *buf = tn__node_make(
      c, &(tn__make){
             .op = OP_PARAM, .dtype = r->dtype, .src = &total, .nsrc = 1, .ints = (int64_t[]){slot, -1}, .nint = 2});
  st[0] = buf;
  st[1] = tn__add(c, tn__mul(c, b->block, cells), offset);
  st[2] = over_blocks(c, b, r, NULL);
  tn_node *store = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = st, .nsrc = m});
  tn_node *after = tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = (tn_node *[]){buf, store}, .nsrc = 2});
  tn_node *at = tn__add(c, tn__mul(c, b->sum, cells), offset);
  tn_node *load = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){after, at}, .nsrc = 2});
  return tn__node_make(
      c, &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){load, b->sum}, .nsrc = 2, .ints = r->ints, .nint = 2});
}

/* Reductions over range `at` of what is the same at all its places would be the same for all blocks, too, and so not
 * stand in the loop over these, as others over it do: they get loops of their own, together. */
static void set_apart(tn__lowering *l, const tn__ranges *r, int at, tn__nodes *old, tn__nodes *new_) {
  tn_node *from[TN__MAX_RANGES], *to[TN__MAX_RANGES];
  uint64_t set = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    if (n->op != OP_REDUCE || !(tn__own_of(r, n) >> at & 1) || tn__free_of(r, n->src[0]) >> at & 1) continue;
    tn__vec_push(l->a, old, n);
    set |= tn__own_of(r, n);
  }
  uint32_t renewed = tn__renew_loops(l, r, old->v, old->n, set, from, to);
  for (uint32_t i = 0; i < old->n; i++)
    tn__vec_push(l->a, new_, tn__substitute(l->c, old->v[i], from, to, renewed));
}

/* Sums of blocks of range x, and their sums.  What else runs over it does so block by block. */
static tn_node *split(tn__lowering *l, tn_node *body, tn_node *x, int64_t count) {
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  int64_t slot = 0;
  tn__ranges_find(c, a, body, &r);
  int at = tn__range_at(&r, x);
  tn__sb_printf(&l->note, " split(%lld)", tn__id_of(x));
  blocks b = cut_blocks(l, x, count);
  for (uint32_t i = 0; i < r.order.n; i++)
    if (r.order.v[i]->op == OP_PARAM && r.order.v[i]->ints[0] >= slot) slot = r.order.v[i]->ints[0] + 1;
  set_apart(l, &r, at, &old, &new_);
  for (uint32_t i = 0; i < r.order.n; i++) {
    tn_node *n = r.order.v[i];
    bool walks = (n->op == OP_REDUCE || n->op == OP_STORE) && (tn__own_of(&r, n) >> at & 1);
    if (!walks || (n->op == OP_REDUCE && !(tn__free_of(&r, n->src[0]) >> at & 1))) continue;
    tn__vec_push(a, &old, n);
    tn__vec_push(a, &new_, n->op == OP_REDUCE ? two_steps(c, &r, &b, n, slot++) : over_blocks(c, &b, n, b.block));
  }
  /* a sum over each block that turns out to be the same for all of them does not stand in the loop over these */
  return tn__separate(l, tn__substitute(c, body, old.v, new_.v, old.n));
}

/* ---- few long rows: blocks of each, at every level ---- */

/* The loops of a row: reductions one above the other, none inside another's loop, over as many elements each, under the
 * same outputs, and stores of elements. */
typedef struct long_row {
  tn_node *size; /* of the outermost loop of each */
  uint64_t rows; /* the outputs that it stands under */
  double elements;
} long_row;

/* a choice: no is right */
static bool find_long_row(const tn__survey *p, long_row *out) {
  *out = (long_row){.rows = p->common};
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_AFTER || n->op == OP_STOREADD) return false;
    if (n->op != OP_REDUCE) continue;
    if ((tn__free_of(&p->r, n) & ~p->outputs) || (out->size && n->src[1]->src[0] != out->size)) return false;
    out->size = n->src[1]->src[0];
    out->elements = tn__volume(p, tn__own_of(&p->r, n));
    out->rows &= tn__free_of(&p->r, n);
  }
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE && tn__free_of(&p->r, p->r.order.v[i]) != out->rows) return false;
  return out->size && tn__is_const(out->size);
}

/* Is it one of the row's that is whole yet? */
static bool is_whole(const long_row *row, const tn_node *x) {
  tn__role role = tn__role_of(x);
  return x->src[0] == row->size && role != ROLE_BLOCK && role != ROLE_BLOCK_SUM;
}

static tn_node *whole_reduction(const tn__survey *p, const long_row *row) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE && is_whole(row, p->r.order.v[i]->src[1])) return p->r.order.v[i]->src[1];
  return NULL;
}

/* The loop of stores of elements; several: NULL */
static tn_node *whole_store(const tn__survey *p, const long_row *row) {
  tn_node *found = NULL;
  for (uint32_t k = 0; k < p->r.n; k++) {
    tn_node *x = p->r.range[k];
    if (!(p->outputs >> k & 1) || (row->rows >> k & 1) || !is_whole(row, x)) continue;
    if (found) return NULL;
    found = x;
  }
  return found;
}

/* How many blocks a row is cut into, for all units to have groups enough; 0: rows are enough, or too short */
/* a choice: either is right */
static int64_t count_row_blocks(const tn__lowering *l, const tn__survey *p, const long_row *row) {
  const tn__target *t = l->target;
  int usual = tn__usual_group(t);
  double groups = tn__volume(p, row->rows), most = row->elements / (usual * SHARE_OF_BLOCK),
         want = (double)tn__variant_by(GROUPS_OF_UNIT, l->variant->blocks) * t->units;
  int64_t n = 1;
  if (groups > (double)t->units) return 0;
  while ((double)n * groups < want && (double)n * 2 <= most && n * 2 <= row->size->hi) n *= 2;
  return n > 1 ? n : 0;
}

/* The stores of what is a row's, by its first block alone */
static tn_node *store_once(tn__lowering *l, tn_node *body, tn_node *block) {
  tn_ctx *c = l->c;
  tn__nodes old = {0}, new_ = {0};
  tn_node *first = tn__op2(c, OP_EQ, block, tn__int(c, 0));
  for (uint32_t i = 0; i < body->nsrc; i++) {
    tn_node *x = body->src[i], *gate = tn__gate_of(x), *src[TN__MAX_RANGES + 5];
    uint32_t from, m = 0;
    bool owns = false;
    tn__closes(x, &from);
    for (uint32_t s = from; s < x->nsrc; s++) owns |= x->src[s] == block;
    if (owns) continue;
    for (; m < 3; m++) src[m] = x->src[m];
    src[m++] = gate ? tn__op2(c, OP_AND, gate, first) : first;
    src[m++] = block;
    for (uint32_t s = from; s < x->nsrc; s++) src[m++] = x->src[s];
    tn__vec_push(l->a, &old, x);
    tn__vec_push(l->a, &new_, tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m}));
  }
  return tn__substitute(c, body, old.v, new_.v, old.n);
}

/* Stores of elements, block by block: the blocks are groups' as those of the reductions are. */
static tn_node *cut_store(tn__lowering *l, tn_node *body, tn_node *x, int64_t count) {
  tn_ctx *c = l->c;
  blocks b = cut_blocks(l, x, count);
  tn_node *inner = b.inner->op == OP_RANGE ? tn__retype(c, b.inner, b.inner, AX_LOOP) : b.inner;
  tn_node *place = tn__substitute(c, b.place, &b.inner, &inner, 1);
  tn__sb_printf(&l->note, " blocks(%lld)", tn__id_of(x));
  body = tn__exchange_ranges(l, body, &x, &place, 1, (tn_node *[]){b.block, inner}, inner->op == OP_RANGE ? 2 : 1);
  return store_once(l, body, b.block);
}

static tn_node *split_row(tn__lowering *l, tn_node *body) {
  tn__survey p;
  long_row row;
  tn_node *x;
  tn__survey_loops(l->c, l->a, body, &p);
  int64_t count = find_long_row(&p, &row) ? count_row_blocks(l, &p, &row) : 0;
  if (!count || (top_level(&p) < 2 && !whole_store(&p, &row))) return body;
  tn_node *names[TN__MAX_RANGES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < p.r.n; k++)
    if (row.rows >> k & 1) names[n++] = p.r.range[k];
  for (int level = 0; level < TN__MAX_PARTS; level++) {
    if (!(x = whole_reduction(&p, &row))) break;
    body = split(l, body, x, count);
    tn__survey_loops(l->c, l->a, body, &p);
    row.rows = 0;
    for (uint32_t i = 0; i < n; i++) row.rows |= 1ull << tn__range_at(&p.r, names[i]);
  }
  return (x = whole_store(&p, &row)) ? cut_store(l, body, x, count) : body;
}

static tn_node *split_long(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn_node *rows = l->target->group && c->mode != TN_MODE_STRICT ? split_row(l, body) : body;
  if (rows != body) return rows;
  tn__survey_loops(c, l->a, body, &p);
  if (l->target->group && c->mode != TN_MODE_STRICT && p.reduces && tn__volume(&p, all_of(&p)) >= TN__SPLIT_WORK) {
    body = flatten_top(l, body);
    tn__survey_loops(c, l->a, body, &p);
  }
  int at = c->mode == TN_MODE_STRICT || !p.reduces ? -1 : split_range(&p);
  if (at < 0) return body;
  bool little = tn__extent(p.r.range[at]) < MIN_SPLIT || tn__volume(&p, all_of(&p)) < TN__SPLIT_WORK;
  if (little) return body; /* a choice: either is right */
  int64_t steps, beside, tiles = tn__tile_count(l, body, &steps, &beside);
  int64_t count =
      tiles ? count_tile_blocks(l, p.r.range[at], tiles, steps, beside) : count_blocks(l, &p, p.r.range[at]);
  return count ? split(l, body, p.r.range[at], count) : body;
}

/* Sums over rows that are gone through anyway: as many blocks as groups are there. */
static tn_node *split_rows(tn__lowering *l, tn_node *body, tn_node *rows) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  return split(l, body, rows, tn__row_groups(l->target, tn__extent(rows), tn__volume(&p, p.outputs)));
}

tn_node *tn__optimise_loops(tn__lowering *l, tn_node *body) {
  tn_node *rows = NULL;
  body = tn__share_loops(l, body);
  if (l->target->interprets) return body;
  body = tn__running(l, body);
  if (l->c->mode == TN_MODE_STRICT) return body;
  if (l->target->group) body = tn__unite_rows(l, body, &rows);
  body = tn__merge_loops(l, body);
  body = tn__tile_shape(l, body);
  return rows ? split_rows(l, body, rows) : split_long(l, body);
}

tn_node *tn__optimise_part(tn__lowering *l, tn_node *part, tn__part *out) {
  if (l->target->group) {
    out->tile = tn__tile_part(l, &part);
    if (out->tile) {
      out->group = out->tile->form->threads;
      return part;
    }
    tn_node *patched = tn__patch(l, part, out);
    if (patched) return patched;
    tn_node *folded = tn__column_reduce(l, part, &out->group);
    if (folded) return tn__make_global(l, folded);
    part = tn__hold_columns(l, part);
    bool rows = tn__group_rows(l, part);
    if (rows) part = tn__keep_rows(l, part);
    return tn__group_part(l, part, rows, out);
  }
  if (l->target->interprets || l->c->mode == TN_MODE_STRICT) return part;
  tn_node *turned = tn__turn(l, part), *columns = turned ? NULL : lanes_of_columns(l, part);
  if (!turned && !columns) turned = tn__repeat(l, part);
  if (turned) return turned;
  part = tn__keep_rows(l, columns ? tn__turn_columns(l, columns) : tn__spread_rows(l, part));
  part = vectorise_rest(l, columns ? part : vectorise(l, part));
  return columns ? tn__jam(l, part) : part;
}
