/* Forms that the public functions make: each draws operands that suit it. */
#include "support/grow.h"
#include "tenet/nn.h"
#include "tenet/tensor.h"
#include "rewrite/rewrite.h"
#include "tensor/cell.h"
#include "tensor/operands.h"
#include "tensor/random.h"
#include <string.h>

enum { PLAIN_ONLY = 1 }; /* takes no symbolic sizes here */

static tn_tensor *cell(grower *w, tn_node *n) { return n ? tn__cell_new(w->c, n) : NULL; }

static void keep(grower *w, tn_tensor *t) {
  if (t) grow_add(w, t->node);
}

static int axis_of(grower *w, const tn_node *x) { return (int)graph_roll(w->d, x->rank ? x->rank : 1u); }

/* Some of x's axes, none now and then: all. */
static int axes_of(grower *w, const tn_node *x, int *axes) {
  int n = 0;
  for (int i = 0; i < (int)x->rank; i++)
    if (graph_roll(w->d, 2)) axes[n++] = i;
  return n;
}

/* ---- functions of elements ---- */

typedef tn_tensor *(*unary_fn)(tn_tensor *);
static const struct {
  unary_fn fn;
  int classes;
} unaries[] = {
#define ONE(name, classes, ...) {tn_##name, TN__C_##classes},
#include "tensor/elementwise.def"
};
enum { UNARIES = sizeof unaries / sizeof *unaries };

/* One of those that take floats alone; floats and integers; truth values. */
static unary_fn unary_of(grower *w, bool floats, bool bools) {
  uint32_t match[UNARIES], n = 0;
  for (uint32_t i = 0; i < UNARIES; i++)
    if ((unaries[i].classes == TN__C_FLOAT) == floats && !(unaries[i].classes & TN__C_BOOL) == !bools) match[n++] = i;
  return unaries[match[graph_roll(w->d, n)]].fn;
}

static void unary(grower *w) {
  bool bools = graph_roll(w->d, 16) == 0, floats = !bools && graph_roll(w->d, 2);
  unary_fn fn = unary_of(w, floats, bools);
  int cls = bools ? TN__C_INT | TN__C_BOOL : floats ? TN__C_FLOAT : TN__C_FLOAT | TN__C_INT;
  keep(w, fn(cell(w, grow_pick_of(w, cls))));
}

typedef tn_tensor *(*binary_fn)(tn_tensor *, tn_tensor *);
static const binary_fn binaries[] = {
#define TWO(name, ...) tn_##name,
#include "tensor/elementwise.def"
};

static void binary(grower *w) {
  tn_node *x = grow_pick(w);
  tn_tensor *y = cell(w, grow_match(w, x, graph_roll(w->d, 4) ? x->dtype : grow_dtype(w, ~0)));
  keep(w, binaries[graph_roll(w->d, sizeof binaries / sizeof *binaries)](cell(w, x), y));
}

static const double numbers[] = {0, 1, -1, 2, 3, 0.5, 10, -4, 7};
static double number(grower *w) { return numbers[graph_roll(w->d, 9)]; }

static void with_number(grower *w) {
  typedef tn_tensor *(*fn)(tn_tensor *, double);
  static const fn with[] = {tn_add_scalar,      tn_sub_scalar,     tn_rsub_scalar,    tn_mul_scalar, tn_div_scalar,
                            tn_rdiv_scalar,     tn_floordiv_scalar, tn_mod_scalar,    tn_pow_scalar, tn_maximum_scalar,
                            tn_minimum_scalar,  tn_eq_scalar,      tn_lt_scalar,      tn_ge_scalar,  tn_leaky_relu,
                            tn_elu,             tn_ne_scalar,      tn_le_scalar,      tn_gt_scalar};
  tn_tensor *x = cell(w, grow_pick(w));
  uint32_t how = graph_roll(w->d, 9);
  tn_tensor *p = how > 2 ? NULL : cell(w, grow_match(w, x->node, TN_BOOL));
  if (how == 0) keep(w, tn_where_scalar(p, x, number(w)));
  else if (how == 1) keep(w, tn_rwhere_scalar(p, number(w), x));
  else if (how == 2) {
    tn_dtype dtype = (tn_dtype)grow_dtype(w, ~0);
    double yes = number(w), no = number(w);
    keep(w, tn_where_scalars(p, dtype, yes, no));
  } else if (how == 3) keep(w, tn_clamp(x, -number(w), 5));
  else {
    fn op = with[graph_roll(w->d, sizeof with / sizeof *with)];
    keep(w, op(x, number(w)));
  }
}

