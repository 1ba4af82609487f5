/* Operands that lie across what is reduced: the same graph, where they are copied to lie along it.
 *
 * Threads of a group that go along a row which lies across memory have one element of each sector that they ask for;
 * threads that go across rows have that of all that lies along them.  So where a reduction reads or stores both kinds,
 * one of them takes many times as long as its bytes.  A copy by tiles (lower/turn_groups.c) takes as long as twice
 * these, once for all kernels.  Whether that is less is said by what both plans are predicted to take (run/compile.c):
 * one with copies of all such operands, and one with none.
 *
 * On processors it is the lanes that fetch one element each.  There, where nothing is predicted, operands of long rows
 * are copied whose neighbours in memory are of other rows, if something as large is stored or read along rows.  (Norms
 * and softmax on two threads took 0.8 to 0.02 of the time from rows of 256 on, 0.4 to 2.4 up to 100; sums alone, whose
 * lanes go across, 2 to 10 times as long.) */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

enum {
  LEAST = 1 << 16, /* elements: fewer are in a cache when they are asked for again; */
  SHARE = 8,       /* of groups, as many as memory moves in so much of a launch */
  LONG_ROW = 256,  /* elements of a row on processors */
  SHORT_RUN = 16   /* that lie side by side: fewer than lanes, or than memory gives at once */
};

/* a choice: either is right */
static bool is_large(const tn__target *t, const tn_node *n) {
  double bytes = tn__numel_guess(n) * (double)tn__size_of(n->dtype);
  return t->group ? SHARE * bytes >= tn__target_launch_bytes(t) : tn__numel_guess(n) >= LEAST;
}

/* The next axis outside of the first k that is longer than 1; -1: there is none */
static int next_axis(const tn_node *x, int k) {
  while (--k >= 0 && tn__is_int_const(x->dim[k], 1)) {}
  return k;
}

/* Elements that lie side by side in memory and along the permuted axes */
/* a choice: any is right */
static double run_in_place(const tn_node *n) {
  int axis = next_axis(n, n->rank), from = next_axis(n->src[0], n->rank);
  double run = 1;
  for (; axis >= 0 && n->ints[axis] == from; axis = next_axis(n, axis), from = next_axis(n->src[0], from))
    run *= (double)tn__size_guess(n->dim[axis]);
  return run;
}

/* Is it a tensor that stands in memory, large, with its innermost axes elsewhere? */
/* a choice: no is right */
static bool lies_across(const tn__target *t, const tn_node *n) {
  if (n->op != OP_PERMUTE || !is_large(t, n) || run_in_place(n) >= SHORT_RUN) return false;
  const tn_node *from = n->src[0];
  while (from->op == OP_RESHAPE) from = from->src[0];
  return from->op == OP_PARAM;
}

/* What reductions are made of, element by element */
typedef struct below {
  tn__nodes found; /* of it, what lies across */
  bool other;      /* is anything else in memory as large as what is reduced? */
  tn__map seen;
} below;

static void look_below(tn_ctx *c, const tn__target *t, tn_node *root, bool moves, below *b) {
  tn__arena *a = &c->scratch;
  tn__nodes todo = {0};
  for (tn__vec_push(a, &todo, root); todo.n;) {
    tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&b->seen, n)) continue;
    tn__map_putp(&b->seen, n, n);
    if (lies_across(t, n)) tn__vec_push(a, &b->found, n);
    else if (n->op == OP_PARAM) b->other |= tn__numel_guess(n) >= tn__numel_guess(root);
    if (!tn__is_elementwise(n) && !(moves && tn__ops[n->op].group == G_MOVE)) continue;
    for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(a, &todo, n->src[s]);
  }
}

static bool is_reduced(const tn_node *reduction, int64_t axis) {
  for (uint32_t i = 0; i < reduction->nint; i++)
    if (reduction->ints[i] == axis) return true;
  return false;
}

/* Elements of the reduction's rows that lie side by side, of the permuted n, or of its axes in their own order */
/* a choice: any is right */
static double run_of(const tn_node *reduction, const tn_node *n, bool in_memory) {
  double run = 1;
  for (uint32_t k = n->rank; k && k--;) {
    uint32_t axis = k;
    for (uint32_t i = 0; i < n->rank && in_memory; i++)
      if (n->ints[i] == k) axis = i;
    if (!tn__is_int_const(n->dim[axis], 1) && !is_reduced(reduction, axis)) break;
    run *= (double)tn__size_guess(n->dim[axis]);
  }
  return run;
}

/* Is anything stored that is as large? */
/* a choice: either is right */
static bool is_stored_beside(const tn_node *sink, const tn_node *n) {
  for (uint32_t i = 0; i < sink->nsrc; i++)
    if (tn__numel_guess(sink->src[i]) >= tn__numel_guess(n)) return true;
  return false;
}

/* Those that lanes of processors would fetch one by one, each once */
static void find_long_rows(tn_ctx *c, const tn__target *t, const tn_node *sink, const tn_node *reduction,
                           tn__map *known, tn__nodes *out) {
  below b = {.other = false};
  tn__map_init(&b.seen, &c->scratch);
  look_below(c, t, reduction->src[0], false, &b);
  for (uint32_t i = 0; i < b.found.n; i++) {
    tn_node *n = b.found.v[i];
    bool across = run_of(reduction, n, true) < SHORT_RUN && run_of(reduction, n, false) >= LONG_ROW;
    if (!across || !(b.other || is_stored_beside(sink, n)) || tn__map_getp(known, n)) continue;
    tn__map_putp(known, n, n);
    tn__vec_push(&c->scratch, out, n);
  }
}

tn_node *tn__schedule_turned(tn_ctx *c, tn_node *sink, const tn__target *t, tn__nodes *copies) {
  tn__nodes order = {0};
  below b = {.other = false}; /* of all reductions; on processors each is looked at by itself */
  bool any = false;
  *copies = (tn__nodes){0};
  if (t->group && t->latency <= 0) return sink; /* nothing is predicted */
  tn__topo(&c->scratch, &sink, 1, &order);
  for (uint32_t i = 0; i < order.n && !any; i++) any = lies_across(t, order.v[i]);
  if (!any) return sink;
  tn__map_init(&b.seen, &c->scratch);
  for (uint32_t i = 0; i < order.n; i++) {
    const tn_node *n = order.v[i];
    if (tn__ops[n->op].group != G_REDUCE) continue;
    if (t->group) look_below(c, t, n->src[0], true, &b);
    else find_long_rows(c, t, sink, n, &b.seen, &b.found);
  }
  const tn__nodes *old = &b.found;
  for (uint32_t i = 0; i < old->n; i++) tn__vec_push(&c->scratch, copies, tn__op1(c, OP_CONTIG, old->v[i]));
  return old->n ? tn__substitute(c, sink, old->v, copies->v, old->n) : sink;
}
