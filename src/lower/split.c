/* Splitting: what is reduced is cut into blocks, whose partial results a second part adds up, for threads and groups to
 * share out.
 *
 *   split(a)        a long reduction becomes partial sums over blocks of rows and a further part that adds them up;
 *                   so do columns that are gone down many times, if no thread's cache holds a strip of them
 *   blocks(a)       stores of a long row's elements are shared out by blocks, as its reductions are
 *   whole           the loops of a reduction, or all of a row's, are one, which is split
 *   rest(a,n)       its last n elements are reduced apart, which are no whole wide access
 *
 * The number of parts hangs on sizes and on the device alone: results do not depend on the number of threads. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  MIN_SPLIT = 16,         /* shorter ranges stay whole, */
  LEAST_SPLIT = 8192,     /* so does what takes less than waking threads, */
  MAX_SPLIT_CELLS = 2047, /* so does what has outputs enough for the threads, */
  MAX_SPLIT_ROWS = 255,   /* fewer where what is reduced lies along memory: any of them is as good a share as a block */
  MIN_BLOCK = 16,         /* rows that are worth a block */
  GROUPS_OF_UNIT = 8,     /* of long rows cut into blocks, */
  FEWER = 4,              /* and times as many as there are, for rows that are threads to be cut; */
  SHARE_OF_BLOCK = 4,     /* elements of a block for each thread, at least */
  LINE = 64,              /* bytes that a processor's memory gives at once */
  MIN_AGAIN = 64,         /* times that a strip is gone down for blocks to pay, */
  MIN_STRIP = 64,         /* rows of a block of it, */
  TOO_FEW = 2,            /* times as many blocks of a product are wanted, for its sum to be made longer */
  FEW_TIMES = 2,          /* and times as many bytes of partial sums as it has, at most */
  WHOLE_VECTORS = 8       /* of accumulators' lanes: blocks of more have no lane left over */
};

static const double SURE = 0.9; /* of the busiest unit's work: blocks of uneven lengths cost something, too */

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

/* These loops of outputs, as they nest: in the order of their ids */
static uint32_t as_nested(const tn__survey *p, uint64_t set, tn_node **x) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (!(set >> k & 1)) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(p->r.range[k]); at--) x[at] = x[at - 1];
    x[at] = p->r.range[k];
  }
  return n;
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

/* Does anything that is loaded lie along x, element by element? */
/* a choice: either is right */
static bool walks_along(const tn__survey *p, const tn_node *x) {
  bool walks = false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    walks |= n->op == OP_LOAD && tn__stride(&p->r, n->src[1], (uint32_t)tn__range_at(&p->r, x)) == 1;
  }
  return walks;
}

/* Elements of a wide access, if all that is loaded along x lies element by element, from multiples of as many on; 1: it
 * does not */
/* a choice: either is right */
static int64_t pack_along(tn__lowering *l, const tn__survey *p, const tn_node *x) {
  tn_ctx *c = l->c;
  int64_t pack = l->target->access / (int64_t)loaded_bytes(p);
  tn_node *range = (tn_node *)(uintptr_t)x, *zero = tn__int(c, 0);
  uint32_t at = (uint32_t)tn__range_at(&p->r, x);
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    int64_t stride = n->op == OP_LOAD ? tn__stride(&p->r, n->src[1], at) : 0;
    if (stride == 0) continue;
    tn_node *base = tn__simplify_index(c, tn__substitute(c, n->src[1], &range, &zero, 1));
    if (stride != 1 || !tn__divisible(base, pack)) return 1;
  }
  return pack > 1 && walks_along(p, x) ? pack : 1;
}

/* Is x the loop of reductions alone, each of which has no other and is made of what hangs on it? */
/* a choice: no is right */
static bool is_only_reduced(const tn__survey *p, const tn_node *x) {
  uint64_t at = 1ull << tn__range_at(&p->r, x);
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!(tn__own_of(&p->r, n) & at)) continue;
    if (n->op != OP_REDUCE || n->nsrc != 2 || !(tn__free_of(&p->r, n->src[0]) & at)) return false;
  }
  return true;
}

/* The last elements along x apart, where its length is no multiple of a wide access: all others are then loaded by
 * such.  *x: the loop over these */
