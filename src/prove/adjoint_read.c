#include "prove/adjoint_read.h"
#include <string.h>

#include "grad/adjoint.h"
#include "schedule/fuse.h"

static tn_node *summed(tn_ctx *c, tn__reading *r, tn_node *extent) {
  r->extent[r->sums] = extent;
  r->sum[r->sums] = tn__range(c, extent, AX_LOOP, ROLE_OUTPUT, TN__OF_SUM + r->sums);
  return r->sum[r->sums++];
}

static tn_node *through_sum(tn_ctx *c, tn__reading *r, tn_node *n) {
  tn_node *at[TN_MAX_RANK], *x = n->src[0];
  for (uint32_t i = 0, kept = 0, axis = 0; i < x->rank; i++) {
    bool dropped = axis < n->nint && n->ints[axis] == (int64_t)i;
    at[i] = dropped ? summed(c, r, x->dim[i]) : r->place[kept++];
    axis += dropped;
  }
  memcpy(r->place, at, x->rank * sizeof *at);
  return x;
}

static tn_node *step(tn_ctx *c, tn_node *n, tn_node **place, tn_node **gate) {
  tn_node *at[TN_MAX_RANK];
  tn__index_through(c, n, place, at, gate);
  memcpy(place, at, n->src[0]->rank * sizeof *at);
  return n->src[0];
}

/* A sum over all offsets, whatever a kernel walks */
static tn_node *through_fold(tn_ctx *c, tn__reading *r, tn_node *n) {
  tn_node *at[TN_MAX_RANK + 1], *offset = summed(c, r, tn__int(c, n->ints[1]));
  tn__fold_through(c, n, (tn__walk){.by = 1, .turns = n->ints[1]}, r->place, offset, at, &r->gate);
  memcpy(r->place, at, n->src[0]->rank * sizeof *at);
  return n->src[0];
}

tn_node *tn__adjoint_follow(tn_ctx *c, tn_node *n, tn_node **place, tn_node **gate) {
  while (tn__ops[n->op].group == G_MOVE && n->op != OP_FOLD) n = step(c, n, place, gate);
  return n;
}

tn__reading tn__adjoint_read(tn_ctx *c, tn_node *root, const tn_node *leaf) {
  tn__reading r = {.rank = root->rank};
  for (uint32_t i = 0; i < root->rank; i++) {
    r.dim[i] = root->dim[i];
    r.range[i] = tn__range(c, root->dim[i], AX_LOOP, ROLE_OUTPUT, i);
    r.place[i] = tn__is_int_const(root->dim[i], 1) ? tn__int(c, 0) : r.range[i]; /* which has no other value */
  }
  tn_node *n = tn__adjoint_follow(c, root, r.place, &r.gate);
  while (n != leaf) {
    if (n->op == OP_SUM) n = through_sum(c, &r, n);
    else if (n->op == OP_FOLD) {
      n = through_fold(c, &r, n);
    } else tn__fail(c, TN_EGRAD, "adjoint: %s is no movement", tn__ops[n->op].text);
    n = tn__adjoint_follow(c, n, r.place, &r.gate);
  }
  r.places = leaf->rank;
  return r;
}

tn__readings tn__adjoint_readings(tn_ctx *c, tn_node *out, const tn_node *x) {
  tn_node *dy = tn__param(c, TN_F64, 1, -1, out->dim, out->rank);
  tn__reading forth = tn__adjoint_read(c, out, x),
              back = tn__adjoint_read(c, out == x ? dy : tn__adjoint(c, out, 0, dy), dy);
  if (forth.sums && back.sums) tn__fail(c, TN_EGRAD, "adjoint: sums on both sides");
  return forth.sums ? (tn__readings){back, forth, true} : (tn__readings){forth, back, false};
}
