/* Windows that overlap, for devices with work groups: what the windows of a thread's outputs have in common it loads
 * once, and keeps in registers.  Pooling and stencils load each element as often as there are windows that it is in,
 * and ask each time whether it is within the image.
 *
 * A thread has several outputs: neighbours in memory, as packs are (group.c), or turns of a loop that goes across
 * memory, so that threads side by side still load and store what lies side by side.  Their windows are lines of
 * elements, some of which are of two outputs or more.  What a reduction is made of, as far as it hangs on the place in
 * such lines alone, stands in registers before the reduction's innermost loops, loaded by packs where these begin at
 * multiples of their length; the reduction goes through registers.  Each output's terms keep their order.
 *
 * Needs a part shared out so that each thread computes outputs of its own.  Whether it pays, and of how many outputs,
 * is a variant (variants.c).  Steps noted:
 *   outputs(a,n)  n turns of loop a in each thread
 *   windows(n,p)  n elements are kept, and loaded p at once */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "rewrite/sum.h"

enum {
  MOST_HELD = 64,  /* elements that a thread keeps */
  MOST_TERMS = 128 /* of a window: longer ones are rows */
};

/* ---- which windows ---- */

/* The product of the loops' lengths where they are a window: short, of known length; 0 */
/* a choice: 0 is right */
static int64_t terms_of(const tn__ranges *r, const tn_node *n) {
  int64_t terms = 1, turns;
  for (uint32_t s = 1; n->op == OP_REDUCE && s < n->nsrc; s++) {
    uint32_t k = (uint32_t)tn__range_at(r, n->src[s]);
    if (tn__axis_of(n->src[s]) != AX_REDUCE || tn__bounds_loops(r, k) || !tn__const_int(n->src[s]->src[0], &turns) ||
        turns < 1 || turns > MOST_TERMS || terms * turns > MOST_TERMS)
      return 0;
    terms *= turns;
  }
  return n->op == OP_REDUCE ? terms : 0;
}

/* How many turns of a reduction's own loop move a place as far as one turn of an output's loop does, where windows then
 * overlap or follow each other; 0: they do not */
/* a choice: 0 is right */
static int64_t step_of(const tn__ranges *r, const tn_node *index, uint32_t output, uint32_t own) {
  int64_t a = tn__stride(r, index, output), b = tn__stride(r, index, own);
  bool fits = a != TN__IRREGULAR && b != TN__IRREGULAR && a && b && a % b == 0 && a / b > 0;
  return fits && a / b <= r->range[own]->hi + 1 ? a / b : 0;
}

/* The most outputs along a loop that a thread may have, if all threads are to have as many */
static int64_t share_of(const tn_node *range, int64_t most) {
  int64_t turns;
  if (!tn__const_int(range->src[0], &turns)) return 1;
  while (most > 1 && turns % most) most--;
  return most;
}

/* Does a store go along loop k, element by element?  Then threads do. */
/* a choice: either is right */
static bool is_stored_along(const tn__survey *s, uint32_t k) {
  for (uint32_t i = 0; i < s->r.order.n; i++)
    if (s->r.order.v[i]->op == OP_STORE && tn__stride(&s->r, s->r.order.v[i]->src[1], k) == 1) return true;
  return false;
}

/* The loop of outputs across memory along which most of a window is the next one's, too; -1 */
/* a choice: no is right */
static int find_outputs(const tn__survey *s, int64_t most) {
  double best = 1;
  int found = -1;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    uint64_t own = terms_of(&s->r, n) > 1 ? tn__own_of(&s->r, n) : 0;
    for (uint32_t m = 0; m < s->r.order.n && own; m++) {
      const tn_node *x = s->r.order.v[m];
      if (x->op != OP_LOAD || x->src[0]->op != OP_PARAM || !(tn__free_of(&s->r, x->src[1]) & own)) continue;
      for (uint32_t k = 0; k < s->r.n; k++) {
        if (!tn__is_even(s, k) || share_of(s->r.range[k], most) < 2 || is_stored_along(s, k)) continue;
        for (uint32_t w = 0; w < s->r.n; w++) {
          int64_t step = own >> w & 1 ? step_of(&s->r, x->src[1], k, w) : 0;
          double shared = step ? (double)(s->r.range[w]->hi + 1) / (double)step : 0;
          if (shared > best) best = shared, found = (int)k;
        }
      }
    }
  }
  return found;
}

/* a choice: no is right */
bool tn__has_windows(const tn__survey *s, const tn__variant *v) {
  bool any = false;
  if (s->common != s->outputs || s->running) return false;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_STOREADD || (n->op == OP_REDUCE && !terms_of(&s->r, n))) return false;
    any |= terms_of(&s->r, n) > 1;
  }
  return any && (v->windows == 1 || find_outputs(s, v->windows) >= 0);
}