static tn_node *rest_apart(tn__lowering *l, tn_node *body, tn_node **x) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  int64_t size;
  tn__survey_loops(c, l->a, body, &p);
  if (!tn__const_int((*x)->src[0], &size) || tn__bounds_loops(&p.r, (uint32_t)tn__range_at(&p.r, *x))) return body;
  int64_t rest = size % pack_along(l, &p, *x);
  if (!rest || !is_only_reduced(&p, *x)) return body;
  tn_node *own = tn__fresh_range(l, tn__int(c, rest), AX_REDUCE, ROLE_APART);
  tn_node *whole = tn__range_like(c, *x, tn__int(c, size - rest), AX_REDUCE), *loop[2] = {whole, own};
  tn_node *at[2] = {whole, tn__add(c, tn__int(c, size - rest), own)};
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    tn_node *n = p.r.order.v[i], *half[2];
    if (n->op != OP_REDUCE || n->src[1] != *x) continue;
    for (int k = 0; k < 2; k++) {
      tn_node *src[2] = {tn__substitute(c, n->src[0], x, &at[k], 1), loop[k]};
      half[k] = tn__node_with(c, n, src);
    }
    tn__vec_push(l->a, &old, n);
    tn__vec_push(l->a, &new_, tn__op2(c, (tn__op)n->ints[0], half[0], half[1]));
  }
  tn__sb_printf(&l->note, " rest(%lld,%lld)", tn__id_of(*x), (long long)rest);
  *x = whole;
  return tn__simplify_accesses(c, l->a, tn__substitute(c, body, old.v, new_.v, old.n));
}

/* About n blocks of so many elements: as many as give whole packs, or at least blocks of one length, if there is such a
 * number near. */
/* a choice: any is right */
static int64_t even_count(int64_t size, int64_t n, int64_t pack) {
  for (int64_t by = pack > 1 ? pack : 1;; by = 1) {
    for (int64_t k = n; k > n / 2; k--)
      if (size % (k * by) == 0) return k;
    if (by == 1) return n;
  }
}

/* ... or, if those that there are make whole packs, so many that all but the last one have whole packs, too */
/* a choice: any is right */
static int64_t packed_count(int64_t size, int64_t n, int64_t pack) {
  int64_t even = even_count(size, n, pack);
  return size % pack == 0 && size / even % pack ? n : even;
}

/* What the busiest unit goes through, of so many blocks of each of `tiles` */
static double busiest(const tn__target *t, double tiles, double size, double n) {
  return ceil(tiles * n / t->units) * ceil(size / n);
}

/* Instead of n blocks, up to so many: as many as leave units least without work, if that is surely less.  Groups that
 * multiply rows by columns are few, and as long as each other: 200 of them take 132 units as long as 264. */
/* a choice: any is right */
static int64_t share_evenly(const tn__target *t, double tiles, int64_t size, int64_t n, int64_t most) {
  int64_t best = n;
  for (int64_t k = most; tiles > 0 && k > most / 2; k--)
    if (busiest(t, tiles, (double)size, (double)k) < busiest(t, tiles, (double)size, (double)best)) best = k;
  bool surely = busiest(t, tiles, (double)size, (double)best) < SURE * busiest(t, tiles, (double)size, (double)n);
  return surely ? best : n;
}

/* How many blocks range x of the top reductions is cut into, for groups enough for all their threads; 0: it stays
 * whole. */
/* a choice: either is right */
static int64_t count_blocks(tn__lowering *l, const tn__survey *p, const tn_node *x) {
  int64_t most = (int64_t)tn__extent(x), size;
  const tn__target *t = l->target;
  double cells = tn__volume(p, p->common);
  /* of what is a group's work by itself, each makes a block */
  if (nested_in(p, x) >= tn__usual_group(t)) return tn__is_const(x->src[0]) ? most : 0;
  bool walks = tn__walks_outputs(p, p->common);
  /* half the threads keep a unit busy if each reads all at once that it may; of those with patches a quarter does */
  double patch = tn__has_patches(p, l->variant) ? l->variant->rows * l->variant->cols : 0,
         threads = patch > 0 ? cells / patch * 4
                   : walks   ? cells * (double)loaded_bytes(p) / t->access * 2
                             : cells * tn__usual_group(t),
         want = (double)tn__variant_by((int64_t)t->units * t->unit_threads, l->variant->blocks) / threads;
  int64_t n = 1;
  while ((double)n * 2 <= want && n * 2 * MIN_BLOCK <= most) n *= 2;
  if (n < 2 || !tn__const_int(x->src[0], &size)) return n < 2 ? 0 : n;
  int64_t pack = walks_along(p, x) ? t->access / (int64_t)loaded_bytes(p) : 1;
  int64_t even = pack > 1 ? packed_count(size, n, pack) : even_count(size, n, 1);
  return share_evenly(t, tn__patch_count(l, p), size, even, n);
}

