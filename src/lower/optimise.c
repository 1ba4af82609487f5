/* Kernel optimisation: a list of steps, each of which keeps the body's meaning; what was done is noted in the kernel's
 * head comment.
 *
 *   alike(a)        terms of a reduction are the same along a loop, which goes               (equal_terms.c)
 *   outside(op)     a sum of doubled or negated terms is doubled or negated behind its loop
 *   share(a,b)      two reduce loops become one                 (rows.c)
 *   row(op)         a value wanted in several loops over a row is kept in scratch memory    (rows.c)
 *   ahead(load)     so, and the next row's is on its way meanwhile
 *   unnest(a,b)     maxima of maxima become one reduction       (unnest.c)
 *   order(a,b)      loops of reductions stand as memory lies    (order.c)
 *   merge(a,b)      two loops become one, where every access walks through both as through one        (merge.c)
 *   repeat(a,b)     ... but for what is the same in each turn of the outer one, of which there are copies
 *   spread(a,b)     ... but for what is the same in each turn of the inner one, which stands in scratch memory
 *   fetch(a,b)      ... but for what each element loads by itself
 *   split(a)        a long reduction becomes partial sums, blocks(a) shares out the elements of its row    (split.c)
 *   cut(a,n)        a flat loop becomes two: lines of n elements, which have the lanes
 *   lanes(a,n)      the loop is cut into lanes for vector instructions
 *   jam(a,n)        n turns of an output's loop at once, which share what they load                  (jam.c)
 *   strips(a,n)     n turns of the columns' loop stand inside of all others, which go down them again     (strips.c)
 *   first(a,b)      sums over loop b for all of loop a are a part before what is stored along a     (sums_first.c)
 *   turn(a,b)       the loops are cut into tiles, in which what lies along a is loaded and stored along it, but
 *                   computed along b                            (turn.c)
 *   flat(a,b)       before that, short lines along b are one loop with those along a, by which they go on
 *   rows(a,b,c)     rows of few bytes along c by tiles of the loops along which they follow each other in memory
 *   turn(a)         what all turns of a load across their lanes is loaded once for a block of them  (turn_columns.c)
 *   column(op)      what is stored behind a column's reductions has this value in common                  (behind.c)
 *   blocks(a,n)     threads share out n blocks of loop a, of the elements that are stored behind few columns
 *   tally(a,n)      integers added at n places by all of a: each group adds up its own in shared memory first (tally.c)
 *   chunk(a,n)      a flat loop is cut into chunks for the threads
 */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  CHUNK = 2048,           /* elements of a flat loop per slice, */
  LEAST_CHUNK = 64,       /* or so few, if that is worth waking a thread for */
  COMPARED = 2,           /* times as many columns where what each has found is compared, which takes longer than
                           * adding, and columns do not wait for each other */
  MAX_STEP = 64,          /* of what lanes access beside each other, in elements */
  GATHERED = 2,           /* vectors of a sum from which on its terms are sooner gathered than added one by one */
  LONG_ROW = 64,          /* has lanes of its own, whatever lies side by side */
  OVERLAPPING = 8,        /* sums that keep a processor's units for vectors busy */
  SHORT_ROW = 4,          /* of elements that are fetched one by one, */
  LITTLE_WORK = 4         /* and have little done to them */
};

static const double NO_LANES = 1e200; /* of a score: taken where there is nothing else */

/* ---- choosing what to vectorise and what to share out ---- */

/* Is a row kept for each turn of range j?  Its lanes would share it. */
static bool keeps_rows(const tn__survey *p, uint32_t j) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STORE && tn__buffer_of(n)->op == OP_LOCAL && (tn__free_of(&p->r, n) >> j & 1)) return true;
  }
  return false;
}

/* May range j have the lanes?  Across outputs every reduction and store must have it. */
/* a choice: no is right */
static bool may_have_lanes(const tn__survey *p, uint32_t j) {
  bool output = p->outputs >> j & 1, all = p->common >> j & 1;
  int axis = tn__axis_of(p->r.range[j]);
  if ((axis != AX_LOOP && axis != AX_REDUCE && !(p->running >> j & 1)) || tn__bounds_loops(&p->r, j) ||
      keeps_rows(p, j))
    return false;
  for (uint32_t i = 0; i < p->r.order.n && all && output && p->reduces; i++) {
    const tn_node *n = p->r.order.v[i];
    uint32_t first;
    if (tn__closes(n, &first)) all = (tn__free_of(&p->r, n) | tn__own_of(&p->r, n)) >> j & 1;
    if (n->op == OP_LOCAL) all = false;
  }
  return all || !output || !p->reduces;
}