/* What is made of nothing. */
static void fresh(grower *w) {
  int64_t n = grow_size(w), m = n > 64 ? 1 + graph_roll(w->d, 9) : grow_size(w);
  tn_dtype dtype = (tn_dtype)grow_dtype(w, TN__C_FLOAT | TN__C_INT);
  if (n * m > w->size->elements) return;
  switch (graph_roll(w->d, 3)) {
  case 0: keep(w, tn_eye(w->c, dtype, n, m)); break;
  case 1:
    dtype = (tn_dtype)grow_dtype(w, TN__C_FLOAT);
    double from = -number(w), to = number(w);
    keep(w, tn_linspace(w->c, dtype, from, to, n));
    break;
  default: keep(w, tn_arange(w->c, dtype, 0, (double)(n < 100 ? n : 100), 1 + graph_roll(w->d, 3))); break;
  }
}

/* Random numbers; their state, which is the context's, is a leaf like others. */
static void randoms(grower *w) {
  tn_ctx *c = w->c;
  tn_dim shape[3], most = w->size->elements;
  int rank = (int)graph_roll(w->d, 4);
  bool symbolic = w->g->var && rank && graph_roll(w->d, 2);
  for (int i = 0; i < rank; i++) {
    tn_dim n = i == 0 && symbolic ? w->g->var->hi : grow_size(w);
    if (n > most) n = 1;
    most /= n ? n : 1;
    shape[i] = i == 0 && symbolic ? tn__dim_out(c, w->g->var) : n;
  }
  tn_manual_seed(c, 0);
  tn_dtype of = (tn_dtype)grow_dtype(w, TN__C_FLOAT), in = (tn_dtype)grow_dtype(w, TN__C_INT);
  tn_tensor *x[5];
  x[0] = tn_uniform(c, of, shape, rank, -1, 2);
  x[1] = tn_normal(c, of, shape, rank, 1, 2);
  x[2] = tn_randint(c, in, shape, rank, 0, 100);
  x[3] = tn_bernoulli(c, shape, rank, 0.25);
  x[4] = tn_rand_bits(c, shape, rank);
  tn_node *n = x[graph_roll(w->d, 5)]->node, *state = tn__random_state(c, NULL), *two = tn__int(c, 2);
  tn_node *leaf = graph_leaf(c, w->g, w->d, TN_U64, &two, 1, graph_roll(w->d, 2));
  tn_manual_seed(c, 0);
  if (leaf) grow_add(w, tn__substitute(c, n, &state, &leaf, 1));
}

/* ---- reductions ---- */

static void reductions(grower *w) {
  typedef tn_tensor *(*fn)(tn_tensor *, const int *, int, bool);
  static const fn sums[] = {tn_sum, tn_prod, tn_max, tn_min, tn_any, tn_all, tn_mean, tn_logsumexp, tn_sum, tn_mean};
  uint32_t k = graph_roll(w->d, 12);
  tn_node *x = k < 6 ? grow_pick(w) : grow_pick_of(w, TN__C_FLOAT);
  int axes[GROW_RANK], n = axes_of(w, x, axes);
  bool stays = graph_roll(w->d, 2);
  if (k < 10) keep(w, sums[k](cell(w, x), n ? axes : NULL, n, stays));
  else keep(w, (k == 10 ? tn_var : tn_std)(cell(w, x), n ? axes : NULL, n, (double)graph_roll(w->d, 2), stays));
}

static void extremes(grower *w) {
  tn_node *x = grow_pick(w);
  int axis = axis_of(w, x);
  if (!x->rank || x->dim[axis]->lo < 1) return; /* of nothing there is none: no run at that size */
  bool most = graph_roll(w->d, 2), stays = graph_roll(w->d, 2);
  keep(w, (most ? tn_argmax : tn_argmin)(cell(w, x), axis, stays));
}