/* So for products by tiles: blocks of whole steps, until every unit has as many tiles as it has room for, *most. */
/* a choice: either is right */
static int64_t count_tile_blocks(const tn__lowering *l, const tn_node *x, int64_t tiles, int64_t steps, int64_t beside,
                                 int64_t *most) {
  int64_t size, n = tn__variant_by(l->target->units * beside, l->variant->blocks) / tiles;
  *most = 0;
  if (!tn__const_int(x->src[0], &size)) return 0;
  if (n > size / (TN__TILE_TURNS * steps)) n = size / (TN__TILE_TURNS * steps);
  *most = n;
  while (n > 1 && size % (n * steps)) n--;
  return n > 1 ? n : 0;
}

/* Places of a block: as many in each, of whole packs if all are, or, of long ones on processors, whole turns of the
 * lanes; of shorter ones whole lines of memory, if there may be some more blocks, or fewer. */
static tn_node *rows_of_block(const tn__lowering *l, const tn_node *x, int64_t count, int64_t pack, bool fixed) {
  tn_ctx *c = l->c;
  int64_t size, turn = l->target->lane_bytes / (int64_t)sizeof(float), line = LINE / (int64_t)sizeof(float);
  if (!l->target->group && tn__const_int(x->src[0], &size)) {
    int64_t rows = (size + count - 1) / count;
    if (size / count >= WHOLE_VECTORS * turn)
      return tn__int(c, (rows + turn - 1) / turn * turn); /* a choice: either is right */
    if (size / count >= line && !fixed) return tn__int(c, (rows + line / 2) / line * line);
  }
  if (tn__const_int(x->src[0], &size) && size % pack == 0) {
    int64_t packs = size / pack;
    return tn__int(c, (packs + count - 1) / count * pack);
  }
  return tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, x->src[0], tn__int(c, count - 1)), tn__int(c, count)));
}