/* Of shorter loops most lanes would be empty. */
/* a choice: either is right */
static double min_lanes(const tn__lowering *l) { return l->target->lane_bytes / (double)sizeof(float) / 4; }

/* The range along which to vectorise: of a reduction where all reductions run along it, unless it is for outputs only,
 * or of the outputs; where none is walked well, one that fills lanes.  -1 where accesses rather walk along what
 * values run along. */
/* a choice: no is right */
static int vector_range(const tn__lowering *l, const tn__survey *p, bool only_outputs) {
  int best = -1;
  double best_score = -1e300;
  for (uint32_t j = 0; j < p->r.n; j++) {
    bool output = p->outputs >> j & 1, runs = p->running >> j & 1;
    if ((only_outputs && !output && !runs) || !may_have_lanes(p, j)) continue;
    double s = tn__walk_score(p, j) + (output ? 0.5 : 0), filled = tn__extent(p->r.range[j]) / min_lanes(l);
    if (s < 0 && filled < 1) s /= filled;
    if (!output && !runs && filled < 1) s -= NO_LANES; /* its terms would be added one by one */
    if (s > best_score) best_score = s, best = (int)j;
  }
  return best >= 0 && !(p->running >> best & 1) && !(p->running && best_score <= 0) ? best : -1;
}

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
  for (uint32_t i = 0; i < p.r.order.n; i++) { /* a store in some of the loops would then stand inside of the others */
    uint64_t own = tn__own_of(&p.r, p.r.order.v[i]) & set;
    if (own && own != set) return body;
  }
  for (uint32_t k = 0; k < p.r.n; k++)
    if ((set >> k & 1) && tn__bounds_loops(&p.r, k)) return body;
  return tn__substitute(l->c, body, old.v, new_.v, old.n);
}

/* Where accesses ask on which line of a flat loop they are, lanes that go from one line to the next would load their
 * numbers one by one: lines of a vector or more become a loop around their elements, which is the one to have lanes.
 * Lines of whole vectors need none: lanes never leave them. */
static tn_node *elements_of_lines(tn__lowering *l, tn_node **body, tn_node *x, int64_t lanes) {
  tn__ranges r;
  int64_t line = 0, size, by;
  if (!tn__const_int(x->src[0], &size)) return x;
  tn__ranges_find(l->c, l->a, *body, &r);
  for (uint32_t i = 0; i < r.order.n; i++) {
    const tn_node *n = r.order.v[i];
    bool asks = (n->op == OP_IDIV || n->op == OP_MOD) && n->src[0] == x && tn__const_int(n->src[1], &by);
    if (!asks || by < lanes || by >= size || size % by || (line && line <= by)) continue;
    line = by;
  }
  if (!line || line % lanes == 0) return x; /* a choice: either is right */
  tn_node *cut[2];
  int axis = tn__axis_of(x);
  tn__sb_printf(&l->note, " cut(%lld,%lld)", tn__id_of(x), (long long)line);
  *body = tn__simplify_accesses(l->c, l->a, tn__cut(l, *body, x, line, axis, axis, cut));
  return cut[1];
}

/* The lanes of a reduction: turns of as many as there are accumulators, or all of it where that is less than two */
static tn_node *reduce_in_lanes(tn__lowering *l, tn_node *body, tn_node *x, int64_t lanes) {
  x = elements_of_lines(l, &body, x, lanes);
  body = go_inside(l, body, x);
  if (!tn__is_const(x->src[0]) || tn__extent(x) >= 2 * (double)lanes) return cut_lanes(l, body, x, lanes, AX_REDUCE);
  tn__sb_printf(&l->note, " lanes(%lld,%lld)", tn__id_of(x), (long long)x->hi + 1);
  return tn__retype(l->c, body, x, AX_UPCAST);
}

/* Bytes of what is reduced, as vectors hold it: halves as f32, small whole numbers by themselves if nothing that is
 * wider stands beside them, as an index may. */
/* a choice: either is right */
static int64_t value_size(const tn__survey *p) {
  size_t size = 0;
  bool alone = true;
  for (uint32_t i = 0; i < p->r.order.n && !size; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) size = tn__size_of(p->r.order.v[i]->dtype);
  for (uint32_t i = 0; i < p->r.order.n && alone; i++) {
    const tn_node *n = p->r.order.v[i];
    bool value = n->op == OP_LOAD || n->op == OP_REDUCE || (tn__is_elementwise(n) && n->dtype != TN__INDEX);
    alone = !value || (!tn__is_float(n->dtype) && n->dtype != TN_BOOL && tn__size_of(n->dtype) <= size);
  }
  return (int64_t)(size >= sizeof(float) || (size && alone) ? size : sizeof(float));
}