tn_node *tn__windows_cut(tn__lowering *l, tn_node *body) {
  tn__survey s;
  tn__survey_loops(l->c, l->a, body, &s);
  int k = l->variant->windows > 1 && tn__has_windows(&s, l->variant) ? find_outputs(&s, l->variant->windows) : -1;
  if (k < 0) return body;
  tn_node *x = s.r.range[k], *cut[2];
  int64_t n = share_of(x, l->variant->windows);
  tn__sb_printf(&l->note, " outputs(%lld,%lld)", tn__id_of(x), (long long)n);
  return tn__simplify_accesses(l->c, l->a, tn__cut(l, body, x, n, AX_LOOP, AX_UNROLL, cut));
}

/* ---- what is kept ---- */

typedef struct window { /* of a value that a reduction is made of */
  tn__lowering *l;
  tn_ctx *c;
  const tn__ranges *r;
  int64_t group;                /* threads */
  tn_node *lane, *number;       /* the threads' loop, and that of a thread's outputs; NULL: it has one */
  tn_node *own[TN__MAX_RANGES]; /* the reduction's loops that are gone through in registers, outermost first, */
  int64_t size[TN__MAX_RANGES]; /* and how many elements there are along each */
  uint32_t n;
  int shift;                    /* the one of these along which the outputs' windows lie; -1 */
  int64_t step;                 /* ... so far apart */
  int64_t pack;                 /* elements that are loaded at once, along the last one */
} window;

static tn_node *first_load(tn__arena *a, tn_node *value) {
  tn__nodes all = {0};
  tn__topo(a, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD && all.v[i]->src[0]->op == OP_PARAM) return all.v[i];
  return NULL;
}

static bool hangs(const window *w, const tn_node *n, const tn_node *range) {
  return range && (tn__free_of(w->r, n) >> tn__range_at(w->r, range) & 1);
}

/* Along which of the reduction's loops outputs are neighbours; false: the value hangs on these in another way. */
/* a choice: no is right */
static bool find_shift(window *w, const tn_node *sum, tn_node *value, const tn_node **along) {
  const tn_node *load = first_load(w->l->a, value);
  double best = 0;
  *along = NULL;
  if (!load) return false;
  if (!hangs(w, value, w->number)) return true;
  for (uint32_t s = 1; s < sum->nsrc; s++) {
    uint32_t k = (uint32_t)tn__range_at(w->r, sum->src[s]);
    int64_t step = step_of(w->r, load->src[1], (uint32_t)tn__range_at(w->r, w->number), k);
    double shared = step ? (double)(sum->src[s]->hi + 1) / (double)step : 0;
    if (shared > best) best = shared, w->step = step, *along = sum->src[s];
  }
  return *along != NULL;
}

/* The innermost loops whose elements there are registers for */
/* a choice: no is right */
static bool find_loops(window *w, const tn_node *sum, tn_node *value) {
  const tn_node *along;
  int64_t all = 1;
  uint32_t from = sum->nsrc;
  w->shift = -1;
  if (!hangs(w, value, w->lane) || tn__level_of(w->r, value) || !find_shift(w, sum, value, &along)) return false;
  int64_t more = along ? w->step * w->number->hi : 0;
  for (; from > 1; from--) {
    const tn_node *x = sum->src[from - 1];
    int64_t size = x->hi + 1 + (x == along ? more : 0);
    if (all * size > MOST_HELD) break;
    all *= size;
  }
  for (w->n = 0; from < sum->nsrc; from++, w->n++) {
    tn_node *x = sum->src[from];
    if (x == along) w->shift = (int)w->n;
    w->own[w->n] = x;
    w->size[w->n] = x->hi + 1 + (x == along ? more : 0);
  }
  return w->n && (!along || w->shift >= 0);
}

/* Whole packs of the last loop's elements */
static int64_t line_of(const window *w) { return (w->size[w->n - 1] + w->pack - 1) / w->pack * w->pack; }

static int64_t slots_of(const window *w) {
  int64_t all = line_of(w);
  for (uint32_t i = 0; i + 1 < w->n; i++) all *= w->size[i];
  return all;
}

static tn_node *plain_sum(tn_ctx *c, tn_node *a, tn_node *b) { /* as it stands, not in its normal form */
  return tn__node_make(c, &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = (tn_node *[]){a, b}, .nsrc = 2});
}

/* The thread's element by its number: of the form that kernel.h asks for */
static tn_node *place_of(const window *w, tn_node *number, tn_node *lane) {
  tn_node *threads = tn__int(w->c, w->group);
  tn__make start = {.op = OP_MUL, .dtype = TN__INDEX, .src = (tn_node *[]){number, threads}, .nsrc = 2};
  return plain_sum(w->c, tn__node_make(w->c, &start), lane);
}