static void rows(grower *w) {
  tn_node *x = grow_pick_of(w, TN__C_FLOAT);
  if (!x->rank) return;
  tn_node *row = tn__scalar_to(w->c, tn__const_bits(w->c, x->dtype, 0), x->dim + x->rank - 1, 1);
  tn_tensor *t = cell(w, x), *gamma = cell(w, grow_match(w, row, x->dtype)),
            *beta = cell(w, grow_match(w, row, x->dtype));
  switch (graph_roll(w->d, 4)) {
  case 0: keep(w, tn_softmax(t, axis_of(w, x))); break;
  case 1: keep(w, tn_log_softmax(t, axis_of(w, x))); break;
  case 2: keep(w, tn_layer_norm(t, 1, gamma, beta, 1e-5)); break;
  default: keep(w, tn_rms_norm(t, 1, gamma, 1e-5)); break;
  }
}

static void losses(grower *w) {
  tn_node *x = grow_pick_of(w, TN__C_FLOAT), *dim[GROW_RANK];
  tn_tensor *t = cell(w, x), *y = cell(w, grow_match(w, x, x->dtype));
  uint32_t how = graph_roll(w->d, 5), r = 0;
  if (how == 0) keep(w, tn_mse_loss(t, y));
  if (how == 1) keep(w, tn_binary_cross_entropy_with_logits(t, y));
  if (how < 2 || x->rank < 2) return;
  for (uint32_t i = 0; i < x->rank; i++)
    if (i != 1) dim[r++] = x->dim[i];
  tn_tensor *labels = how == 4 ? y : cell(w, grow_places(w, grow_dim(x, 1), dim, r));
  keep(w, how == 3 ? tn_nll_loss(t, labels) : tn_cross_entropy(t, labels));
}

/* ---- movements ---- */

static void slices(grower *w) {
  tn_node *x = grow_pick(w);
  if (!x->rank) return;
  int axis = axis_of(w, x);
  int64_t n = grow_dim(x, (uint32_t)axis), step = (int64_t)graph_roll(w->d, 7) - 3;
  if (n && graph_roll(w->d, 6) == 0) step *= 1 + (int64_t)graph_roll(w->d, (uint32_t)n); /* far apart */
  int64_t from = n ? (int64_t)graph_roll(w->d, (uint32_t)n) : 0, to = (int64_t)graph_roll(w->d, (uint32_t)n + 1);
  if (graph_roll(w->d, 4) == 0) keep(w, tn_select(cell(w, x), axis, graph_roll(w->d, 2) ? from : -1));
  else if (graph_roll(w->d, 3) == 0) keep(w, tn_slice(cell(w, x), axis, INT64_MAX, INT64_MIN, -1));
  else keep(w, tn_slice(cell(w, x), axis, from, to, step ? step : 1));
}

static void triangles(grower *w) {
  tn_node *x = grow_pick(w);
  int64_t k = (int64_t)graph_roll(w->d, 7) - 3;
  keep(w, (graph_roll(w->d, 2) ? tn_tril : tn_triu)(cell(w, x), k));
}

static void repeats(grower *w) {
  tn_node *x = grow_pick(w);
  tn_dim reps[GROW_RANK], times = 1 + graph_roll(w->d, 4);
  for (uint32_t i = 0; i < x->rank; i++) reps[i] = 1 + graph_roll(w->d, 3);
  if (graph_roll(w->d, 2)) keep(w, tn_tile(cell(w, x), reps, (int)x->rank));
  else if (x->rank) keep(w, tn_repeat(cell(w, x), times, axis_of(w, x)));
}

static void joins(grower *w) {
  tn_node *x = grow_pick(w);
  tn_tensor *part[9];
  int n = 1 + (int)graph_roll(w->d, graph_roll(w->d, 4) ? 3 : 9);
  for (int i = 0; i < n; i++) part[i] = cell(w, i ? grow_match(w, x, x->dtype) : x);
  if (graph_roll(w->d, 3) == 0) keep(w, tn_stack(part, n, (int)graph_roll(w->d, x->rank + 1u)));
  else if (x->rank) keep(w, tn_concatenate(part, n, axis_of(w, x)));
}