/* pack: elements that are loaded at once; block: the loop over the blocks, where there is one already */
static blocks cut_blocks(tn__lowering *l, tn_node *x, int64_t blocks_wanted, int64_t pack, tn_node *block) {
  tn_ctx *c = l->c;
  int64_t whole = 0;
  blocks b = {.x = x, .count = blocks_wanted};
  tn_node *size = x->src[0], *rows = rows_of_block(l, x, b.count, pack, block != NULL);
  bool known = tn__const_int(size, &whole) && tn__is_const(rows);
  if (known && !block && whole) b.count = (whole + rows->lo - 1) / rows->lo;
  tn_node *count = tn__int(c, b.count);
  b.block = block ? block : tn__fresh_range(l, count, AX_LOOP, ROLE_BLOCK);
  b.sum = tn__fresh_range(l, count, AX_REDUCE, ROLE_BLOCK_SUM);
  tn_node *first = tn__mul(c, b.block, rows), *left = rows;
  if (!known || whole != b.count * rows->lo) /* the last blocks may be short, or empty */
    left = tn__op2(c, OP_MIN, rows, tn__sub(c, size, first));
  if (!known || (b.count - 1) * rows->lo > whole) left = tn__op2(c, OP_MAX, left, tn__int(c, 0));
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
  tn_node *after = tn__behind(c, buf, store);
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

/* Sums of blocks of range x, of whole packs, and their sums.  What else runs over it does so block by block.  *block:
 * the loop over the blocks, from one call to the next; NULL: one of its own */
static tn_node *split_packs(tn__lowering *l, tn_node *body, tn_node *x, int64_t count, int64_t pack, tn_node **block) {
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  int64_t slot = 0;
  tn__ranges_find(c, a, body, &r);
  int at = tn__range_at(&r, x);
  tn__sb_printf(&l->note, " split(%lld)", tn__id_of(x));
  blocks b = cut_blocks(l, x, count, pack, block ? *block : NULL);
  if (block) *block = b.block;
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

static tn_node *split(tn__lowering *l, tn_node *body, tn_node *x, int64_t count, tn_node **block) {
  return split_packs(l, body, x, count, 1, block);
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

/* May these loops of one reduction, or of stores, be one?  Whatever ends some of them ends all, and no other loop's
 * length hangs on them. */
/* a choice: no is right */
static bool may_be_one(const tn__survey *p, uint64_t set) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t own = tn__own_of(&p->r, n) & set;
    if (own && own != set) return false;
    if (n->op == OP_RANGE && (tn__free_of(&p->r, n) & set) && !(set >> tn__range_at(&p->r, n) & 1)) return false;
  }
  return !tn__stands_between(&p->r, set);
}

/* Would blocks of the row as it is be of several lengths, so that nothing of them is loaded by wide accesses, as its
 * lines could be?  Or have its stores other loops than its reductions?  These may load what stands in memory as one,
 * and the stores what is the same along one of their loops. */
/* a choice: either is right */
static bool is_better_whole(const tn__lowering *l, const tn__survey *p, const long_row *row, int64_t count) {
  int64_t size = row->size->hi, pack = l->target->access / (int64_t)loaded_bytes(p);
  bool stores = p->outputs & ~row->rows, lines = fmod(row->elements / (double)size, (double)pack) == 0;
  return (stores && !whole_store(p, row)) || (size % count && lines);
}

/* The loops of each reduction of a row as one, and those of its stores: all are then cut into blocks as they lie. */
static tn_node *row_as_one(tn__lowering *l, tn_node *body, const tn__survey *p, const long_row *row) {
  uint64_t set[TN__MAX_RANGES] = {p->outputs & ~row->rows};
  tn_node *x[TN__MAX_RANGES], *one, *const *loops[TN__MAX_RANGES] = {x};
  uint32_t n = set[0] != 0, many[TN__MAX_RANGES] = {as_nested(p, set[0], x)}, most = many[0];
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    tn_node *r = p->r.order.v[i];
    uint64_t own = tn__own_of(&p->r, r);
    uint32_t k = 0;
    while (k < n && set[k] != own) k++;
    if (r->op != OP_REDUCE || k < n) continue;
    set[n] = own, loops[n] = r->src + 1, many[n] = r->nsrc - 1;
    if (many[n++] > most) most = r->nsrc - 1;
  }
  for (uint32_t k = 0; k < n; k++)
    if (tn__volume(p, set[k]) != row->elements || !may_be_one(p, set[k])) return body;
  if (most < 2) return body;
  tn__sb_puts(&l->note, " whole");
  for (uint32_t k = 0; k < n; k++)
    if (many[k] > 1) body = tn__as_one(l, body, loops[k], many[k], tn__axis_of(loops[k][0]), &one);
  return body;
}

/* Do rows lie side by side in something of which a row's elements lie apart?  A group of one row has a sector of it for
 * each of these, whatever else lies along the row. */
/* a choice: either is right */
static bool lie_side_by_side(const tn__survey *p, uint64_t rows) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n) || tn__buffer_of(n)->op != OP_PARAM || !(tn__free_of(&p->r, n->src[1]) & ~rows)) continue;
    bool beside = false, along = false;
    for (uint32_t k = 0; k < p->r.n; k++)
      if (tn__stride(&p->r, n->src[1], k) == 1) *(rows >> k & 1 ? &beside : &along) = true;
    if (beside && !along) return true;
  }
  return false;
}

/* How many blocks a row is cut into, for all units to have groups enough; 0: rows are enough, or too short.  Rows are
 * groups, but many that lie side by side are threads, if they are too long for groups to keep as many as fill a
 * sector, and nothing of them is stored.  If these are fewer than would give each unit a sector of them, as many as
 * fill one make a group, whose blocks are long enough to be joined in no more loads than they have themselves. */