/* a choice: either is right */
static int64_t lanes_for(const tn__lowering *l, const tn__survey *p) {
  return tn__variant_by(l->target->lane_bytes, l->variant->lanes) / value_size(p);
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
  int v = p->reduces ? vector_range(l, p, false) : -1;
  uint64_t rows = 0, near = 0;
  if (v < 0 || (p->outputs >> v & 1)) return v;
  for (uint32_t j = 0; j < p->r.n; j++) {
    if (!(p->outputs >> j & 1) || !may_have_lanes(p, j)) continue;
    rows |= 1ull << j;
    near |= (uint64_t)steps_within_lines(p, j) << j;
  }
  int pairs = tn__columns_of_pairs(l, p, rows);
  if (pairs >= 0 || tn__extent(p->r.range[v]) >= LONG_ROW) return pairs >= 0 ? pairs : v;
  int row = vector_range(l, p, true);
  if (row < 0 || tn__walk_score(p, (uint32_t)row) > 0) return row;
  return tn__across_rows(l, p, near, (uint32_t)v, min_lanes(l));
}

/* Is the largest or the least found? */
/* a choice: either is right */
static bool compares(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE && tn__is_float(n->dtype) && (n->ints[0] == OP_MAX || n->ints[0] == OP_MIN)) return true;
  }
  return false;
}

/* Reductions across rows, before any row is kept: lanes of columns beside each other, each of which keeps its own.
 * NULL: accesses rather walk along the reductions */
static tn_node *lanes_of_columns(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  int v = column_range(l, &p);
  if (v < 0 || !(p.outputs >> v & 1) || tn__extent(p.r.range[v]) < 2) return NULL; /* a choice: no is right */
  tn_node *x = p.r.range[v];
  int64_t lanes = lanes_for(l, &p);
  if (compares(&p) && tn__walk_score(&p, (uint32_t)v) > 0) lanes *= COMPARED; /* a choice: either is right */
  if (tn__extent(x) > (double)lanes || !tn__is_const(x->src[0])) return cut_lanes(l, body, x, lanes, AX_LOOP);
  tn__sb_printf(&l->note, " lanes(%lld,%lld)", tn__id_of(x), (long long)lanes);
  return tn__retype(l->c, body, x, AX_UPCAST);
}

/* Elements of flat loop x that a thread does before another may: fewer, where each takes long */
/* a choice: any is right */
static int64_t chunk_of(const tn__lowering *l, const tn__survey *p, const tn_node *x) {
  int64_t chunk = CHUNK;
  double work = 0;
  int at = tn__range_at(&p->r, x);
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (tn__free_of(&p->r, p->r.order.v[i]) >> at & 1) work += tn__ops[p->r.order.v[i]->op].cost;
  while (chunk > LEAST_CHUNK && (double)(chunk / 2) * work >= TN__SLICE_WORK) chunk /= 2;
  return tn__variant_by(chunk, l->variant->group);
}

/* Is j a row of few elements, fetched from a place that is looked up, of which no more is made than another dtype?
 * Masked vectors take longer than so many loads and stores, each of which may lie in two of memory's lines.  But those
 * of f16 and what is stored as bf16 are rounded, or convert, many at a time. */
/* a choice: either is right */
static bool is_short_fetched(const tn__survey *p, uint32_t j) {
  bool fetched = false;
  double work = 0;
  if (!(p->outputs >> j & 1) || tn__extent(p->r.range[j]) > SHORT_ROW || !tn__is_const(p->r.range[j]->src[0]))
    return false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->dtype == TN_F16 || (n->op == OP_STORE && n->src[2]->dtype == TN_BF16)) return false;
    if (!(tn__free_of(&p->r, n) >> j & 1)) continue;
    if (tn__is_elementwise(n) && n->dtype != TN__INDEX) work += tn__ops[n->op].cost;
    for (uint32_t k = 0; k < p->r.n && n->op == OP_LOAD; k++)
      fetched |= k != j && tn__stride(&p->r, n->src[1], k) == TN__IRREGULAR;
  }
  return fetched && work <= LITTLE_WORK;
}

/* Are updates added at places that loop j goes through by no step?  Lanes of j would each be another line, of which all
 * is fetched one by one. */
