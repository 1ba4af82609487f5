/* Strips of columns, and of rows, for devices whose lanes are those of vectors and whose threads have caches.
 *
 *   strips(a,n)     n turns of loop a, of columns or rows, stand inside of all other loops of outputs: what these turns
 *                   go down, or along, stays in a thread's cache for all of them
 *
 * Columns that are reduced have lanes side by side, which go down what they load line by line.  What is the same for
 * all turns of another output's loop, as one operand of a gradient of distances is, is gone down again in each of
 * these.  Where all columns follow each other before that loop goes on, each line comes from further away every time,
 * and lies in another page than the one before it.  So the columns' loop is cut: strips of as many columns as a
 * thread's cache holds the lines of, which threads share out with all other loops.
 *
 * So are the rows of one of two operands of which sums have lanes along them, where all of them are more than that
 * cache holds: those of the operand that has fewer.  If it holds all of these, their loop just stands inside of the
 * other's.  Each element is computed as it would be without. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  MIN_AGAIN = 4,   /* turns in which a strip is gone down, for it to be worth a loop */
  MOST_TURNS = 64, /* of a strip, which then goes along memory for long enough, */
  MOST_ROWS = 256  /* and of rows, for which little else is done */
};

typedef struct strips {
  tn__survey p;
  uint32_t lane, column; /* the loop over lanes, and the one around it */
  int64_t turns;         /* of a strip */
} strips;

/* Do accesses of lanes go on in the next turn of range k where they end in this one? */
/* a choice: no is right */
static bool goes_on(const tn__survey *p, uint32_t lane, uint32_t k) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n) || n->src[0]->op != OP_PARAM || !(tn__free_of(&p->r, n) >> lane & 1)) continue;
    int64_t step = tn__stride(&p->r, n->src[1], lane), turn = tn__stride(&p->r, n->src[1], k);
    if (step == TN__IRREGULAR || turn != step * (p->r.range[lane]->hi + 1)) return false;
  }
  return true;
}

/* The outputs' loop that the lanes were cut from: their number hangs on it, or is the same in all turns; -1 */
/* a choice: no is right */
static int loop_of_lanes(const tn__survey *p, uint32_t lane) {
  for (uint32_t k = 0; k < p->r.n; k++) {
    const tn_node *x = p->r.range[k];
    if (!(p->common >> k & 1) || tn__axis_of(x) != AX_LOOP || !tn__is_const(x->src[0])) continue;
    if ((tn__free_of(&p->r, p->r.range[lane]) >> k & 1) || goes_on(p, lane, k)) return (int)k;
  }
  return -1;
}

/* Stores of elements alone, in all loops of outputs, none of which has been shared out or hangs on another */
/* a choice: no is right */
static bool find_columns(strips *s, const tn_node *part) {
  const tn__survey *p = &s->p;
  s->lane = p->r.n;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (tn__axis_of(p->r.range[k]) == AX_GLOBAL || tn__axis_of(p->r.range[k]) == AX_ORDER) return false;
    bool has = tn__axis_of(p->r.range[k]) == AX_UPCAST;
    for (uint32_t i = 0; i < part->nsrc && has; i++) has = tn__own_of(&p->r, part->src[i]) >> k & 1;
    if (has && s->lane < p->r.n) return false;
    if (has) s->lane = k;
  }
  if (s->lane == p->r.n || !p->reduces || p->running || p->outputs != p->common) return false;
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (part->src[i]->op != OP_STORE) return false;
  int column = loop_of_lanes(p, s->lane);
  for (uint32_t k = 0; k < p->r.n; k++) {
    const tn_node *x = p->r.range[k];
    if (!(p->common >> k & 1)) continue;
    if (!tn__is_const(x->src[0]) || ((int)k != column && tn__bounds_loops(&p->r, k))) return false;
  }
  s->column = (uint32_t)column;
  return column >= 0;
}

/* Turns of a strip whose lines a thread's cache holds, of what is gone down again; 0: all turns' are held, or not even
 * one's */
/* a choice: any is right */
static int64_t count_turns(const tn__lowering *l, const strips *s) {
  const tn__survey *p = &s->p;
  double all = 0, one = 0, turns = tn__extent(p->r.range[s->column]), kept = (double)l->target->kept;
  uint64_t columns = 1ull << s->column | 1ull << s->lane;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n), down = free & ~p->common & ~columns;
    bool goes_down = n->op == OP_LOAD && n->src[0]->op == OP_PARAM && (free & columns) == columns && down;
    if (!goes_down || tn__volume(p, p->common & ~free) < MIN_AGAIN) continue;
    double line = tn__volume(p, down) * (tn__extent(p->r.range[s->lane]) * (double)tn__size_of(n->dtype));
    one += line, all += line * turns;
  }
  if (all <= kept || one > kept) return 0;
  double fit = kept / one;
  return fit < MOST_TURNS ? (int64_t)fit : MOST_TURNS;
}

/* The outputs' loops but for `column`, and for the one over blocks of loop y, if any, after these: they nest in the
 * order of their ids. */