/* a choice: either is right */
static int64_t count_row_blocks(const tn__lowering *l, const tn__survey *p, const long_row *row) {
  const tn__target *t = l->target;
  int usual = tn__usual_group(t);
  double groups = tn__volume(p, row->rows), most = row->elements / (usual * SHARE_OF_BLOCK),
         want = (double)tn__variant_by(GROUPS_OF_UNIT, l->variant->blocks) * t->units;
  int64_t n = 1;
  bool columns = tn__walks_outputs(p, row->rows) || lie_side_by_side(p, row->rows);
  bool kept = row->elements * t->sector <= (double)t->kept;
  double side_by_side = (double)t->sector / (double)loaded_bytes(p);
  if (columns && !kept && groups < side_by_side * t->units) {
    groups = ceil(groups / side_by_side), most = sqrt(row->elements);
  } else if (groups > (double)t->units) {
    groups /= usual, most = row->elements / MIN_BLOCK;
    bool alone = p->outputs == row->rows;
    if (kept || !alone || FEWER * groups > want || !columns) return 0;
  }
  while ((double)n * groups < want && (double)n * 2 <= most && n * 2 <= row->size->hi) n *= 2;
  return n > 1 ? even_count(row->size->hi, n, t->access / (int64_t)loaded_bytes(p)) : 0;
}

/* Stores of elements, block by block: the blocks are groups' as those of the reductions are.  block: as for split */
static tn_node *cut_store(tn__lowering *l, tn_node *body, tn_node *x, int64_t count, tn_node *block) {
  tn_ctx *c = l->c;
  blocks b = cut_blocks(l, x, block ? block->hi + 1 : count, 1, block);
  tn_node *inner = b.inner;
  /* inside the blocks' loop */
  if (inner->op == OP_RANGE) inner = tn__fresh_range(l, inner->src[0], AX_LOOP, tn__role_of(x));
  tn_node *place = tn__substitute(c, b.place, &b.inner, &inner, 1);
  tn__sb_printf(&l->note, " blocks(%lld)", tn__id_of(x));
  return tn__exchange_ranges(l, body, &x, &place, 1, (tn_node *[]){b.block, inner}, inner->op == OP_RANGE ? 2 : 1);
}

/* Does what closes x stand in the loop over blocks already?  It cannot do so twice. */
/* a choice: yes is right */
static bool is_in_blocks(const tn__survey *p, const tn_node *x, const tn_node *block) {
  int at = tn__range_at(&p->r, x), over = tn__range_at(&p->r, block);
  for (uint32_t i = 0; i < p->r.order.n && over >= 0; i++) {
    uint64_t own = tn__own_of(&p->r, p->r.order.v[i]), all = own | tn__free_of(&p->r, p->r.order.v[i]);
    if ((own >> at & 1) && (all >> over & 1)) return true;
  }
  return false;
}

static tn_node *cut_row(tn__lowering *l, tn_node *body) {
  tn__survey p;
  long_row row;
  tn_node *x;
  tn__survey_loops(l->c, l->a, body, &p);
  int64_t count = find_long_row(&p, &row) ? count_row_blocks(l, &p, &row) : 0;
  if (!count || (top_level(&p) < 2 && !whole_store(&p, &row))) return body;
  /* one loop over blocks for all levels: what a part stores of several of them stands in it */
  tn_node *names[TN__MAX_RANGES], *block = NULL, *whole = body;
  uint32_t n = 0;
  for (uint32_t k = 0; k < p.r.n; k++)
    if (row.rows >> k & 1) names[n++] = p.r.range[k];
  for (int level = 0; level < TN__OWN_PARTS; level++) {
    if (!(x = whole_reduction(&p, &row))) break;
    if (block && is_in_blocks(&p, x, block)) return whole;
    body = split(l, body, x, block ? block->hi + 1 : count, &block);
    tn__survey_loops(l->c, l->a, body, &p);
    row.rows = 0;
    for (uint32_t i = 0; i < n; i++) row.rows |= 1ull << tn__range_at(&p.r, names[i]);
  }
  return (x = whole_store(&p, &row)) ? cut_store(l, body, x, count, block) : body;
}