typedef struct fill { /* the loops in which lines are loaded: turns of packs, threads, elements of a pack; or NULL */
  tn_node *turn, *lane, *by;
} fill;

/* The value at the place in lines that a turn of the loops has, for a thread's first output: it is the same for the
 * others there. */
static tn_node *value_in(const window *w, tn_node *value, const fill *f) {
  tn_ctx *c = w->c;
  tn_node *gone[TN__MAX_RANGES + 1], *at[TN__MAX_RANGES + 1], *turn = f->turn ? f->turn : tn__int(c, 0);
  for (uint32_t i = w->n; i && i--;) {
    int64_t size = i + 1 == w->n ? line_of(w) / w->pack : w->size[i];
    tn_node *place = i ? tn__op2(c, OP_MOD, turn, tn__int(c, size)) : turn;
    turn = tn__op2(c, OP_IDIV, turn, tn__int(c, size));
    if (i + 1 == w->n) place = tn__add(c, tn__mul(c, place, tn__int(c, w->pack)), f->by ? f->by : tn__int(c, 0));
    if ((int)i == w->shift) place = tn__sub(c, place, tn__mul(c, w->number, tn__int(c, w->step)));
    gone[i] = w->own[i], at[i] = place;
  }
  gone[w->n] = w->lane, at[w->n] = f->lane;
  return tn__simplify_accesses(c, w->l->a, tn__substitute(c, value, gone, at, w->n + 1));
}

/* Indices as what is the same in all turns, and then a number for each, which compilers add to one address; of sums in
 * another order they keep an address for each turn (46 of pooling did not fit in registers). */
static tn_node *turns_last(const window *w, tn_node *value, const tn_node *turn) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(w->l->a, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn__sum sum, own = {0}, rest = {0};
    if (!tn__is_access(all.v[i]) || !tn__sum_read(all.v[i]->src[1], &sum)) continue;
    own.k0 = sum.k0;
    for (uint32_t k = 0; k < sum.n; k++) {
      tn__sum *to = tn__hangs_on(w->l->a, sum.term[k].t, turn) ? &own : &rest;
      to->term[to->n++] = sum.term[k];
    }
    if (!own.n || !rest.n) continue;
    tn_node *src[3] = {all.v[i]->src[0], plain_sum(w->c, tn__sum_write(w->c, &rest), tn__sum_write(w->c, &own))};
    if (all.v[i]->nsrc > 2) src[2] = all.v[i]->src[2];
    tn__vec_push(w->l->a, &old, all.v[i]);
    tn__vec_push(w->l->a, &new_, tn__node_with(w->c, all.v[i], src));
  }
  return tn__substitute(w->c, value, old.v, new_.v, old.n);
}

/* Is all that is loaded along a pack loaded as one, and is there memory for the last one, some of which may be of no
 * window? */
/* a choice: no is right */
static bool is_whole(const window *w, tn_node *value, tn_node *by) {
  tn__nodes all = {0};
  tn_node *zero = tn__int(w->c, 0);
  tn__topo(w->l->a, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i], *gate = tn__is_access(n) ? tn__gate_of(n) : NULL;
    if (!tn__is_access(n) || !tn__hangs_on(w->l->a, n, by)) continue;
    tn_node *base = tn__simplify_index(w->c, tn__substitute(w->c, n->src[1], &by, &zero, 1));
    bool along = tn__is_int_const(tn__simplify_index(w->c, tn__sub(w->c, tn__sub(w->c, n->src[1], base), by)), 0);
    if (!along || (gate && tn__hangs_on(w->l->a, gate, by)) || !tn__divisible(base, w->pack) ||
        !tn__divisible(n->src[0]->src[0], w->pack) ||
        w->pack * (int64_t)tn__size_of(n->dtype) > w->l->target->access)
      return false;
  }
  return true;
}

/* The value from registers, filled by packs of so many; NULL: they are not whole, or it hangs on the output in another
 * way. */
