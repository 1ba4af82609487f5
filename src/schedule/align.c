/* Products whose rows a device's library cannot fetch by its fast ways.
 *
 * Such a library multiplies half floats several times as fast where each row of a matrix in memory, the result's too,
 * is a multiple of some bytes (tn__target.row_bytes).  Where that saves more than copies cost, sizes along which rows
 * lie are rounded up: operands are padded with zeros, and of the result a part is taken.  Sums of zeros more are the
 * same sums.  No copy is made of what kernels compute for a product alone, which store it padded, nor of a result that
 * kernels read.  Only sizes that are known are looked at, and not whether what is read in place begins at such bytes.
 */
#include "schedule/fuse.h"

enum { M, N, K, GROUPS };

typedef struct sizes {
  int64_t now[GROUPS], wanted[GROUPS];
} sizes;

/* Which of an operand's two groups lies along memory?  As it is stored by nature, which is an estimate. */
/* a choice: either is right */
static bool rows_along(tn__fuse *f, const tn_node *x, uint32_t nb, uint32_t nr) {
  const double *stride = tn__info_of(f, x)->stride;
  uint32_t finest = x->rank - 1u;
  for (uint32_t i = nb; i < x->rank; i++)
    if (stride[i] > 0 && !tn__is_int_const(x->dim[i], 1) && stride[i] < stride[finest]) finest = i;
  return finest < nb + nr;
}

static tn__product_size size_of(const tn_node *n, int64_t batch, const int64_t *size) {
  return (tn__product_size){
      .batch = (double)batch, .rows = size[M], .cols = size[N], .steps = size[K], .dtype = n->dtype};
}

/* How many read each node as it stands in memory, in whichever order: libraries, and who wants the results, not kernels
 * that compute elements of it */
static int *count_readers(tn__fuse *f) {
  int *n = tn__arena_zalloc(f->a, (f->order.n + 1) * sizeof *n);
  for (uint32_t i = f->order.n; i && i--;) {
    const tn_node *x = f->order.v[i];
    bool moves = tn__ops[x->op].group == G_MOVE;
    if (!moves && (tn__is_elementwise(x) || tn__ops[x->op].group == G_REDUCE)) continue;
    for (uint32_t s = 0; s < x->nsrc; s++) {
      const tn__info *in = tn__info_of(f, x->src[s]);
      if (in) n[in - f->info] += moves ? n[i] : 1;
    }
  }
  return n;
}

/* Does a kernel compute x for one reader alone?  It may be read in another order. */
/* a choice: either is right */
static bool is_computed(tn__fuse *f, const tn_node *x, const int *readers) {
  while (tn__ops[x->op].group == G_MOVE) x = x->src[0];
  return (tn__is_elementwise(x) || tn__ops[x->op].group == G_REDUCE) && readers[tn__info_of(f, x) - f->info] < 2;
}

/* a choice: no is right */
static bool rounds_up(tn__fuse *f, const tn_node *n, const int *readers, sizes *s) {
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2];
  tn_node *a = n->src[0], *b = n->src[1];
  const tn__target *t = &f->dev->target;
  bool is_of[GROUPS] = {[N] = true}; /* the result is stored by rows */
  int64_t batch, by = tn__target_row_elements(t, n->dtype);
  if (by < 2) return false;
  tn__gemm g = tn__gemm_sizes(f->c, n);
  if (!tn__const_int(g.batch, &batch) || !tn__const_int(g.m, &s->now[M]) || !tn__const_int(g.n, &s->now[N]) ||
      !tn__const_int(g.k, &s->now[K]))
    return false;
  int along_a = rows_along(f, a, nb, nm) ? M : K, along_b = rows_along(f, b, nb, nn) ? N : K;
  is_of[along_a] = is_of[along_b] = true;
  bool changes = false;
  for (int i = 0; i < GROUPS; i++) {
    s->wanted[i] = is_of[i] ? (s->now[i] + by - 1) / by * by : s->now[i];
    changes |= s->wanted[i] != s->now[i];
  }
  tn__product_size now = size_of(n, batch, s->now), wanted = size_of(n, batch, s->wanted);
  unsigned odd = (s->now[along_a] % by ? TN__LEFT : 0) | (s->now[along_b] % by ? TN__RIGHT : 0) |
                 (s->now[N] % by ? TN__RESULT : 0),
           copied = (is_computed(f, a, readers) ? 0 : TN__LEFT) | (is_computed(f, b, readers) ? 0 : TN__RIGHT) |
                    (readers[tn__info_of(f, n) - f->info] ? TN__RESULT : 0);
  return changes && tn__target_pads_product(t, &now, &wanted, odd, copied);
}

/* x as [batch..., rows, cols], which stand for several of its axes each */
static tn_node *as_matrices(tn_ctx *c, tn_node *x, uint32_t nb, int64_t rows, int64_t cols) {
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < nb; i++) dim[i] = x->dim[i];
  dim[nb] = tn__int(c, rows);
  dim[nb + 1] = tn__int(c, cols);
  return tn__reshape(c, x, dim, nb + 2);
}

static tn_node *padded(tn_ctx *c, tn__map *longer, tn_node *x, uint32_t nb, const sizes *s, int rows, int cols) {
  x = as_matrices(c, x, nb, s->now[rows], s->now[cols]);
  x = tn__longer_rows(c, longer, x, nb, tn__int(c, s->wanted[rows]));
  return tn__longer_rows(c, longer, x, nb + 1, tn__int(c, s->wanted[cols]));
}

/* n with x and y for its operands */
static tn_node *rounded_up(tn_ctx *c, tn__map *longer, const tn_node *n, const sizes *s, tn_node *x, tn_node *y) {
  uint32_t nb = (uint32_t)n->ints[0];
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  x = padded(c, longer, x, nb, s, M, K);
  y = padded(c, longer, y, nb, s, N, K);
  tn_node *z = tn__contract(c, x, y, (int)nb, 1, 1, 1);
  for (uint32_t i = 0; i < z->rank; i++) {
    begin[i] = tn__int(c, 0);
    size[i] = i < nb ? n->dim[i] : tn__int(c, s->now[i == nb ? M : N]);
  }
  return tn__reshape(c, tn__shrink(c, z, begin, size, NULL), n->dim, n->rank);
}

/* Which contractions are convolutions' */
static bool *convolve(tn__fuse *f) {
  bool *is = tn__arena_zalloc(f->a, f->order.n + 1);
  for (uint32_t i = 0; i < f->order.n; i++)
    if (f->info[i].conv) is[tn__info_of(f, tn__conv_contraction(f->order.v[i])) - f->info] = true;
  return is;
}

tn_node *tn__align_products(tn__fuse *f) {
  tn_node **now = tn__arena_alloc(f->a, (f->order.n + 1) * sizeof *now);
  const bool *convolves = convolve(f);
  const int *readers = count_readers(f);
  tn__map longer;
  tn__map_init(&longer, f->a);
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i], **src = tn__arena_alloc(f->a, (n->nsrc + 1) * sizeof *src);
    sizes s;
    now[i] = tn__made_again(f, n, now, src);
    if (n->op == OP_CONTRACT && !convolves[i] && rounds_up(f, n, readers, &s) && tn__gemm_is_called(f, n))
      now[i] = rounded_up(f->c, &longer, n, &s, src[0], src[1]);
  }
  return now[f->order.n - 1];
}