/* So, of its loops as one each, if they can be and that is better; NULL */
/* a choice: NULL is right */
static tn_node *cut_whole_row(tn__lowering *l, tn_node *body) {
  tn__survey p;
  long_row row;
  tn__lowering trial = *l;
  tn__sb_init(&trial.note, l->a);
  tn__survey_loops(l->c, l->a, body, &p);
  int64_t count = find_long_row(&p, &row) ? count_row_blocks(l, &p, &row) : 0;
  if (!count || !is_better_whole(l, &p, &row, count)) return NULL;
  tn_node *one = row_as_one(&trial, body, &p, &row), *cut = one == body ? one : cut_row(&trial, one);
  if (cut == one) return NULL;
  tn__sb note = l->note;
  tn__sb_puts(&note, tn__sb_str(&trial.note));
  *l = trial;
  l->note = note;
  return cut;
}

static tn_node *split_row(tn__lowering *l, tn_node *body) {
  tn_node *whole = cut_whole_row(l, body);
  return whole ? whole : cut_row(l, body);
}

/* ---- threads: blocks of whatever few outputs are made of, at every level ---- */

/* The mapping does not hang on how many threads there are: these are assumed. */
enum { THREADS = 16 };
/* What a row costs again that a thread would have had in its cache, were it not cut; and what is gain enough for
 * further parts */
static const double FROM_FAR = 2, GAIN = 1.25;

/* How many times as long do they take for so many equal shares as if all were busy throughout? */
/* a choice: either is right */
static double idle(double shares) { return ceil(shares / THREADS) * THREADS / shares; }

/* Reductions over a loop, which is the best of each; they hang on outputs only, so that each partial result has its
 * cell. */
typedef struct reduced {
  uint32_t at, level;
  uint64_t rows;       /* the outputs' loops that they stand in */
  double cells, bytes; /* how many these are, and what is loaded for each */
  double work;         /* elements, of all that is reduced so, and inside of it */
  bool alone;          /* all other reductions stand in its loop */
} reduced;

static uint64_t of_role(const tn__survey *p, tn__role role) {
  uint64_t set = 0;
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__role_of(p->r.range[k]) == role) set |= 1ull << k;
  return set;
}

/* Of the loops of a reduction the outermost is cut, unless it is short: then the longest. */
/* a choice: either is right */
static tn_node *loop_to_cut(const tn_node *reduce) {
  tn_node *best = reduce->src[1];
  for (uint32_t s = 2; s < reduce->nsrc && tn__extent(reduce->src[1]) < MIN_SPLIT; s++)
    if (tn__extent(reduce->src[s]) > tn__extent(best)) best = reduce->src[s];
  return best;
}

/* a choice: no is right */
static bool is_reduced(const tn__survey *p, uint32_t at, reduced *out) {
  uint64_t cells = p->outputs & ~of_role(p, ROLE_BLOCK), inside = 0, loops = 0;
  *out = (reduced){.at = at, .alone = true};
  if (of_role(p, ROLE_BLOCK_SUM) >> at & 1) return false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t own = tn__own_of(&p->r, n), free = tn__free_of(&p->r, n);
    if (n->op != OP_REDUCE) continue;
    if ((own >> at & 1) && !(tn__free_of(&p->r, n->src[0]) >> at & 1)) continue; /* split sets it apart */
    if (!(own >> at & 1)) {
      bool within = free >> at & 1;
      out->alone &= within;
      inside |= within ? own : 0;
      out->work += within ? tn__volume(p, free | own) : 0;
      continue;
    }
    if (loop_to_cut(n) != p->r.range[at] || (free & ~cells) || (loops && own != loops)) return false;
    inside |= loops = own;
    out->level = tn__level_of(&p->r, n);
    out->work += tn__volume(p, tn__free_of(&p->r, n->src[0]) | own);
    if (tn__volume(p, free) > out->cells) out->cells = tn__volume(p, free), out->rows = free;
  }
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_LOAD && (tn__free_of(&p->r, n) >> at & 1))
      out->bytes += tn__volume(p, tn__free_of(&p->r, n) & inside) * (double)tn__size_of(n->dtype);
  }
  return out->cells > 0;
}

/* Lanes of columns go down a strip of what they load, and again for each turn of an output's loop that it does not hang
 * on.  Of strips that a thread's cache does not hold each line would come from further away each time: blocks of as
 * many whole rows as it holds, if what they leave to be added up is no more than a few times what is loaded.  0: no
 * blocks */