static tn_node *kept_by(window *w, tn_node *value, int64_t pack) {
  tn__lowering *l = w->l;
  tn_ctx *c = w->c;
  w->pack = pack;
  if (slots_of(w) > MOST_HELD) return NULL;
  int64_t turns = slots_of(w) / pack;
  fill f = {.lane = tn__fresh_range(l, w->lane->src[0], AX_UPCAST, ROLE_KEPT)};
  tn_node *own[3], *number = tn__int(c, 0);
  uint32_t n = 0;
  if (turns > 1) own[n++] = f.turn = tn__fresh_range(l, tn__int(c, turns), AX_REDUCE, ROLE_KEPT);
  own[n++] = f.lane;
  if (pack > 1) own[n++] = f.by = tn__fresh_range(l, tn__int(c, pack), AX_UNROLL, ROLE_KEPT);
  tn_node *loaded = value_in(w, value, &f);
  if ((w->number && tn__hangs_on(l->a, loaded, w->number)) || (f.by && !is_whole(w, loaded, f.by))) return NULL;
  if (f.turn && !f.by) loaded = turns_last(w, loaded, f.turn);
  if (f.turn) number = tn__mul(c, f.turn, tn__int(c, pack));
  if (f.by) number = tn__add(c, number, f.by);
  tn_node *room = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                               .dtype = value->dtype,
                                               .src = (tn_node *[]){tn__int(c, slots_of(w) * w->group)},
                                               .nsrc = 1,
                                               .ints = (int64_t[]){l->next_local++, w->group},
                                               .nint = 2,
                                               .device = -1});
  tn_node *filled = tn__filled(c, room, place_of(w, number, f.lane), loaded, own, n), *place = tn__int(c, 0);
  for (uint32_t i = 0; i < w->n; i++) {
    tn_node *at = w->own[i];
    if ((int)i == w->shift) at = tn__add(c, at, tn__mul(c, w->number, tn__int(c, w->step)));
    place = tn__add(c, tn__mul(c, place, tn__int(c, i + 1 == w->n ? line_of(w) : w->size[i])), at);
  }
  tn__sb_printf(&l->note, " windows(%lld,%lld)", (long long)slots_of(w), (long long)pack);
  tn_node *from[2] = {filled, place_of(w, place, w->lane)};
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = from, .nsrc = 2});
}

/* The value from registers by the fewest accesses; NULL: none are spared. */
/* a choice: NULL is right */
static tn_node *kept(window *w, const tn_node *sum, tn_node *value) {
  int64_t best = 0, fewest = INT64_MAX;
  const tn_node *load = first_load(w->l->a, value);
  if (!load || !find_loops(w, sum, value)) return NULL;
  bool shares = w->shift >= 0 && w->step <= w->own[w->shift]->hi;
  int64_t most = w->l->target->access / (int64_t)tn__size_of(load->dtype);
  for (w->pack = most > 1 ? most : 1; w->pack >= 1; w->pack /= 2)
    if (line_of(w) / w->pack <= fewest) best = w->pack, fewest = line_of(w) / w->pack;
  for (tn_node *x; best > !shares; best /= 2)
    if ((x = kept_by(w, value, best))) return x;
  return NULL;
}

/* The reduction with what it is made of from registers: factors by themselves, since they may be multiplied and added
 * in one step */
static tn_node *reduced(window *w, tn_node *sum) {
  tn_ctx *c = w->c;
  tn_node *src[TN__MAX_RANGES + 1], *value = sum->src[0], *x;
  bool factors = sum->ints[0] == OP_ADD && value->op == OP_MUL;
  for (uint32_t s = 0; s < sum->nsrc; s++) src[s] = sum->src[s];
  if (!factors) {
    if (!(x = kept(w, sum, value))) return sum;
    src[0] = x;
    return tn__node_with(c, sum, src);
  }
  tn_node *factor[2] = {value->src[0], value->src[1]};
  for (int i = 0; i < 2; i++)
    if ((i == 0 || value->src[1] != value->src[0]) && (x = kept(w, sum, value->src[i]))) factor[i] = x;
  if (value->src[1] == value->src[0]) factor[1] = factor[0];
  src[0] = tn__node_with(c, value, factor);
  return tn__node_with(c, sum, src);
}

/* a choice: either is right */
tn_node *tn__windows_hold(tn__lowering *l, tn_node *body, int group) {
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  tn__ranges_find(l->c, l->a, body, &r);
  window w = {.l = l, .c = l->c, .r = &r, .group = group};
  for (uint32_t k = 0; k < r.n; k++) {
    int axis = tn__axis_of(r.range[k]);
    if ((axis == AX_UPCAST && w.lane) || (axis == AX_UNROLL && w.number)) return body;
    if (axis == AX_UPCAST) w.lane = r.range[k];
    if (axis == AX_UNROLL) w.number = r.range[k];
  }
  for (uint32_t i = 0; i < r.order.n && w.lane; i++) {
    tn_node *n = r.order.v[i];
    if (terms_of(&r, n) < 2) continue;
    tn_node *x = reduced(&w, n);
    if (x == n) continue;
    tn__vec_push(l->a, &old, n);
    tn__vec_push(l->a, &new_, x);
  }
  return tn__substitute(l->c, body, old.v, new_.v, old.n);
}
