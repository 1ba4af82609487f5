/* Layers as networks have them: products by tiles, sums over all rows beside the rows, images. */
#include "grad/grad_pass.h"
#include "support/grow.h"
#include "tenet/nn.h"
#include "tenet/tensor.h"
#include "tensor/cell.h"

enum { LAYER_STEPS = 1 << 20 }; /* multiply-adds of a layer's products, mostly at most */

static tn_tensor *cell(grower *w, tn_node *n) { return tn__cell_new(w->c, n); }

/* The shape m x k as it is read, its axes in memory one way or the other. */
static tn_node *factor(grower *w, int dtype, int64_t batch, int64_t m, int64_t k) {
  bool turned = graph_roll(w->d, 2);
  uint32_t nb = batch > 1;
  int64_t dim[3] = {batch, turned ? k : m, turned ? m : k};
  tn_node *x = grow_leaf_of(w, dtype, dim + 1 - nb, 2 + nb);
  return turned ? tn__permute(w->c, x, nb ? (int64_t[]){0, 2, 1} : (int64_t[]){1, 0}) : x;
}

/* A product large enough for tiles of every form, in one direction or another. */
static tn_node *layer_product(grower *w, int dtype, tn_node **x) {
  static const int64_t sizes[] = {16, 32, 48, 64, 96, 128, 130, 160, 192, 256, 320, 512};
  /* in mode strict no group makes a tile, and what reads a product may compute it again */
  bool strict = w->c->mode == TN_MODE_STRICT;
  int64_t size[3], batch = graph_roll(w->d, 4) ? 1 : 2;
  bool whole = !strict && graph_roll(w->d, 4) == 0; /* about one tile of the largest form */
  for (int i = 0; i < 3; i++) size[i] = sizes[graph_roll(w->d, strict ? 4 : sizeof sizes / sizeof *sizes)];
  if (whole) size[0] = 128, size[1] = 256, size[2] = 32;
  bool deep = whole && graph_roll(w->d, 4) == 0; /* and so deep that it is not cut smaller for want of work */
  if (deep) size[2] = 256, batch = 1;
  while (!deep && size[0] * size[1] * size[2] * batch > LAYER_STEPS) {
    int most = size[0] > size[1] ? 0 : 1;
    if (size[2] > size[most]) most = 2;
    size[most] /= 2;
  }
  /* over an edge */
  if (graph_roll(w->d, whole ? 2 : 3) == 0) {
    uint32_t axis = graph_roll(w->d, 3);
    size[axis] += 1 - (int64_t)graph_roll(w->d, 10);
  }
  x[0] = factor(w, dtype, batch, size[0], size[2]);
  x[1] = factor(w, dtype, batch, size[2], size[1]);
  tn_tensor *y = tn_matmul(cell(w, x[0]), cell(w, x[1]));
  if (graph_roll(w->d, 3) == 0) y = tn_add(y, cell(w, grow_leaf_of(w, dtype, size + 1, 1)));
  return (graph_roll(w->d, 2) ? tn_relu(y) : graph_roll(w->d, 3) == 0 ? tn_gelu_tanh(y) : y)->node;
}

static tn_node *layer_images(grower *w, int dtype, tn_node **x) {
  int64_t c = 8 << graph_roll(w->d, 3), k = 8 << graph_roll(w->d, 3), r = 1 + 2 * graph_roll(w->d, 2),
          h = 6 + graph_roll(w->d, 12);
  tn_conv2d_options o = {0};
  while (2 * c * k * r * r * h * h > LAYER_STEPS / 4) *(c > k ? &c : k > 8 ? &k : &h) /= 2;
  o.stride[0] = o.stride[1] = 1 + (graph_roll(w->d, 4) == 0);
  o.padding[0] = o.padding[1] = graph_roll(w->d, 2);
  x[0] = grow_leaf_of(w, dtype, (int64_t[]){2, c, h < r ? r : h, h < r ? r : h}, 4);
  x[1] = grow_leaf_of(w, dtype, (int64_t[]){k, c, r, r}, 4);
  tn_tensor *y = tn_conv2d(cell(w, x[0]), cell(w, x[1]), NULL, &o);
  return (graph_roll(w->d, 2) ? tn_relu(y) : y)->node;
}

/* Over many rows: now and then enough of them for every unit of a large device. */
static tn_node *layer_norm(grower *w, int dtype, tn_node **x) {
  bool many = graph_roll(w->d, 3) == 0;
  int64_t rows = many ? 2112 + graph_roll(w->d, 600) : (32u << graph_roll(w->d, 5)) + graph_roll(w->d, 40),
          in = graph_roll(w->d, 2) ? 64 : 64 + graph_roll(w->d, many ? 30 : 200);
  x[0] = grow_leaf_of(w, dtype, (int64_t[]){rows, in}, 2);
  x[1] = grow_leaf_of(w, dtype, &in, 1);
  tn_tensor *t = cell(w, x[0]), *gamma = cell(w, x[1]);
  return (graph_roll(w->d, 4) ? tn_layer_norm(t, 1, gamma, NULL, 1e-5) : tn_rms_norm(t, 1, gamma, 1e-5))->node;
}

/* A layer of a network, and its gradients by what it was made of. */
void grow_layer(grower *w) {
  static const uint8_t dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_F32, TN_F64, TN_F32};
  typedef tn_node *(*layer_fn)(grower *, int, tn_node **);
  static const layer_fn layers[] = {layer_product, layer_product, layer_product, layer_norm, layer_norm, layer_images};
  int dtype = dtypes[graph_roll(w->d, 6)];
  uint32_t kind = graph_roll(w->d, w->c->mode == TN_MODE_STRICT ? 5 : 6);
  tn_node *x[2], *g[2], *y = layers[kind](w, dtype, x);
  if (!grow_add(w, y) || graph_roll(w->d, 2)) return;
  tn__vjp(w->c, y, grow_match(w, y, y->dtype), x, 2, g);
  for (int i = 0; i < 2; i++) grow_add(w, g[i]);
}
