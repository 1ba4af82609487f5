#include "verify/axes.h"

/* ---- atoms ---- */

static uint32_t root(tn__axes *x, uint32_t a) {
  while (x->atom.v[a].same != a) a = x->atom.v[a].same = x->atom.v[x->atom.v[a].same].same;
  return a;
}

static uint32_t band_of(tn__axes *x, uint32_t a) {
  while (x->atom.v[a].band != a) a = x->atom.v[a].band = x->atom.v[x->atom.v[a].band].band;
  return a;
}

static uint32_t add_atom(tn__axes *x, int64_t size, tn_node *symbol) {
  uint32_t a = x->atom.n;
  tn__axes_atom new_ = {.size = size, .symbol = symbol, .same = a, .band = a, .least = size, .greatest = size};
  tn__vec_push(x->a, &x->atom, new_);
  return a;
}

static void join_bands(tn__axes *x, uint32_t a, uint32_t b) {
  tn__axes_atom *to = &x->atom.v[band_of(x, a)], *from = &x->atom.v[band_of(x, b)];
  if (to == from) return;
  from->band = to->band;
  to->fixed |= from->fixed;
  to->many |= from->many || from->least != to->least;
  if (from->least < to->least) to->least = from->least;
  if (from->greatest > to->greatest) to->greatest = from->greatest;
}

static bool is_number(const tn__axes *x, uint32_t a) { return !x->atom.v[a].symbol; }

/* The atoms of a list, each as the product that it is. */
static tn__axes_list flat(tn__axes *x, const tn__axes_list *list) {
  tn__axes_list out = {0}, todo = {0};
  for (uint32_t i = list->n; i && i--;) tn__vec_push(x->a, &todo, list->v[i]);
  while (todo.n) {
    uint32_t a = root(x, todo.v[--todo.n]);
    const tn__axes_atom *p = &x->atom.v[a];
    if (!p->n) tn__vec_push(x->a, &out, a);
    for (uint32_t i = p->n; i && i--;) tn__vec_push(x->a, &todo, x->product.v[p->first + i]);
  }
  return out;
}

static void fix(tn__axes *x, const tn__axes_list *list) {
  tn__axes_list all = flat(x, list);
  for (uint32_t i = 0; i < all.n; i++) x->atom.v[band_of(x, all.v[i])].fixed = true;
}

static void unite(tn__axes *x, uint32_t a, uint32_t b) {
  x->atom.v[b].same = a;
  join_bands(x, a, b);
}

/* a is the product of those from v[i] to v[end - 1]. */
static void split(tn__axes *x, uint32_t a, const tn__axes_list *list, uint32_t i, uint32_t end) {
  tn__axes_list part = {.v = list->v + i, .n = end - i};
  tn__axes_atom *band = &x->atom.v[band_of(x, a)];
  band->fixed |= band->many; /* it cannot follow a product and others, too */
  if (band->fixed) fix(x, &part);
  x->atom.v[a].first = x->product.n;
  x->atom.v[a].n = end - i;
  for (; i < end; i++) tn__vec_push(x->a, &x->product, list->v[i]);
}

/* How many atoms from v[i] on have the product `size`; 0: none have. */
static uint32_t factors(const tn__axes *x, const tn__axes_list *list, uint32_t i, int64_t size) {
  int64_t product = 1;
  for (uint32_t k = i; k < list->n && is_number(x, list->v[k]) && product < size; k++) {
    product *= x->atom.v[list->v[k]].size;
    if (product == size) return k + 1 - i;
  }
  return 0;
}

/* Two lists of one product, and what they then have in common. */
static void match(tn__axes *x, const tn__axes_list *left, const tn__axes_list *right) {
  tn__axes_list s = flat(x, left), t = flat(x, right);
  uint32_t i = 0, j = 0, n;
  while (i < s.n && j < t.n) {
    uint32_t a = root(x, s.v[i]), b = root(x, t.v[j]);
    int64_t size = x->atom.v[a].size, other = x->atom.v[b].size;
    if (a == b) i++, j++;
    else if (!is_number(x, a) || !is_number(x, b)) break;
    else if (size == other) unite(x, a, b), i++, j++;
    else if (size > other && (n = factors(x, &t, j, size))) split(x, a, &t, j, j + n), i++, j += n;
    else if (size < other && (n = factors(x, &s, i, other))) split(x, b, &s, i, i + n), i += n, j++;
    else break;
  }
  /* what is left has not been understood */
  if (i < s.n) fix(x, &(tn__axes_list){.v = s.v + i, .n = s.n - i});
  if (j < t.n) fix(x, &(tn__axes_list){.v = t.v + j, .n = t.n - j});
}

/* ---- axes ---- */

static tn__axes_list *axis_of(tn__axes *x, const tn_node *n, uint32_t axis) {
  uint64_t at = 0;
  tn__map_get(&x->first, (uintptr_t)n, &at);
  return &x->axis.v[at + axis];
}