static void splits(grower *w) {
  tn_node *x = grow_pick(w);
  tn_tensor *part[4];
  int parts = 2 + (int)graph_roll(w->d, 2);
  if (!x->rank) return;
  if (tn_split(cell(w, x), parts, axis_of(w, x), part) != TN_OK) return;
  for (int i = 0; i < parts; i++) keep(w, part[i]);
}

static void windows(grower *w) {
  tn_node *x = grow_pick(w);
  if (!x->rank || x->rank == GROW_RANK) return;
  int axis = axis_of(w, x);
  int64_t size = 1 + graph_roll(w->d, 5), stride = 1 + graph_roll(w->d, 3), dilation = 1 + graph_roll(w->d, 2);
  keep(w, tn_unfold(cell(w, x), axis, size, stride, dilation));
}

/* ---- indexing by tensors ---- */

static void takes(grower *w) {
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 2];
  uint32_t how = graph_roll(w->d, 3), r = 0;
  if (!x->rank) return;
  uint32_t axis = (uint32_t)axis_of(w, x);
  int64_t n = grow_dim(x, axis);
  if (how == 0) {
    for (uint32_t k = graph_roll(w->d, 3); r < k; r++) dim[r] = tn__int(w->c, grow_size(w));
    if (r + x->rank <= GROW_RANK)
      keep(w, tn_take(cell(w, x), cell(w, grow_places(w, n, dim, r)), (int)axis));
    return;
  }
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i == axis ? tn__int(w->c, grow_size(w)) : x->dim[i];
  if (how == 1) keep(w, tn_take_along_axis(cell(w, x), cell(w, grow_places(w, n, dim, x->rank)), (int)axis));
  else if (graph_roll(w->d, 2)) keep(w, tn_embedding(cell(w, x), cell(w, grow_places(w, grow_dim(x, 0), dim, 1))));
  else {
    tn_node *places = grow_places(w, 7, dim, 1);
    keep(w, tn_one_hot(cell(w, places), 7, (tn_dtype)grow_dtype(w, TN__C_FLOAT | TN__C_INT)));
  }
}

static void puts_(grower *w) {
  tn_node *x = grow_pick_of(w, TN__C_FLOAT | TN__C_INT), *dim[GROW_RANK + 2];
  if (!x->rank) return;
  uint32_t axis = (uint32_t)axis_of(w, x);
  int64_t n = grow_dim(x, axis), k = 1;
  for (uint32_t i = 0; i < x->rank; i++) {
    dim[i] = i == axis ? tn__int(w->c, grow_size(w)) : x->dim[i];
    k *= dim[i]->hi;
  }
  if (k > w->size->elements) return;
  tn_node *shape = tn__scalar_to(w->c, tn__const_bits(w->c, x->dtype, 0), dim, x->rank);
  tn_tensor *upd = cell(w, grow_match(w, shape, x->dtype));
  if (graph_roll(w->d, 2))
    keep(w, tn_scatter_add(cell(w, x), (int)axis, cell(w, grow_places(w, n, dim, x->rank)), upd));
  else keep(w, tn_index_add(cell(w, x), (int)axis, cell(w, grow_places(w, n, dim + axis, 1)), upd));
}

/* ---- products ---- */

