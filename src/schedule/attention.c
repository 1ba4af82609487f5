/* Softmax between two contractions: are its scores stored, or do both contractions become loops that keep a row? */
#include "schedule/fuse.h"

enum {
  SCORE_BUFFERS = 2, /* the scores, and their softmax */
  SCORE_STEP = 256,  /* multiply-adds in the time of one by loops of a thread (80 to 530 were measured) */
  SCORE_LAUNCHES = 3 /* launches more where scores are stored */
};

/* What stored scores may take of a device's memory, and how much that is where the device does not say: loops that
 * work them out again and again take hundreds of times as long. */
static const double MOST_OF_MEMORY = 0.25, USUAL_MEMORY = 16e9;

typedef struct place { /* a node on the way down, and which of its axes is the contraction's */
  tn_node *n;
  int64_t axis;
  bool reduced; /* the axis has size 1 here: a statistic of the row */
} place;

typedef tn__vec(place) places;

static void go(tn__fuse *f, places *todo, tn_node *n, int64_t axis, bool reduced) {
  place p = {n, axis, reduced};
  tn__vec_push(f->a, todo, p);
}

/* Follows the row below operand x of a contraction down to the contraction that makes it.  Counts the reductions over
 * the row; NULL if there is anything else on the way that looks across rows. */
/* a choice: no is right */
static tn_node *score(tn__fuse *f, tn_node *x, int *reductions) {
  places todo = {0};
  tn__map seen;
  tn__map_init(&seen, f->a);
  tn_node *found = NULL;
  go(f, &todo, x, x->rank - 1, false);
  while (todo.n) {
    place p = todo.v[--todo.n];
    tn_node *n = p.n;
    if (tn__map_get(&seen, (uint64_t)(uintptr_t)n, NULL)) continue;
    tn__map_putp(&seen, n, n);
    if (seen.n > 64 || tn__info_of(f, n)->must) return NULL;
    bool counts = n->op == OP_RESHAPE && n->src[0]->op == OP_IOTA;
    if (n->op == OP_PARAM || n->op == OP_CONST || n->op == OP_IOTA || counts) continue; /* masks, biases */
    if (n->op == OP_CONTRACT && !p.reduced) {
      if ((found && found != n) || p.axis < n->ints[0]) return NULL;
      found = n;
    } else if (n->op == OP_EXPAND) {
      go(f, &todo, n->src[0], p.axis, p.reduced || n->src[0]->dim[p.axis] != n->dim[p.axis]);
    } else if (n->op == OP_PAD || n->op == OP_SHRINK) { /* rows that a library wants aligned (align.c) */
      go(f, &todo, n->src[0], p.axis, p.reduced);
    } else if (n->op == OP_PERMUTE) {
      go(f, &todo, n->src[0], n->ints[p.axis], p.reduced);
    } else if (n->op == OP_RESHAPE && p.reduced && n->src[0]->rank + 1u == n->rank &&
               tn__ops[n->src[0]->op].group == G_REDUCE) {
      tn_node *r = n->src[0];
      if (r->nint != 1 || r->ints[0] != p.axis) return NULL;
      ++*reductions;
      go(f, &todo, r->src[0], p.axis, false);
    } else if (n->op == OP_RESHAPE && p.reduced && n->src[0]->op == OP_CONST) {
      continue;
    } else if (tn__is_elementwise(n) || n->op == OP_DETACH) {
      for (uint32_t i = 0; i < n->nsrc; i++)
        if (n->src[i]->rank == n->rank) go(f, &todo, n->src[i], p.axis, p.reduced);
    } else if (n->op != OP_RESHAPE || n->src[0]->op != OP_CONST) {
      return NULL;
    }
  }
  return found;
}

/* In loops threads would work out each score s again for each of the passes over its row, which takes many times as
 * long as storing it, of any number of rows and terms; but for what memory may not hold, and so few that launches cost
 * more on a device of groups. */
/* a choice: either is right */
static bool stores_scores(const tn__target *t, const tn_node *s, int reductions) {
  double scores = tn__numel_guess(s), again = scores * tn__terms_of(s) * (reductions + 1);
  double bytes = SCORE_BUFFERS * scores * (double)tn__size_of(s->dtype);
  for (uint32_t i = 0; i < s->rank; i++)
    if (s->dim[i]->hi > INT32_MAX) return false; /* nobody knows how many there will be */
  if (t->interprets || bytes > MOST_OF_MEMORY * (t->memory > 0 ? t->memory : USUAL_MEMORY)) return false;
  return !t->group || again * SCORE_STEP > SCORE_LAUNCHES * tn__target_launch_guess(t);
}

/* a choice: no is right */
bool tn__fuse_attention(tn__fuse *f, tn_node *n) {
  int reductions = 0;
  if (!tn__is_float(n->dtype) || n->ints[3] != 1) return false;
  tn_node *s = score(f, n->src[0], &reductions);
  if (!s || reductions < 2 || stores_scores(&f->dev->target, s, reductions)) return false;
  tn__info_of(f, n)->inline_dot = tn__info_of(f, s)->inline_dot = true;
  return true;
}