/* A size that nothing is known of yet; of a product of symbolic sizes and a number, each is an atom. */
static tn__axes_list fresh(tn__axes *x, tn_node *dim) {
  tn__axes_list out = {0};
  tn__nodes todo = {0};
  tn__vec_push(x->a, &todo, dim);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    uint64_t known;
    int64_t v;
    if (tn__const_int(n, &v)) {
      if (v != 1) tn__vec_push(x->a, &out, add_atom(x, v, NULL));
    } else if (n->op == OP_MUL) {
      tn__vec_push(x->a, &todo, n->src[1]);
      tn__vec_push(x->a, &todo, n->src[0]);
    } else {
      if (!tn__map_get(&x->symbol, (uintptr_t)n, &known)) {
        known = add_atom(x, 0, n);
        tn__map_put(&x->symbol, (uintptr_t)n, known);
      }
      tn__vec_push(x->a, &out, (uint32_t)known);
    }
  }
  return out;
}

static tn__axes_list source(tn__axes *x, const tn_node *n, uint32_t s, uint32_t axis) {
  return *axis_of(x, n->src[s], axis);
}

/* `to` is `from` but for a fixed number. */
static void shift(tn__axes *x, const tn__axes_list *from, const tn__axes_list *to) {
  tn__axes_list s = flat(x, from), t = flat(x, to);
  if (s.n == 1 && t.n == 1 && is_number(x, s.v[0]) && is_number(x, t.v[0])) {
    join_bands(x, s.v[0], t.v[0]);
  } else {
    fix(x, &s);
    fix(x, &t);
  }
}

static void related(tn__axes *x, bool shifts, const tn__axes_list *from, const tn__axes_list *to) {
  if (shifts) {
    shift(x, from, to);
  } else {
    fix(x, from);
    fix(x, to);
  }
}

/* ---- ops: the axes of n, from those of its sources ---- */

static void of_elements(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) {
    out[a] = source(x, n, 0, a);
    for (uint32_t s = 1; s < n->nsrc; s++) {
      tn__axes_list other = source(x, n, s, a);
      match(x, &out[a], &other);
    }
  }
}

static void of_leaf(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) out[a] = fresh(x, n->dim[a]);
}

static void of_reduce(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0, r = 0, k = 0; a < n->src[0]->rank; a++) {
    if (r < n->nint && n->ints[r] == (int64_t)a) r++;
    else out[k++] = source(x, n, 0, a);
  }
}

/* Numbers from 0 on are as many as whoever arranges them wants. */
static void of_reshape(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  tn__axes_list from = {0}, to = {0};
  if (n->src[0]->op == OP_IOTA) {
    of_leaf(x, n, out);
    return;
  }
  for (uint32_t a = 0; a < n->src[0]->rank; a++) {
    tn__axes_list s = source(x, n, 0, a);
    for (uint32_t i = 0; i < s.n; i++) tn__vec_push(x->a, &from, s.v[i]);
  }
  for (uint32_t a = 0; a < n->rank; a++) {
    out[a] = fresh(x, n->dim[a]);
    for (uint32_t i = 0; i < out[a].n; i++) tn__vec_push(x->a, &to, out[a].v[i]);
  }
  match(x, &from, &to);
}

static void of_expand(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++)
    out[a] = n->src[0]->dim[a] == n->dim[a] ? source(x, n, 0, a) : fresh(x, n->dim[a]);
}

static void of_permute(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) out[a] = source(x, n, 0, (uint32_t)n->ints[a]);
}

static void of_same(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) out[a] = source(x, n, 0, a);
}

static void of_pad(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) {
    const tn_node *lo = n->src[1 + 2 * a], *hi = n->src[2 + 2 * a];
    out[a] = source(x, n, 0, a);
    if (tn__is_int_const(lo, 0) && tn__is_int_const(hi, 0)) continue;
    tn__axes_list from = out[a];
    out[a] = fresh(x, n->dim[a]);
    related(x, tn__is_const(lo) && tn__is_const(hi), &from, &out[a]);
  }
}

static void of_shrink(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  for (uint32_t a = 0; a < n->rank; a++) {
    const tn_node *begin = n->src[1 + a];
    out[a] = source(x, n, 0, a);
    if (n->dim[a] == n->src[0]->dim[a] && n->ints[a] == 1) continue;
    tn__axes_list from = out[a];
    out[a] = fresh(x, n->dim[a]);
    related(x, tn__is_const(begin) && n->ints[a] == 1, &from, &out[a]);
  }
}

/* {axis, size, stride, dilation} */
static void of_window(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  uint32_t axis = (uint32_t)n->ints[0];
  for (uint32_t a = 0; a < n->rank; a++)
    if (a != axis && a != axis + 1) out[a] = source(x, n, 0, a < axis ? a : a - 1);
  tn__axes_list from = source(x, n, 0, axis);
  out[axis] = fresh(x, n->dim[axis]);
  out[axis + 1] = fresh(x, n->dim[axis + 1]);
  fix(x, &out[axis + 1]);
  related(x, n->ints[2] == 1, &from, &out[axis]);
}