/* a choice: either is right */
static bool is_around_updates(const tn__survey *p, uint32_t j) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STOREADD && (tn__own_of(&p->r, n) >> j & 1) && tn__stride(&p->r, n->src[1], j) == TN__IRREGULAR)
      return true;
  }
  return false;
}

/* So, and several outputs at a time.  A large patch of these has accumulators enough whose additions overlap: each has
 * half as many lanes, for all of them to stay in registers. */
static tn_node *reduce_together(tn__lowering *l, tn_node *body, tn_node *x, int64_t lanes) {
  tn__sb note = l->note;
  int64_t next = l->next_range;
  l->note = (tn__sb){.arena = l->a};
  bool many = lanes > 1 && tn__patch_of_sums(l, reduce_in_lanes(l, body, x, lanes / 2)) >= OVERLAPPING;
  l->note = note, l->next_range = next;
  body = reduce_in_lanes(l, body, x, many ? lanes / 2 : lanes);
  bool patch = tn__patch_of_sums(l, body) > 0;
  body = tn__jam(l, body);
  tn_node *strips = patch ? tn__strips_of_rows(l, body) : body;
  return strips != body ? strips : tn__share_rows(l, body);
}

/* lane: the loop that is known to have the lanes; NULL: to be found */
static tn_node *vectorise(tn__lowering *l, tn_node *body, const tn_node *lane) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn__survey_loops(c, l->a, body, &p);
  int v = lane ? tn__range_at(&p.r, lane) : vector_range(l, &p, false);
  if (v < 0) return body;
  tn_node *x = p.r.range[v];
  if (!p.reduces) {
    tn_node *whole = body;
    if (!lane && is_around_updates(&p, (uint32_t)v)) return tn__share_out(l, body, NULL);
    if (!lane) x = elements_of_lines(l, &body, x, l->target->lane_bytes / (int64_t)sizeof(float));
    if (body != whole) tn__survey_loops(c, l->a, body, &p);
    int64_t chunk = chunk_of(l, &p, x);
    double all = tn__volume(&p, p.outputs), turns = all / tn__extent(x);
    bool lines = turns < TN__PARTIALS && tn__extent(x) > (double)chunk; /* a choice: either is right */
    if (!lane && !lines && is_short_fetched(&p, (uint32_t)tn__range_at(&p.r, x)))
      return all >= (double)TN__PARTIALS * (double)chunk ? tn__share_out(l, body, x) : body;
    /* a flat loop, or few long ones: chunks for the threads */
    if (lines) tn__sb_printf(&l->note, " chunk(%lld,%lld)", tn__id_of(x), (long long)chunk);
    body = lines ? tn__cut(l, body, x, chunk, AX_LOOP, AX_UPCAST, NULL) : tn__retype(c, body, x, AX_UPCAST);
    bool much = lines || all >= (double)TN__PARTIALS * (double)chunk; /* a choice: either is right */
    body = much ? tn__share_out(l, body, NULL) : body;
    return lane ? tn__simplify_accesses(c, l->a, body) : body; /* a choice: either is right */
  }
  bool output = p.outputs >> v & 1; /* lanes_of_columns has left it */
  if (output || tn__extent(x) < min_lanes(l)) return body; /* a choice: either is right */
  return reduce_together(l, body, x, lanes_for(l, &p));
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

/* Does range j go along kept rows, and elsewhere nowhere? */
/* a choice: no is right */
static bool goes_along_rows(const tn__survey *p, uint32_t j) {
  bool goes = false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n) || !(tn__free_of(&p->r, n->src[1]) >> j & 1)) continue;
    if (tn__buffer_of(n)->op != OP_LOCAL || tn__stride(&p->r, n->src[1], j) != 1) return false;
    goes = true;
  }
  return goes;
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
    double best_rank = 0;
    uint64_t columns = 0; /* ranges of outputs with reductions of their own */
    for (uint32_t j = 0; j < p.r.n; j++) {
      const tn_node *x = p.r.range[j];
      if (tn__axis_of(x) != AX_LOOP && tn__axis_of(x) != AX_REDUCE) continue;
      double score = tn__walk_score(&p, j);
      if (tn__bounds_loops(&p.r, j)) continue;
      bool apart = score < 0 && (tn__axis_of(x) != AX_REDUCE || tn__extent(x) < GATHERED * min_lanes(l));
      if (stays_whole(x) || apart) continue; /* a choice: either is right */
      if (score == 0 && !fills_row(&p, j) && !goes_along_rows(&p, j)) continue; /* a choice: either is right */
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
      double rank = score < 0 ? score : 0;
      if (!clash && closes && (best < 0 || rank >= best_rank)) best = (int)j, best_rank = rank;
    }
    if (best < 0) return body;
    tn_node *x = p.r.range[best];
    bool output = tn__axis_of(x) == AX_LOOP, sums = columns >> best & 1;
    int64_t lanes = lanes_for(l, &p);
    if (output) x = elements_of_lines(l, &body, x, lanes);
    if ((output && !sums) || fills_row(&p, (uint32_t)best) || tn__extent(x) <= (double)(sums ? lanes : 0)) {
      body = tn__retype(c, body, x, AX_UPCAST);
    } else {
      body = output ? cut_lanes(l, body, x, lanes, AX_LOOP) : reduce_in_lanes(l, body, x, lanes);
    }
  }
  return body;
}