static tn_node *go_inside(tn__lowering *l, tn_node *part, const tn_node *column, const tn_node *y) {
  tn_node *old[TN__MAX_RANGES], *new_[TN__MAX_RANGES];
  uint32_t n = 0;
  tn__survey p;
  tn__survey_loops(l->c, l->a, part, &p);
  for (uint32_t k = 0; k < p.r.n; k++) {
    tn_node *x = p.r.range[k];
    bool block = y && x != y && tn__id_of(x) == tn__id_of(y);
    if (!(p.common >> k & 1) || x == column || block) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(old[at - 1]) > tn__id_of(x); at--) old[at] = old[at - 1];
    old[at] = x;
  }
  for (uint32_t i = 0; i < n; i++)
    new_[i] = tn__fresh_range(l, old[i]->src[0], tn__axis_of(old[i]), tn__role_of(old[i]));
  return tn__substitute(l->c, part, old, new_, n);
}

/* Bytes that all turns of loop k of outputs load, if the others do so again; 0: nothing hangs on it */
/* a choice: either is right */
static double bytes_again(const tn__survey *p, uint32_t k) {
  double bytes = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n), along = free & ~p->common;
    if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM || !(free >> k & 1) || !along) continue;
    if (tn__volume(p, p->common & ~free) >= MIN_AGAIN)
      bytes += tn__volume(p, along | 1ull << k) * (double)tn__size_of(n->dtype);
  }
  return bytes;
}

/* Stores in all loops of outputs, whose lengths are known */
/* a choice: no is right */
static bool find_rows(const tn__survey *p, const tn_node *part) {
  if (!p->reduces || p->running || p->outputs != p->common) return false;
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (part->src[i]->op != OP_STORE) return false;
  for (uint32_t k = 0; k < p->r.n; k++) {
    int axis = tn__axis_of(p->r.range[k]);
    if (axis == AX_GLOBAL || axis == AX_ORDER) return false;
    if ((p->common >> k & 1) && (axis != AX_LOOP || !tn__is_const(p->r.range[k]->src[0]))) return false;
  }
  return true;
}

/* Rows of the operand that has more, where no cache holds them: blocks that the last one does, around all strips, by a
 * number that divides them, or of which there are shares enough */
static tn_node *block_rows(tn__lowering *l, tn_node *part, tn_node *y, double bytes, double count) {
  tn_node *cut[2];
  double all = tn__extent(y), blocks = ceil(2 * bytes / (double)l->target->far);
  if (bytes <= (double)l->target->far || blocks >= all) return part;
  int64_t by = (int64_t)ceil(all / blocks);
  if ((int64_t)all % by && blocks * count < TN__PARTIALS) return part;
  tn__sb_printf(&l->note, " strips(%lld,%lld)", tn__id_of(y), (long long)by);
  return tn__cut(l, part, y, by, AX_LOOP, AX_LOOP, cut);
}

tn_node *tn__strips_of_rows(tn__lowering *l, tn_node *part) {
  tn__survey p;
  uint32_t few = 0, many = 0; /* the loops of the operands that have fewer bytes, and more */
  double least = 0, most = 0, kept = (double)l->target->kept;
  tn__survey_loops(l->c, l->a, part, &p);
  if (!find_rows(&p, part)) return part;
  for (uint32_t k = 0; k < p.r.n; k++) {
    double bytes = p.common >> k & 1 ? bytes_again(&p, k) : 0;
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes, few = k;
    if (bytes > 0 && bytes >= most) most = bytes, many = k;
  }
  tn_node *x = p.r.range[few], *y = p.r.range[many], *inner = tn__fresh_range(l, x->src[0], AX_LOOP, tn__role_of(x));
  double all = tn__extent(x), fit = floor(kept * all / least), count = ceil(all / fmin(fit, MOST_ROWS));
  if (most <= kept || few == many || fit < 1) return part;
  if (least <= kept) return tn__share_out(l, tn__substitute(l->c, part, &x, &inner, 1), inner);
  int64_t turns = (int64_t)ceil(all / count);
  tn_node *whole = part, *cut[2];
  part = block_rows(l, part, y, most, count);
  tn__sb_printf(&l->note, " strips(%lld,%lld)", tn__id_of(x), (long long)turns);
  if (part != whole) { /* strips stand inside of blocks */
    part = tn__substitute(l->c, part, &x, &inner, 1);
    x = inner;
  }
  part = tn__cut(l, go_inside(l, part, x, y), x, turns, AX_LOOP, AX_LOOP, cut);
  return tn__share_out(l, tn__simplify_accesses(l->c, l->a, part), cut[1]);
}

tn_node *tn__strips(tn__lowering *l, tn_node *part) {
  strips s = {0};
  tn_node *cut[2];
  tn__survey_loops(l->c, l->a, part, &s.p);
  if (!find_columns(&s, part)) return part;
  s.turns = count_turns(l, &s);
  tn_node *x = s.p.r.range[s.column];
  if (!s.turns || (double)s.turns >= tn__extent(x)) return part;
  tn__sb_printf(&l->note, " strips(%lld,%lld)", tn__id_of(x), (long long)s.turns);
  part = tn__cut(l, go_inside(l, part, x, NULL), x, s.turns, AX_LOOP, AX_LOOP, cut);
  return tn__share_out(l, tn__simplify_accesses(l->c, l->a, part), cut[1]);
}