/* a choice: either is right */
static int64_t count_strips(const tn__lowering *l, const tn__survey *p, const reduced *x) {
  double kept = (double)l->target->kept, rows = tn__extent(p->r.range[x->at]), most = 0;
  if (!x->alone || rows * l->target->lane_bytes <= kept || !tn__walks_outputs(p, x->rows)) return 0;
  for (uint32_t k = 0; k < p->r.n; k++)
    if (((x->rows | 1ull << x->at) >> k & 1) && !tn__is_const(p->r.range[k]->src[0])) return 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n), again = x->rows & ~free;
    double bytes = tn__volume(p, free) * (double)tn__size_of(n->dtype);
    if (n->op != OP_LOAD || !(free >> x->at & 1) || !(free & x->rows)) continue;
    if (tn__volume(p, again) >= MIN_AGAIN && bytes > most) most = bytes;
  }
  double count = ceil(most / kept), sums = count * x->cells * (double)sizeof(double);
  return count > 1 && rows >= count * MIN_STRIP && sums <= FEW_TIMES * most ? (int64_t)count : 0;
}

/* Into how many blocks it is cut; 0: it stays whole, since its outputs are shares enough, lanes of columns one.  Rows
 * that several levels go through, and that a thread's cache holds, are read again for each level if they are cut. */
/* a choice: either is right */
static int64_t count_shares(const tn__lowering *l, const tn__survey *p, const reduced *x) {
  double most = tn__extent(p->r.range[x->at]), shares = (double)tn__variant_by(TN__PARTIALS, l->variant->blocks);
  if (most < shares) shares = most;
  if (most < MIN_SPLIT || x->work < LEAST_SPLIT) return 0;
  bool columns = tn__walks_outputs(p, x->rows);
  if (x->alone)
    return x->cells > (columns ? MAX_SPLIT_CELLS : MAX_SPLIT_ROWS) ? 0 : (int64_t)shares;
  double beside = columns ? l->target->lane_bytes / (double)sizeof(float) : 1,
         whole = ceil(x->cells / beside), again = x->bytes * beside <= (double)l->target->kept ? FROM_FAR : 1;
  return idle(whole) >= GAIN * again * idle(whole * shares) ? (int64_t)shares : 0;
}

/* a choice: no is right */
static bool may_split(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_AFTER || n->op == OP_STOREADD) return false;
  }
  return p->reduces;
}

/* The loops of the lowest level that is to be split, and into how many blocks all of them are; strips: the outputs'
 * loops, if the blocks are of strips, which each stand around them; 0 */
static uint32_t find_level(const tn__lowering *l, const tn__survey *p, tn_node **x, int64_t *count, uint64_t *strips) {
  uint32_t n = 0, lowest = UINT32_MAX;
  *strips = 0;
  for (uint32_t at = 0; at < p->r.n; at++) {
    reduced it;
    if (!is_reduced(p, at, &it)) continue;
    int64_t shares = count_shares(l, p, &it), in_strips = shares ? 0 : count_strips(l, p, &it);
    if (in_strips) shares = in_strips;
    if (!shares || it.level > lowest) continue;
    *strips = in_strips ? it.rows : 0;
    if (it.level < lowest) n = 0, *count = 0;
    lowest = it.level;
    if (shares > *count) *count = shares;
    x[n++] = p->r.range[at];
  }
  return n;
}

/* The loop of elements that are stored beside what has been split, if it is one, and long, and stands in so few rows
 * that threads would idle; NULL.  Elements of columns are walked across these: threads share their loop as it is. */
/* a choice: no is right */
static tn_node *store_to_cut(const tn__survey *p) {
  double rows = tn__volume(p, p->common);
  tn_node *found = NULL;
  if (tn__walks_outputs(p, p->common)) return NULL;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (!((p->outputs & ~p->common) >> k & 1) || tn__role_of(p->r.range[k]) == ROLE_BLOCK) continue;
    if (found) return NULL;
    found = p->r.range[k];
  }
  bool gains = idle(rows) >= GAIN * idle(rows * TN__PARTIALS);
  return found && gains && tn__is_const(found->src[0]) && tn__extent(found) >= LEAST_SPLIT ? found : NULL;
}

/* The loops of outputs inside of that over the blocks, which threads share out. */
static tn_node *go_inside_blocks(tn__lowering *l, tn_node *body, uint64_t rows, const tn__survey *p) {
  tn_node *old[TN__MAX_RANGES], *new_[TN__MAX_RANGES];
  uint32_t n = as_nested(p, rows, old);
  for (uint32_t i = 0; i < n; i++)
    new_[i] = tn__fresh_range(l, old[i]->src[0], tn__axis_of(old[i]), tn__role_of(old[i]));
  return tn__substitute(l->c, body, old, new_, n);
}