static void products(grower *w) {
  tn_node *x = grow_pick_of(w, TN__C_FLOAT | TN__C_INT);
  int64_t dim[3] = {1 + graph_roll(w->d, 3)};
  if (!x->rank) return;
  dim[1] = grow_dim(x, x->rank - 1u);
  dim[2] = grow_size(w);
  uint32_t skip = graph_roll(w->d, 4) ? 1 : 0;
  if (dim[0] * dim[1] * dim[2] > w->size->elements) return;
  tn_tensor *t = cell(w, x), *y = cell(w, grow_leaf_of(w, x->dtype, dim + skip, 3 - skip));
  if (graph_roll(w->d, 5) == 0) y = cell(w, grow_leaf_of(w, x->dtype, dim + 1, 1));
  switch (graph_roll(w->d, 4)) {
  case 0:
    if (x->rank == 1) keep(w, tn_outer(t, cell(w, grow_leaf_of(w, x->dtype, dim + 2, 1))));
    break;
  case 1:
    if (x->rank == 1) keep(w, tn_dot(t, cell(w, grow_leaf_of(w, x->dtype, dim + 1, 1))));
    else if (x->rank == 2) keep(w, tn_einsum("ij,kj->ik", (tn_tensor *[]){t, t}, 2));
    break;
  case 2: keep(w, tn_relu(tn_matmul(t, y))); break;
  default: keep(w, tn_matmul(t, y)); break;
  }
}

/* Letters for axes: shared ones are summed over unless they are named again. */
static void sums_of_products(grower *w) {
  static const struct {
    const char *spec;
    uint8_t rank[2];
  } specs[] = {{"ij,jk->ik", {2, 2}},   {"ij,ij->i", {2, 2}}, {"bij,bjk->bik", {3, 3}}, {"ij,kj->ki", {2, 2}},
               {"i,j->ji", {1, 1}},     {"ij,j->i", {2, 1}},  {"bij,bij->b", {3, 3}},   {"aij,ij->a", {3, 2}},
               {"bi,bj->bij", {2, 2}}, {"ij,ij->", {2, 2}},  {"ijk,kl->ilj", {3, 2}}};
  uint32_t k = graph_roll(w->d, sizeof specs / sizeof *specs), at = 0;
  int64_t letter[26] = {0}, all = 1, dim[2][3];
  int dtype = grow_dtype(w, TN__C_FLOAT | TN__C_INT);
  for (const char *s = specs[k].spec; *s != '-'; s++, at++) {
    if (*s == ',') {
      at = UINT32_MAX;
      continue;
    }
    int64_t *n = &letter[*s - 'a'];
    if (!*n) all *= *n = 1 + grow_size(w) % 40;
    dim[strchr(specs[k].spec, ',') < s][at] = *n;
  }
  if (all > w->size->elements * 4) return;
  tn_tensor *x[2];
  for (int i = 0; i < 2; i++) x[i] = cell(w, grow_leaf_of(w, dtype, dim[i], specs[k].rank[i]));
  keep(w, tn_einsum(specs[k].spec, x, 2));
}

/* ---- in order ---- */

static void scans(grower *w) {
  tn_node *x = grow_pick(w);
  if (x->rank) keep(w, (graph_roll(w->d, 3) ? tn_cumsum : tn_cumprod)(cell(w, x), axis_of(w, x)));
}

static void sorts(grower *w) {
  tn_node *x = grow_pick(w);
  if (!x->rank) return;
  int axis = axis_of(w, x);
  bool down = graph_roll(w->d, 2);
  int64_t n = x->dim[axis]->lo;
  tn_tensor *best[2];
  switch (graph_roll(w->d, 3)) {
  case 0: keep(w, tn_sort(cell(w, x), axis, down)); break;
  case 1: keep(w, tn_argsort(cell(w, x), axis, down)); break;
  default:
    if (tn_topk(cell(w, x), graph_roll(w->d, (uint32_t)n + 1u), axis, down, &best[0], &best[1]) != TN_OK) return;
    for (int i = 0; i < 2; i++) keep(w, best[i]);
  }
}

static void searches(grower *w) {
  int64_t n = grow_size(w), classes = graph_roll(w->d, 3) ? 70 : 1 + graph_roll(w->d, 9);
  tn_node *values = grow_pick(w);
  if (graph_roll(w->d, 3) == 0) {
    tn_node *dim = tn__int(w->c, n);
    keep(w, tn_bincount(cell(w, grow_places(w, classes, &dim, 1)), classes));
    return;
  }
  tn_tensor *sorted = tn_sort(cell(w, grow_leaf_of(w, values->dtype, &n, 1)), 0, false);
  keep(w, tn_searchsorted(sorted, cell(w, values), graph_roll(w->d, 2)));
}