static void of_fold(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  uint32_t axis = (uint32_t)n->ints[0];
  for (uint32_t a = 0; a < n->rank; a++)
    if (a != axis) out[a] = source(x, n, 0, a < axis ? a : a + 1);
  tn__axes_list place = source(x, n, 0, axis), offset = source(x, n, 0, axis + 1);
  out[axis] = fresh(x, n->dim[axis]);
  fix(x, &offset);
  related(x, n->ints[2] == 1, &place, &out[axis]);
}

static void of_gather(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  uint32_t k = n->src[1]->rank;
  for (uint32_t a = 0; a < n->rank; a++) out[a] = a < k ? source(x, n, 1, a) : source(x, n, 0, a - k + 1);
}

static void of_scatter(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  uint32_t k = n->src[1]->rank;
  of_same(x, n, out);
  for (uint32_t a = 0; a < n->src[2]->rank; a++) {
    tn__axes_list update = source(x, n, 2, a), other = a < k ? source(x, n, 1, a) : out[a - k + 1];
    match(x, &update, &other);
  }
}

static void of_contract(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2], nk = (uint32_t)n->ints[3];
  for (uint32_t a = 0; a < nb + nk; a++) {
    tn__axes_list left = source(x, n, 0, a < nb ? a : a + nm), right = source(x, n, 1, a < nb ? a : a + nn);
    match(x, &left, &right);
  }
  for (uint32_t a = 0; a < n->rank; a++) out[a] = a < nb + nm ? source(x, n, 0, a) : source(x, n, 1, a - nm);
}

typedef void (*relate_fn)(tn__axes *, const tn_node *, tn__axes_list *);
static const relate_fn relate[OP_COUNT] = {
    [OP_PARAM] = of_leaf,     [OP_IOTA] = of_leaf,     [OP_SUM] = of_reduce,    [OP_PROD] = of_reduce,
    [OP_RMAX] = of_reduce,    [OP_RMIN] = of_reduce,   [OP_RESHAPE] = of_reshape, [OP_EXPAND] = of_expand,
    [OP_PERMUTE] = of_permute, [OP_PAD] = of_pad,      [OP_SHRINK] = of_shrink, [OP_FLIP] = of_same,
    [OP_WINDOW] = of_window,  [OP_FOLD] = of_fold,     [OP_GATHER] = of_gather, [OP_SCATTER] = of_scatter,
    [OP_CONTRACT] = of_contract, [OP_DETACH] = of_same, [OP_CONTIG] = of_same,  [OP_ASSIGN] = of_elements,
    [OP_EITHER] = of_elements,
};

/* Of an op that is not listed nothing is known: its sizes, and those of its sources, stay. */
static void of_unknown(tn__axes *x, const tn_node *n, tn__axes_list *out) {
  of_leaf(x, n, out);
  for (uint32_t a = 0; a < n->rank; a++) fix(x, &out[a]);
  for (uint32_t s = 0; s < n->nsrc && n->op != OP_SINK; s++)
    for (uint32_t a = 0; a < n->src[s]->rank; a++) fix(x, axis_of(x, n->src[s], a));
}

void tn__axes_find(tn_ctx *c, tn__arena *a, tn_node *graph, tn__axes *out) {
  *out = (tn__axes){.c = c, .a = a};
  tn__map_init(&out->first, a);
  tn__map_init(&out->symbol, a);
  tn__topo(a, &graph, 1, &out->order);
  for (uint32_t i = 0; i < out->order.n; i++) {
    const tn_node *n = out->order.v[i];
    tn__axes_list axis[TN_MAX_RANK] = {0};
    (tn__is_elementwise(n) ? of_elements : relate[n->op] ? relate[n->op] : of_unknown)(out, n, axis);
    tn__map_put(&out->first, (uintptr_t)n, out->axis.n);
    for (uint32_t k = 0; k < n->rank; k++) tn__vec_push(a, &out->axis, axis[k]);
  }
}

/* ---- bands ---- */

void tn__axes_bands(tn__axes *x, tn__axes_list *out) {
  *out = (tn__axes_list){0};
  for (uint32_t i = 0; i < x->atom.n; i++)
    if (band_of(x, i) == i && !x->atom.v[i].fixed && !x->atom.v[i].symbol && !x->atom.v[root(x, i)].n)
      tn__vec_push(x->a, out, i);
}

tn_node *tn__axes_size(tn__axes *x, const tn_node *n, uint32_t axis) {
  tn__axes_list all = flat(x, axis_of(x, n, axis));
  tn_node *size = tn__int(x->c, 1);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn__axes_atom *a = &x->atom.v[all.v[i]], *band = &x->atom.v[band_of(x, all.v[i])];
    size = tn__mul(x->c, size, a->symbol ? a->symbol : tn__int(x->c, a->size - band->less));
  }
  return size;
}