tn_node *tn__optimise_loops(tn__lowering *l, tn_node *body) {
  tn_node *rows = NULL;
  body = tn__own_places(l, body);
  if (l->threads) return body;
  if (!l->target->interprets && l->c->mode != TN_MODE_STRICT) body = tn__leave_equal_terms(l, body);
  body = tn__running_by_group(l, body);
  if (l->threads) return body;
  body = tn__share_loops(l, body);
  if (l->target->interprets) return body;
  body = tn__running(l, body);
  if (l->c->mode == TN_MODE_STRICT) return body;
  if (l->target->group) {
    if (l->variant->team == 1 || l->variant->windows) body = tn__unnest(l, body);
    body = tn__unite_rows(l, body, &rows);
    if (!rows) body = tn__store_along(l, body);
  }
  body = tn__order_loops(l, body);
  if (l->variant->windows < 2) body = tn__merge_loops(l, body); /* else lines of an image stay what windows go along */
  body = tn__tile_shape(l, body);
  if (!l->target->group) body = tn__sums_first(l, body);
  return rows ? tn__split_rows(l, body, rows) : tn__split_long(l, body);
}

/* Does it add to places, or store what these begin with in a part before those who own them (owned.c)? */
static bool adds(const tn_node *part) {
  bool some = false;
  for (uint32_t i = 0; i < part->nsrc; i++) some |= part->src[i]->op == OP_STOREADD;
  return some;
}

tn_node *tn__optimise_part(tn__lowering *l, tn_node *part, tn__part *out) {
  if (l->threads && (!l->owns || adds(part))) {
    out->group = l->threads;
    if (l->owns) out->owns = true, out->beside = 1;
    return tn__show_neighbours(l->c, l->a, tn__make_global(l, part, NULL, 0));
  }
  part = tn__store_once(l, part);
  if (l->target->group) {
    if (!l->variant->team) part = tn__store_by_element(l, part);
    out->tile = tn__tile_part(l, &part);
    if (out->tile) {
      out->group = out->tile->form->threads;
      return part;
    }
    part = tn__tally(l, part);
    tn_node *patched = tn__patch(l, part, out);
    if (patched) return patched;
    tn_node *turned = tn__turn_in_groups(l, part, out);
    if (turned) return turned;
    tn_node *folded = tn__column_reduce(l, part, &out->group);
    if (folded) return tn__at_once(l, tn__make_global(l, folded, NULL, 0));
    part = tn__hold_columns(l, part);
    bool rows = tn__group_rows(l, part);
    if (rows) part = tn__keep_loops_of_rows(l, part);
    return tn__group_part(l, part, rows, out);
  }
  if (l->target->interprets || l->c->mode == TN_MODE_STRICT) return part;
  part = tn__share_stores(l, part);
  tn_node *runs = tn__turn_runs(l, part);
  if (runs) return runs;
  tn_node *turned = tn__turn(l, part), *columns = turned ? NULL : lanes_of_columns(l, part);
  if (!turned && !columns) turned = tn__repeat(l, part);
  if (turned) return turned;
  tn_node *lane = NULL;
  part = columns ? tn__turn_columns(l, columns) : tn__fetch(l, tn__spread_rows(l, part), &lane);
  part = tn__keep_rows(l, part);
  part = vectorise_rest(l, columns ? part : vectorise(l, part, lane));
  part = tn__simplify_accesses(l->c, l->a, part); /* what lanes never step over is the same for all of them */
  part = columns ? tn__once_for_columns(l, tn__strips(l, tn__jam(l, part))) : tn__share_blocks(l, part);
  return tn__share_behind(l, part);
}
