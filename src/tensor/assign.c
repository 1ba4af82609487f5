/* Assignment: rebinding a cell to ASSIGN over its storage. */
#include "tensor/cells.h"
#include "tensor/operands.h"

/* The storage whose memory the cell's value stands in, or is about to be written to; NULL: it is computed. */
static tn_node *own_storage(const tn_tensor *t) {
  tn_node *n = t->node->op == OP_ASSIGN ? t->node->src[0] : t->node;
  return n->op == OP_STORAGE ? n : NULL;
}

static tn_node *storage_of(tn_ctx *c, const tn_tensor *t) {
  tn_node *n = own_storage(t);
  if (!n)
    tn__fail(c, TN_ESTATE,
             "the destination %s is neither realised nor a slice of a realised tensor: tn_realize it first",
             tn__text(c, t->node));
  return n;
}

/* x of the shape of a shrink's result, placed as it was cut from n elements per axis; zero elsewhere. */
static tn_node *unshrink(tn_ctx *c, const tn_node *cut, tn_node *x) {
  const tn_node *from = cut->src[0];
  uint32_t rank = from->rank;
  for (uint32_t i = 0; i < rank; i++) {
    tn_node *begin = cut->src[1 + i], *n = from->dim[i], *len = x->dim[i];
    int64_t step = cut->nint ? cut->ints[i] : 1;
    tn_node *lohi[2 * TN_MAX_RANK], *zero = tn__int(c, 0);
    if (step > 1) { /* spread apart: [.., m, 1, ..] padded to [.., m, step, ..] */
      x = tn__add_axis(c, x, i + 1);
      for (uint32_t a = 0; a < 2u * x->rank; a++) lohi[a] = a == 2 * i + 3 ? tn__int(c, step - 1) : zero;
      x = tn__merge_axes(c, tn__pad(c, x, lohi), i, 2);
      len = x->dim[i];
    }
    /* The last step may reach beyond the end: pad enough, then cut to n. */
    for (uint32_t a = 0; a < 2 * rank; a++) lohi[a] = a == 2 * i ? begin : a == 2 * i + 1 ? n : zero;
    tn_node *tail = tn__sub(c, n, tn__add(c, begin, len));
    int64_t known;
    bool fits = tn__const_int(tail, &known) && known >= 0;
    if (fits) lohi[2 * i + 1] = tail;
    x = tn__pad(c, x, lohi);
    if (fits) continue;
    tn__dims b = tn__dims_of(x), s = b;
    for (uint32_t a = 0; a < rank; a++) b.d[a] = zero;
    s.d[i] = n;
    x = tn__shrink(c, x, b.d, s.d, NULL);
  }
  return x;
}

static tn_node *unpermute(tn_ctx *c, const tn_node *move, tn_node *x) {
  int64_t inverse[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) inverse[move->ints[i]] = i;
  return tn__permute(c, x, inverse);
}

/* x, of the shape of a view, at its place in the base's shape; zero elsewhere.  Goes down the view to the PARAM that
 * stands for the base. */
static tn_node *place_in_base(tn_ctx *c, const tn_node *view, tn_node *x) {
  for (; view->op != OP_PARAM; view = view->src[0]) {
    const tn_node *from = view->src[0];
    switch (view->op) {
    case OP_RESHAPE: x = tn__reshape(c, x, from->dim, from->rank); break;
    case OP_PERMUTE: x = unpermute(c, view, x); break;
    case OP_FLIP: x = tn__flip(c, x, view->ints, view->nint); break;
    case OP_SHRINK: x = unshrink(c, view, x); break;
    default: tn__fail(c, TN_ESTATE, "the destination is not a slice that can be written");
    }
  }
  return x;
}

static tn_node *assign(tn_ctx *c, tn__call *k) {
  tn_tensor *dst = k->in[0], *base = dst->base ? dst->base : dst;
  tn_node *v = k->x[1];
  if (v->dtype != dst->node->dtype)
    tn__fail(c, TN_EDTYPE, "%s is assigned to %s: convert it with tn_cast", tn__text(c, v), tn__text(c, dst->node));
  tn__dims shape = tn__dims_of(dst->node);
  v = tn__spread(c, v, &shape);
  tn_node *store = storage_of(c, base), *value = v;
  if (dst->base) {
    tn_node *mask = tn__scalar_to(c, tn__const_bits(c, TN_BOOL, 1), v->dim, v->rank);
    mask = place_in_base(c, dst->view, mask);
    value = tn__where(c, mask, place_in_base(c, dst->view, v), base->node);
  }
  tn_node *now = tn__op2(c, OP_ASSIGN, store, value);
  tn_node *view = dst->base ? tn__cell_view(c, dst, now) : now, *own;
  /* a view that was realised has memory of its own, which a program reads: it becomes a state, too */
  if (dst->base && (own = own_storage(dst)) && own != store) view = tn__op2(c, OP_ASSIGN, own, view);
  c->cells->assigned = true;
  tn__cell_set(base, now);
  tn__cell_set(dst, view);
  return NULL;
}

tn_status tn_assign(tn_tensor *dst, tn_tensor *v) {
  return tn__do(&(tn__call){.name = "tn_assign", .fn = assign, .in = (tn_tensor *[]){dst, v}, .nin = 2});
}
