/* What an element is made of: where several kernels want a value, and others that are made of the same, the one value
 * below all of them is stored for them, if it does not take longer to make them anew.
 *
 * Needs the estimates of fuse.c.  A value between n and memory through which all goes that n is made of, but for what
 * is small and repeated, stands for n: it alone is stored, and n is made of it wherever it is wanted. */
#include "schedule/fuse.h"

enum {
  MOST = 64, /* nodes that are looked at */
  SMALL = 8  /* times as many elements has n as what is repeated for it */
};

/* Is each of its elements made of one of each source's, wherever that stands? */
/* a choice: no is right */
static bool is_by_place(const tn_node *n) {
  return tn__is_elementwise(n) || n->op == OP_RESHAPE || n->op == OP_PERMUTE || n->op == OP_DETACH;
}

/* Is it next to nothing from memory?  So is what is gathered there: loaded by a number that is loaded. */
/* a choice: either is right */
static bool is_at_hand(tn__fuse *f, const tn_node *n) {
  if (n->op == OP_GATHER)
    return !tn__worth_storing(tn__info_of(f, n->src[0])) && !tn__worth_storing(tn__info_of(f, n->src[1]));
  return tn__is_elementwise(n) && !tn__worth_storing(tn__info_of(f, n));
}

/* Behind a slice, a pad or a flip, which are never stored: what stands in memory, or is next to nothing from there */
/* a choice: NULL is right */
static tn_node *behind(tn__fuse *f, tn_node *n) {
  while (n->op == OP_SHRINK || n->op == OP_PAD || n->op == OP_FLIP || n->op == OP_RESHAPE || n->op == OP_PERMUTE)
    n = n->src[0];
  return tn__is_there(tn__info_of(f, n)) || is_at_hand(f, n) ? n : NULL;
}

/* Is it repeated, or made of no data at all? */
/* a choice: either is right */
static bool is_small(tn__fuse *f, const tn_node *n, double elements) {
  const tn__info *in = tn__info_of(f, n);
  while (n->op == OP_EXPAND || n->op == OP_RESHAPE) n = n->src[0];
  return !in || !in->data || tn__numel_guess(n) * SMALL <= elements;
}

/* A sum of its own place, no wider than n: whatever several kernels make of it, it stands in memory then.  Of few
 * elements, which stay near, all that is made of them may as well stand there. */
/* a choice: no is right */
static bool is_sum_below(const tn__fuse *f, const tn_node *x, const tn_node *n) {
  double size = (double)tn__size_of(n->dtype);
  return tn__is_reduction(x) && (double)tn__size_of(x->dtype) <= size &&
         2 * tn__numel_guess(n) * size > (double)f->dev->target.far;
}

/* Is x made of y alone, rounded to a smaller type?  Then it takes less memory, if neither stands there, and nothing
 * more to make. */
/* a choice: either is right */
static bool is_rounded(const tn_node *x, const tn_node *y) {
  return x && x->op == OP_CAST && x->src[0] == y && tn__size_of(x->dtype) < tn__size_of(y->dtype);
}

/* a choice: either is right */
tn_node *tn__fuse_made_of(tn__fuse *f, tn_node *n, double most) {
  tn__numbers todo = {0};
  tn_node *found = NULL;
  double work = 0, elements = tn__numel_guess(n);
  uint32_t looked = 0;
  tn__map seen;
  tn__mark begin = tn__arena_mark(f->a);
  tn__map_init(&seen, f->a);
  tn__heap_push(f->a, &todo, (uint32_t)(tn__info_of(f, n) - f->info));
  while (todo.n && looked++ < MOST) {
    tn_node *x = f->order.v[tn__heap_pop(&todo)];
    bool memory = tn__is_there(tn__info_of(f, x)) || !is_by_place(x);
    tn_node *value = memory ? behind(f, x) : tn__is_elementwise(x) ? x : NULL;
    if (!value && is_sum_below(f, x, n)) value = x;
    bool taken = value && (tn__is_there(tn__info_of(f, value)) || !is_rounded(found, value));
    if (!todo.n && x != n && taken) found = value; /* all goes through it */
    if (memory) break;
    if (tn__is_elementwise(x)) work += tn__ops[x->op].cost;
    if (work > most) break;
    for (uint32_t s = 0; s < x->nsrc; s++) {
      tn_node *y = x->src[s];
      if (tn__map_getp(&seen, y) || is_small(f, y, elements)) continue;
      tn__map_putp(&seen, y, y);
      tn__heap_push(f->a, &todo, (uint32_t)(tn__info_of(f, y) - f->info));
    }
  }
  tn__arena_rewind(f->a, begin);
  return found;
}