static tn_node *split_levels(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  if (!may_split(&p) || tn__closed_work(&p) < TN__SPLIT_WORK) return body;
  tn_node *whole = body;
  for (int parts = 1; parts < TN__OWN_PARTS; parts++) {
    tn_node *x[TN__MAX_RANGES], *block = NULL;
    int64_t count = 0;
    uint64_t strips;
    uint32_t n = find_level(l, &p, x, &count, &strips);
    if (!n) break;
    for (uint32_t i = 0; i < n; i++) body = split(l, body, x[i], block ? block->hi + 1 : count, &block);
    if (strips) body = tn__retype(l->c, go_inside_blocks(l, body, strips, &p), block, AX_GLOBAL);
    tn__survey_loops(l->c, l->a, body, &p);
  }
  tn_node *store = body != whole ? store_to_cut(&p) : NULL;
  return store ? cut_store(l, body, store, tn__variant_by(TN__PARTIALS, l->variant->blocks), NULL) : body;
}

/* A product by tiles as sums of blocks.  Where too few blocks of whole steps make up its sum, as of an odd number of
 * places, the sum is made longer, by products that are 0, if the tiles stay what they are. */
static tn_node *split_product(tn__lowering *l, tn_node *body, tn_node *x, int64_t tiles, int64_t steps,
                              int64_t beside) {
  int64_t most, size, count = count_tile_blocks(l, x, tiles, steps, beside, &most);
  if (count * TOO_FEW <= most && most > 1 && tn__const_int(x->src[0], &size)) {
    tn__survey p;
    int64_t block = (size + most * steps - 1) / (most * steps) * steps, length = (size + block - 1) / block * block;
    tn_node *longer = tn__factors_lengthen(l, body, x, length);
    int64_t then, room;
    if (longer != body && tn__tile_count(l, longer, &then, &room) == tiles && then == steps && room == beside) {
      tn__survey_loops(l->c, l->a, longer, &p);
      int at = split_range(&p);
      int64_t more = at < 0 ? 0 : count_tile_blocks(l, p.r.range[at], tiles, steps, beside, &most);
      if (more > count) return split(l, longer, p.r.range[at], more, NULL);
    }
  }
  return count ? split(l, body, x, count, NULL) : body;
}

tn_node *tn__split_long(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  tn__survey p;
  if (c->mode == TN_MODE_STRICT) return body;
  if (!l->target->group) return split_levels(l, body);
  if (l->variant->windows) return body; /* they are short */
  tn_node *rows = split_row(l, body);
  if (rows != body) return rows;
  tn__survey_loops(c, l->a, body, &p);
  /* of what is less, a variant may still make blocks: where accesses are of single elements, say, a group takes long */
  double least = l->variant->blocks > 0 ? LEAST_SPLIT : TN__SPLIT_WORK;
  if (!p.reduces || tn__volume(&p, all_of(&p)) < least) return body; /* a choice: either is right */
  body = flatten_top(l, body);
  tn__survey_loops(c, l->a, body, &p);
  int at = split_range(&p);
  if (at < 0 || tn__extent(p.r.range[at]) < MIN_SPLIT) return body; /* a choice: either is right */
  int64_t steps, beside, tiles = tn__tile_count(l, body, &steps, &beside);
  if (tiles) return split_product(l, body, p.r.range[at], tiles, steps, beside);
  tn_node *x = p.r.range[at];
  if (!count_blocks(l, &p, x)) return body;
  body = rest_apart(l, body, &x);
  tn__survey_loops(c, l->a, body, &p);
  int64_t cut = count_blocks(l, &p, x);
  return cut ? split_packs(l, body, x, cut, pack_along(l, &p, x), NULL) : body;
}

/* Sums over rows that are gone through anyway: as many blocks as groups are there. */
tn_node *tn__split_rows(tn__lowering *l, tn_node *body, tn_node *rows) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  return split(l, body, rows, tn__row_groups(l->target, tn__extent(rows), tn__volume(&p, p.outputs)), NULL);
}