static void selections(grower *w) {
  tn_node *x = grow_pick(w);
  tn_tensor *out[4] = {NULL};
  int64_t most = grow_size(w), which = graph_roll(w->d, 5);
  if (which == 4) {
    if (tn_nonzero(cell(w, x), most, graph_roll(w->d, 2) ? -1 : 0, &out[0], &out[1]) != TN_OK) return;
  } else { /* all at once, or one by itself */
    tn_tensor **to[4] = {NULL};
    for (int i = 0; i < 4; i++)
      if (which == 0 || which == i) to[i] = &out[i];
    if (tn_unique(cell(w, x), most, graph_roll(w->d, 2), to[0], to[1], to[2], to[3]) != TN_OK) return;
  }
  for (int i = 0; i < 4; i++)
    if (out[i]) keep(w, out[i]);
}

static void images(grower *w) {
  int64_t groups = graph_roll(w->d, 3) ? 1 : 2, c = groups * (1 + graph_roll(w->d, 4)),
          k = groups * (1 + graph_roll(w->d, 5)), h = 3 + graph_roll(w->d, 7), v = 3 + graph_roll(w->d, 9),
          n = 1 + graph_roll(w->d, 3), r[2];
  for (int i = 0; i < 2; i++) r[i] = 1 + graph_roll(w->d, 3);
  int dtype = grow_dtype(w, TN__C_FLOAT);
  tn_tensor *x = cell(w, grow_leaf_of(w, dtype, (int64_t[]){n, c, h, v}, 4));
  tn_conv2d_options o = {.groups = groups};
  tn_pool2d_options p = {0};
  for (int i = 0; i < 2; i++) {
    o.stride[i] = p.stride[i] = 1 + graph_roll(w->d, 3);
    o.padding[i] = graph_roll(w->d, 3);
    p.padding[i] = graph_roll(w->d, (uint32_t)(r[i] / 2 + 1));
    o.dilation[i] = p.dilation[i] = 1 + graph_roll(w->d, 2);
  }
  tn_tensor *f = cell(w, grow_leaf_of(w, dtype, (int64_t[]){k, c / groups, r[0], r[1]}, 4)),
            *b = cell(w, grow_leaf_of(w, dtype, &k, 1));
  switch (graph_roll(w->d, 4)) {
  case 0: keep(w, tn_max_pool2d(x, r[0], r[1], graph_roll(w->d, 3) ? &p : NULL)); break;
  case 1: keep(w, tn_avg_pool2d(x, r[0], r[1], graph_roll(w->d, 3) ? &p : NULL)); break;
  case 2: keep(w, tn_conv2d(x, f, NULL, &o)); break;
  default: keep(w, tn_conv2d(x, f, b, &o)); break;
  }
}

static const struct {
  void (*fn)(grower *);
  int needs;
} forms[] = {
    {unary, 0},         {binary, 0},         {with_number, 0},     {reductions, 0},     {reductions, 0},
    {extremes, 0},      {rows, 0},           {rows, 0},            {losses, PLAIN_ONLY}, {slices, PLAIN_ONLY},
    {triangles, 0},     {repeats, PLAIN_ONLY}, {joins, 0},         {joins, 0},          {splits, PLAIN_ONLY},
    {windows, PLAIN_ONLY}, {takes, PLAIN_ONLY}, {takes, PLAIN_ONLY},  {puts_, PLAIN_ONLY}, {puts_, PLAIN_ONLY},
    {products, PLAIN_ONLY}, {products, PLAIN_ONLY}, {images, 0},
    {sums_of_products, 0}, {fresh, 0},       {randoms, 0},
    {scans, 0},          {sorts, 0},          {searches, PLAIN_ONLY}, {selections, 0},
};

void grow_front(grower *w) {
  uint32_t k = graph_roll(w->d, sizeof forms / sizeof *forms);
  /* of nothing there is no maximum, which a program says when a size is bound */
  if (w->g->var && (forms[k].needs == PLAIN_ONLY || w->g->var->lo == 0)) return;
  forms[k].fn(w);
}
