/* Which nodes are convolutions of images, for a library or for products by tiles, and how their operands lie in memory.
 *
 * Forward and for the filters' gradient it is a contraction over windows of images, for the images' gradient a fold of
 * a contraction.  What the windows or folds are made by does not matter: ranges are pushed through the movement ops,
 * and how the images' axes are then indexed says what each range is.  Only windows that overlap or reach over the
 * border are of interest: others are no larger than their images, and a matrix product does as well.
 *
 * A library takes all its operands as one run of memory each, and in the same order: planes (n, c, h, w) or channels
 * last (n, h, w, c). Without one, where devices multiply by tiles, a convolution is a kernel like others, a sum of
 * products of what stands in memory; filters are then stored as the tiles load them, those that are given as they come
 * by a copy. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <string.h>

enum { FREE, SUMMED, IMAGE_AXES = 4 };

static const uint8_t planes[IMAGE_AXES] = {0, 1, 2, 3}, channels_last[IMAGE_AXES] = {0, 2, 3, 1};

/* Filters for own kernels: f32 lies beside the same place in the next filter, halves beside the next step of the sum.
 */
static const uint8_t filters[2][2][IMAGE_AXES] = {{{2, 3, 0, 1}, {1, 2, 3, 0}}, {{2, 3, 1, 0}, {0, 2, 3, 1}}};

static const uint8_t *order_of(const tn__conv *v, int which) {
  if (v->own && which == CONV_FILTER && v->kind != CONV_FILTER)
    return filters[v->kind == CONV_FORWARD][tn__size_of(v->dtype) < 4];
  return v->channels_last ? channels_last : planes;
}

/* Tensor cores want the channels together; without them the libraries are faster in planes. */
/* a choice: either is right */
static bool prefers_last(const tn__fuse *f, int dtype) { return tn__size_of(dtype) < 4 && !f->dev->target.planes; }

/* Windows of `size` places along an axis: does the library count as many of them? */
/* a choice: no is right */
static bool places_fit(tn_ctx *c, const tn__conv *v, int i, int64_t size) {
  int64_t stride = v->stride[i], room = 2 * v->pad[i] + stride - (size - 1) * v->dilation[i] - 1;
  tn_node *places = tn__op2(c, OP_IDIV, tn__add(c, v->size[CONV_H + i], tn__int(c, room)), tn__int(c, stride));
  places = tn__op2(c, OP_MAX, places, tn__int(c, 0));
  return tn__dims_equal(c, &places, &v->size[CONV_P + i], 1);
}

/* The sizes along both axes of the images, once all else is known; false if they are not a library's. */
/* a choice: no is right */
static bool check_frames(tn_ctx *c, tn__conv *v, const bool *one_place) {
  bool wide = false;
  for (int i = 0; i < 2; i++) {
    int64_t size, all;
    if (!tn__const_int(v->size[CONV_R + i], &size) || size < 1) return false;
    if (one_place[i]) { /* any distance to the next place will do that leaves no room for it */
      if (!tn__const_int(v->size[CONV_H + i], &all)) return false;
      v->stride[i] = all + 2 * v->pad[i];
    }
    if (!places_fit(c, v, i, size)) return false;
    wide |= v->pad[i] > 0 || (size > 1 && (size - 1) * v->dilation[i] >= v->stride[i]);
  }
  return wide;
}

/* ---- contractions over windows ---- */

/* How an axis of the images is read: step[FREE] * a free range + step[SUMMED] * a contracted one - pad. */
typedef struct line {
  int range[2]; /* axes of the windows; -1: none */
  int64_t step[2], pad;
} line;

typedef struct windows { /* an operand [free..., contracted...] of a contraction */
  tn_node *node, *r[TN_MAX_RANK];
  uint32_t nfree;
  tn_node *images;         /* what they are windows of */
  line line[TN_MAX_RANK];  /* for each axis of it */
} windows;

/* a choice: no is right */
static bool read_line(tn_ctx *c, const windows *w, tn_node *idx, line *out) {
  tn_node *coef[TN_MAX_RANK], *offset;
  int64_t v;
  *out = (line){.range = {-1, -1}};
  if (!tn__index_affine(c, idx, w->r, w->node->rank, coef, &offset) || !tn__const_int(offset, &v) || v > 0)
    return false;
  out->pad = -v;
  for (uint32_t i = 0; i < w->node->rank; i++) {
    int s = i < w->nfree ? FREE : SUMMED;
    if (tn__is_int_const(coef[i], 0)) continue;
    if (out->range[s] >= 0 || !tn__const_int(coef[i], &v) || v < 1) return false;
    out->range[s] = (int)i;
    out->step[s] = v;
  }
  return true;
}

/* Is y, read at idx, images?  Each range must serve one axis. */
/* a choice: no is right */
static bool read_lines(tn_ctx *c, windows *w, tn_node *y, tn_node *const *idx) {
  uint32_t used = 0;
  for (uint32_t a = 0; a < y->rank; a++) {
    if (!read_line(c, w, idx[a], &w->line[a])) return false;
    for (int s = 0; s < 2; s++) {
      uint32_t bit = w->line[a].range[s] < 0 ? 0 : 1u << w->line[a].range[s];
      if (used & bit) return false;
      used |= bit;
    }
  }
  for (uint32_t i = 0; i < w->node->rank; i++)
    if (w->r[i]->op == OP_RANGE && !(used >> i & 1)) return false;
  w->images = y;
  return true;
}

/* An axis that is read as it is, by one range or, of size 1, by none: *side says of which kind, -1 for none. */
/* a choice: no is right */
static bool is_plain(tn_ctx *c, const windows *w, uint32_t axis, int *side) {
  const line *l = &w->line[axis];
  *side = l->range[FREE] >= 0 ? FREE : l->range[SUMMED] >= 0 ? SUMMED : -1;
  if (l->pad || (l->range[FREE] >= 0 && l->range[SUMMED] >= 0)) return false;
  if (*side < 0) return tn__is_int_const(w->images->dim[axis], 1);
  return l->step[*side] == 1 && tn__dims_equal(c, &w->images->dim[axis], &w->r[l->range[*side]]->src[0], 1);
}

/* Which axes of the images are n, c, h and w (-1: none, as if of size 1), and of which kind the ranges of n and c are.
 */
/* a choice: no is right */
static bool name_axes(tn_ctx *c, const windows *w, int8_t *at, int *side) {
  int spatial = 0, s;
  memset(at, -1, IMAGE_AXES);
  side[0] = side[1] = -1;
  for (uint32_t a = 0; a < w->images->rank; a++) {
    bool plain = is_plain(c, w, a, &s);
    int role = plain && at[0] < 0 ? 0 : plain && at[1] < 0 && (s < 0 || s != side[0]) ? 1 : -1;
    if (role >= 0) side[role] = s;
    else if (spatial == 2) return false;
    else role = 2 + spatial++;
    at[role] = (int8_t)a;
  }
  if (spatial == 1) at[3] = at[2], at[2] = -1;
  return spatial > 0;
}

/* The one axis of lo..hi-1 that is longer than 1: -1 if there is none, -2 if there are more. */
/* a choice: no is right */
static int only_axis(const tn_node *n, uint32_t lo, uint32_t hi) {
  int found = -1;
  for (uint32_t i = lo; i < hi; i++)
    if (!tn__is_int_const(n->dim[i], 1)) found = found == -1 ? (int)i : -2;
  return found;
}

/* Places are the free ranges of a forward convolution, and the contracted ones of the filters' gradient.  The two are
 * the same thing when images and channels, places and filters change their names; images come before channels. */
static tn__conv_kind kind_of(const windows *w, const int8_t *at, const int *side) {
  double length[2] = {1, 1};
  if (side[0] >= 0) return side[0] == FREE ? CONV_FORWARD : CONV_FILTER;
  if (side[1] >= 0) return side[1] == SUMMED ? CONV_FORWARD : CONV_FILTER;
  for (int i = 2; i < IMAGE_AXES; i++)
    for (int s = 0; s < 2 && at[i] >= 0; s++)
      if (w->line[at[i]].range[s] >= 0) length[s] *= (double)tn__size_guess(w->node->dim[w->line[at[i]].range[s]]);
  return length[FREE] >= length[SUMMED] ? CONV_FORWARD : CONV_FILTER;
}

/* The contraction n as a convolution, with the windows as source `from`, as they have been read */
static bool describe(tn_ctx *c, tn_node *n, int from, const windows *w, tn__conv *v) {
  int8_t at[IMAGE_AXES];
  int side[2], range[CONV_DIMS];
  bool one_place[2];
  tn_node *other = n->src[!from], *one = tn__int(c, 1);
  uint32_t nm = (uint32_t)n->ints[1], nfree = (uint32_t)n->ints[2 - from]; /* of the other's axes */
  int k = only_axis(other, 0, nfree);
  if (k == -2 || !name_axes(c, w, at, side)) return false;
  *v = (tn__conv){.kind = kind_of(w, at, side), .dtype = n->dtype};
  int place = v->kind == CONV_FORWARD ? FREE : SUMMED;
  memset(range, -1, sizeof range);
  if (at[0] >= 0) range[CONV_N] = w->line[at[0]].range[place];
  if (at[1] >= 0) range[CONV_C] = w->line[at[1]].range[!place];
  for (int i = 0; i < 2; i++) {
    const line *l = at[2 + i] < 0 ? &(line){.range = {-1, -1}} : &w->line[at[2 + i]];
    range[CONV_P + i] = l->range[place];
    range[CONV_R + i] = l->range[!place];
    v->pad[i] = l->pad;
    v->stride[i] = l->step[place];
    v->dilation[i] = l->range[!place] < 0 ? 1 : l->step[!place];
    v->size[CONV_H + i] = at[2 + i] < 0 ? one : w->images->dim[at[2 + i]];
    one_place[i] = l->range[place] < 0;
  }
  for (int d = 0; d < CONV_DIMS; d++)
    if (d != CONV_K && d != CONV_H && d != CONV_W) v->size[d] = range[d] < 0 ? one : w->node->dim[range[d]];
  v->size[CONV_K] = k < 0 ? one : other->dim[k];
  for (int o = 0; o < 3; o++) {
    struct tn__conv_operand *x = &v->operand[o];
    x->node = o == CONV_DATA ? w->images : o == (int)v->kind ? n : other;
    for (int p = 0; p < IMAGE_AXES; p++) {
      int d = tn__conv_dims[o][p], r = range[d];
      if (o == CONV_DATA) x->axis[p] = at[p];
      else if (o == (int)v->kind)
        x->axis[p] = (int8_t)(d == CONV_K ? (k < 0 ? -1 : k + (from ? 0 : (int)nm))
                              : r < 0     ? -1
                                          : r + (from ? (int)nm : 0));
      else x->axis[p] = (int8_t)(d == CONV_K ? k : r < 0 ? -1 : r - (int)w->nfree + (int)nfree);
    }
  }
  return check_frames(c, v, one_place);
}

/* a choice: no is right */
static bool has_window(const tn_node *x) {
  for (; tn__ops[x->op].group == G_MOVE && x->op != OP_FOLD; x = x->src[0])
    if (x->op == OP_WINDOW) return true;
  return false;
}

/* Looks for images below source `from`, as far down as it can.  Padding is the library's if the images are right below
 * it. */
/* a choice: no is right */
static bool match_windows(tn_ctx *c, tn_node *n, int from, tn__conv *v) {
  tn_node *y = n->src[from], *idx[TN_MAX_RANK + 1], *next[TN_MAX_RANK + 1], *gate = NULL;
  windows w = {.node = y, .nfree = (uint32_t)n->ints[1 + from]};
  tn__conv here;
  bool found = false;
  if (!has_window(y)) return false;
  for (uint32_t i = 0; i < y->rank; i++)
    idx[i] = w.r[i] = tn__axis_loop(c, y, i);
  while (tn__ops[y->op].group == G_MOVE && y->op != OP_FOLD && (!gate || y->op == OP_PAD)) {
    tn__index_through(c, y, idx, next, &gate);
    y = y->src[0];
    memcpy(idx, next, y->rank * sizeof *idx);
    bool good = y->rank <= IMAGE_AXES && read_lines(c, &w, y, idx) && describe(c, n, from, &w, &here);
    if (!good && found) break;
    if (good) *v = here;
    found |= good;
  }
  return found;
}

/* ---- folds of a contraction ---- */

typedef struct folds {
  tn_node *root, *contract;
  uint32_t rank;
  /* ranges for an axis of the root; without a fold it is the place, or the offset */
  tn_node *place[IMAGE_AXES], *offset[IMAGE_AXES];
  int64_t stride[IMAGE_AXES], dilation[IMAGE_AXES], pad[IMAGE_AXES];
  bool folded[IMAGE_AXES];
  tn_node *full[IMAGE_AXES]; /* its size before the border was cut off */
  tn_node *idx[TN_MAX_RANK + 1]; /* where the contraction is read */
} folds;

/* The border that is cut off, as padding */
/* a choice: no is right */
static bool read_border(folds *s, const tn_node *y) {
  for (uint32_t i = 0; i < y->rank; i++)
    if (!tn__const_int(y->src[1 + i], &s->pad[i]) || s->pad[i] < 0 || (y->nint && y->ints[i] != 1)) return false;
  return true;
}

/* a choice: no is right */
static bool read_fold(tn_ctx *c, folds *s, const tn_node *y) {
  int64_t axis = y->ints[0];
  for (uint32_t i = 0; i < s->rank; i++) {
    if (s->folded[i] || s->idx[axis] != s->place[i]) continue;
    s->folded[i] = true;
    s->place[i] = tn__range(c, y->src[0]->dim[axis], AX_LOOP, ROLE_OUTPUT, TN__FIRST_INNER + 2 * i);
    s->offset[i] =
        tn__range(c, y->src[0]->dim[axis + 1], AX_LOOP, ROLE_OUTPUT, TN__FIRST_INNER + 2 * i + 1);
    s->stride[i] = y->ints[2];
    s->dilation[i] = y->ints[3];
    memmove(s->idx + axis + 2, s->idx + axis + 1, (y->rank - (size_t)axis - 1) * sizeof *s->idx);
    s->idx[axis] = s->place[i];
    s->idx[axis + 1] = s->offset[i];
    return true;
  }
  return false;
}

/* From the root down to the contraction.  Halves may be rounded on the way. */
/* a choice: no is right */
static bool read_folds(tn_ctx *c, folds *s) {
  tn_node *y = s->root, *next[TN_MAX_RANK + 1], *gate = NULL;
  int acc = tn__dtype_acc(y->dtype);
  bool cut = false;
  for (int i = 0; i < 2 && (y->op == OP_SHRINK || y->op == OP_CAST); i++, y = y->src[0]) {
    if (y->op == OP_SHRINK && (cut || !read_border(s, y))) return false;
    cut |= y->op == OP_SHRINK;
  }
  if (y->op != OP_FOLD) return false;
  for (uint32_t i = 0; i < s->rank; i++) {
    s->full[i] = y->dim[i];
    s->idx[i] = s->place[i] = tn__range(c, y->dim[i], AX_LOOP, ROLE_OUTPUT, i);
  }
  for (; y->op != OP_CONTRACT; y = y->src[0]) {
    if (y->dtype != s->root->dtype && y->dtype != acc) return false;
    if (y->op == OP_FOLD) {
      if (!read_fold(c, s, y)) return false;
    } else if (y->op == OP_PERMUTE || y->op == OP_RESHAPE) {
      tn__index_through(c, y, s->idx, next, &gate);
      memcpy(s->idx, next, y->src[0]->rank * sizeof *next);
    } else if (y->op != OP_CAST) {
      return false;
    }
  }
  s->contract = y;
  return y->dtype == s->root->dtype && y->ints[0] == 0;
}

/* The axis of the contraction that r runs along, -1 if none */
static int axis_of(const folds *s, const tn_node *r) {
  for (uint32_t i = 0; r && i < s->contract->rank; i++)
    if (s->idx[i] == r) return (int)i;
  return -1;
}

/* To which of the contraction's operands r belongs, -1 if to none */
static int side_of(const folds *s, const tn_node *r) {
  int a = axis_of(s, r);
  return a < 0 ? -1 : a >= s->contract->ints[1];
}

/* Which operand is the outputs' gradient: the one with the places; -1 if that does not work out. */
/* a choice: no is right */
static int find_outputs(const folds *s) {
  int outputs = -1;
  for (uint32_t i = 0; i < s->rank; i++) {
    int p = side_of(s, s->place[i]), o = side_of(s, s->offset[i]);
    if (!s->folded[i]) continue;
    int here = p >= 0 ? p : o >= 0 ? !o : outputs;
    if ((o >= 0 && o == here) || (outputs >= 0 && here != outputs)) return -1;
    outputs = here;
  }
  return outputs;
}

/* a choice: no is right */
static bool name_folded_axes(tn_ctx *c, folds *s, int outputs, int8_t *at) {
  int spatial = 0;
  memset(at, -1, IMAGE_AXES);
  for (uint32_t i = 0; i < s->rank; i++) {
    int side = s->folded[i] ? -1 : side_of(s, s->place[i]), role = -1;
    bool whole = !s->folded[i] && !s->pad[i] && tn__dims_equal(c, &s->full[i], &s->root->dim[i], 1);
    if (whole && side < 0) {
      if (!tn__is_int_const(s->full[i], 1)) return false;
      continue; /* of size 1 */
    }
    if (whole && at[side == outputs ? 0 : 1] < 0) role = side == outputs ? 0 : 1;
    else if (spatial == 2) return false;
    else role = 2 + spatial++;
    /* as long as the filter: one place */
    if (role >= 2 && !s->folded[i] && side != outputs) s->offset[i] = s->place[i], s->place[i] = NULL;
    at[role] = (int8_t)i;
  }
  if (spatial == 1) at[3] = at[2], at[2] = -1;
  return spatial > 0;
}

static bool match_folds(tn_ctx *c, tn_node *root, tn__conv *v) {
  folds s = {.root = root, .rank = root->rank};
  int8_t at[IMAGE_AXES];
  bool one_place[2];
  tn_node *one = tn__int(c, 1), *range[CONV_DIMS] = {0};
  if (root->rank > IMAGE_AXES || !read_folds(c, &s)) return false;
  int outputs = find_outputs(&s);
  if (outputs < 0 || !name_folded_axes(c, &s, outputs, at)) return false;
  tn_node *n = s.contract;
  uint32_t nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2], first[2] = {0, nm}, nfree[2] = {nm, nn};
  *v = (tn__conv){.kind = CONV_DATA, .dtype = root->dtype};
  range[CONV_N] = at[0] < 0 ? NULL : s.place[at[0]];
  range[CONV_C] = at[1] < 0 ? NULL : s.place[at[1]];
  for (int i = 0; i < 2; i++) {
    int a = at[2 + i];
    range[CONV_P + i] = a < 0 ? NULL : s.place[a];
    range[CONV_R + i] = a < 0 ? NULL : s.offset[a];
    v->stride[i] = a >= 0 && s.folded[a] ? s.stride[a] : 1;
    v->dilation[i] = a >= 0 && s.folded[a] ? s.dilation[a] : 1;
    v->pad[i] = a < 0 ? 0 : s.pad[a];
    v->size[CONV_H + i] = a < 0 ? one : root->dim[a];
    one_place[i] = !range[CONV_P + i];
  }
  uint32_t used = 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    if (d != CONV_K && d != CONV_H && d != CONV_W) v->size[d] = range[d] ? range[d]->src[0] : one;
    if (axis_of(&s, range[d]) >= 0) used |= 1u << axis_of(&s, range[d]);
  }
  for (uint32_t i = 0; i < n->rank; i++)
    if (!(used >> i & 1) && !tn__is_int_const(n->dim[i], 1)) return false;
  for (int o = 0; o < 3; o++) {
    int side = o == CONV_FORWARD ? outputs : !outputs; /* for the operands that are read */
    struct tn__conv_operand *x = &v->operand[o];
    x->node = o == CONV_DATA ? root : n->src[side];
    int k = only_axis(n->src[side], nfree[side], n->src[side]->rank);
    if (k == -2) return false;
    v->size[CONV_K] = k < 0 ? one : n->src[side]->dim[k];
    for (int p = 0; p < IMAGE_AXES; p++) {
      int d = tn__conv_dims[o][p], a = axis_of(&s, range[d]);
      x->axis[p] = (int8_t)(o == CONV_DATA ? at[p] : d == CONV_K ? k : a < 0 ? -1 : a - (int)first[side]);
    }
  }
  return check_frames(c, v, one_place);
}

/* ---- candidates ---- */

/* a choice: no is right */
static bool is_candidate(tn__fuse *f, tn_node *n, tn__conv *v) {
  if (n->op == OP_FOLD || ((n->op == OP_SHRINK || n->op == OP_CAST) && n->rank)) return match_folds(f->c, n, v);
  if (n->op != OP_CONTRACT || n->ints[0]) return false;
  return match_windows(f->c, n, 0, v) || match_windows(f->c, n, 1, v);
}

static bool library_convolves(const tn__fuse *f, int dtype) {
  return !f->c->opt.no_library && f->dev->ops->has_conv && f->dev->ops->has_conv(f->dev, dtype);
}

/* Will products by tiles (lower/tile.c) do?  Halves are moved in runs of channels. */
/* a choice: no is right */
static bool tiles_convolve(const tn__fuse *f, const tn__conv *v) {
  int64_t channels, count;
  bool half = tn__size_of(v->dtype) < 4;
  for (int d = 0; d < CONV_DIMS; d++)
    if (!tn__is_const(v->size[d])) return false;
  if (!tn__target_multiplies(&f->dev->target, v->dtype)) return false;
  if (!half) return true;
  int64_t run = f->dev->target.access / (int64_t)tn__size_of(v->dtype);
  return tn__const_int(v->size[CONV_C], &channels) &&
         tn__const_int(v->size[CONV_K], &count) && channels % run == 0 && (count % run == 0 || v->kind == CONV_FORWARD);
}

/* The gradient of filters of few elements is a sum over all places for each, which all threads share out; a library has
 * few units go through all places.  By tf32 these are quick, if they fetch channels by whole accesses (measured: 2.6 ms
 * for 3 channels, 0.15 for 40 filters of 40). */
/* a choice: either is right */
static bool has_little_window(const tn__fuse *f, const tn__conv *v) {
  const tn__target *t = &f->dev->target;
  double window = (double)tn__size_guess(v->size[CONV_C]) * (double)tn__size_guess(v->size[CONV_R]) *
                  (double)tn__size_guess(v->size[CONV_S]);
  double sums = window * (double)tn__size_guess(v->size[CONV_K]);
  int64_t channels, run = t->access > 0 ? t->access / (int64_t)sizeof(float) : 1;
  bool quick = f->c->opt.tf32 && tn__const_int(v->size[CONV_C], &channels) && channels % run == 0;
  return t->group && v->dtype == TN_F32 &&
         (tn__target_is_narrow(t, window) || (!quick && tn__target_shares_sums(t, sums)));
}

/* Gradients of few channels and many places, f32: what libraries do with fewer multiplications moves much memory for
 * products that are narrow, then. */
/* a choice: either is right */
static bool has_few_channels(const tn__fuse *f, const tn__conv *v, double work) {
  int64_t channels, count;
  const tn__target *t = &f->dev->target;
  if (v->kind == CONV_FORWARD || v->dtype != TN_F32 || f->c->opt.tf32 || !tiles_convolve(f, v) ||
      !tn__target_is_much(t, work))
    return false;
  return tn__const_int(v->size[CONV_C], &channels) && tn__const_int(v->size[CONV_K], &count) &&
         tn__target_is_thin(t, (double)channels, (double)count);
}

/* Sums of as few products as a processor's own loops add up: where a library that convolves planes multiplies windows,
 * these are its steps. */
/* a choice: either is right */
static bool is_brief(const tn__fuse *f, const tn__conv *v) {
  tn_node *steps = tn__int(f->c, 1);
  if (!f->dev->target.planes || v->kind == CONV_FILTER) return false;
  const uint8_t of[] = {v->kind == CONV_FORWARD ? CONV_C : CONV_K, CONV_R, CONV_S};
  bool strided = v->kind == CONV_DATA && (v->stride[0] != 1 || v->stride[1] != 1);
  for (int i = 0; i < (strided ? 1 : 3); i++) steps = tn__mul(f->c, steps, v->size[of[i]]);
  return tn__gemm_is_brief(f, tn__simplify_index(f->c, steps));
}

void tn__conv_find(tn__fuse *f) {
  if (f->c->mode == TN_MODE_STRICT || (!f->dev->ops->has_conv && !f->dev->target.ntiles)) return;
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i];
    double work = 1;
    tn__conv v;
    if (!tn__is_float(n->dtype) || !is_candidate(f, n, &v)) continue;
    for (int d = 0; d < CONV_DIMS; d++)
      if (d != CONV_H && d != CONV_W) work *= (double)tn__size_guess(v.size[d]);
    v.own = !library_convolves(f, v.dtype) || has_few_channels(f, &v, work);
    v.channels_last =
        prefers_last(f, v.dtype) && (v.own || v.kind == CONV_DATA || v.operand[CONV_DATA].node->op != OP_PARAM);
    if (v.kind == CONV_FILTER && has_little_window(f, &v)) continue; /* a choice: either is right */
    if (is_brief(f, &v)) continue;                                   /* a choice: either is right */
    if (work < TN__LEAST_CALL || (v.own && !tiles_convolve(f, &v))) continue;
    f->info[i].conv = tn__arena_dup(f->a, &v, sizeof v);
  }
}

/* Outputs are row-major.  The operands' order is agreed on before it is known what else they are for, so an output is
 * copied from a result in the order that is preferred. */
tn_node *tn__conv_outputs(tn__fuse *f) {
  tn_node **src = tn__arena_alloc(f->a, (f->sink->nsrc + 1) * sizeof *src);
  bool changed = false;
  for (uint32_t i = 0; i < f->sink->nsrc; i++) {
    const tn__conv *v = tn__info_of(f, src[i] = f->sink->src[i])->conv;
    if (!v || !v->channels_last || v->own) continue;
    src[i] = tn__node_make(f->c, &(tn__make){.op = OP_CONTIG, .src = &src[i], .nsrc = 1});
    changed = true;
  }
  return changed ? tn__sink(f->c, src, f->sink->nsrc, f->sink->name) : f->sink;
}

/* a choice: either is right */
void tn__conv_strides(const tn__conv *v, const tn_node *n, double *stride) {
  const int8_t *axis = v->operand[v->kind].axis;
  double s = 1;
  for (uint32_t i = 0; i < n->rank; i++) stride[i] = 1;
  for (int p = IMAGE_AXES; p && p--;) {
    int a = axis[order_of(v, (int)v->kind)[p]];
    if (a < 0) continue;
    stride[a] = s;
    s *= (double)tn__size_guess(n->dim[a]);
  }
}

/* ---- where the operands stand ---- */

typedef struct stand { /* a node that may hold an operand, and how it is to be stored for that */
  tn_node *base, *offset;
  uint8_t *axis;
  bool easy; /* it is stored so already, or in its natural order */
} stand;

/* a choice: no is right */
static bool is_free(tn_node *y, const tn__info *in) {
  return !in->axis && in->out < 0 && y->op != OP_PARAM && y->op != OP_SCATTER && (y->op != OP_CONTRACT || in->conv);
}

/* y's axes in the order in which the operand's are wanted; NULL if it has others. */
/* a choice: no is right */
static uint8_t *find_order(tn__fuse *f, const tn__conv *v, int which, tn_node *y, tn_node *const *r,
                           tn_node *const *idx) {
  uint8_t *axis = tn__arena_alloc(f->a, y->rank + 1u);
  uint32_t n = 0;
  for (uint32_t b = 0; b < y->rank; b++)
    if (idx[b]->op != OP_RANGE) axis[n++] = (uint8_t)b; /* of size 1, as is checked by the strides */
  for (int p = 0; p < IMAGE_AXES; p++) {
    int a = v->operand[which].axis[order_of(v, which)[p]];
    for (uint32_t b = 0; a >= 0 && b < y->rank; b++)
      if (r[a]->op == OP_RANGE && idx[b] == r[a]) axis[n++] = (uint8_t)b;
  }
  return n == y->rank ? axis : NULL;
}

/* Does the operand, with y stored in this order (NULL: as it is), lie in one run? */
/* a choice: no is right */
static bool is_run(tn__fuse *f, const tn__conv *v, int which, tn_node *y, tn_node *const *r, tn_node *const *idx,
                   uint8_t *axis, tn_node **offset) {
  tn_ctx *c = f->c;
  const struct tn__conv_operand *o = &v->operand[which];
  tn__info *in = tn__info_of(f, y);
  uint8_t *old = in->axis;
  tn_node *coef[TN_MAX_RANK], *expect = tn__int(c, 1);
  if (axis) in->axis = axis;
  tn_node *flat = tn__layout_at(f, y, idx);
  in->axis = old;
  if (!tn__index_affine(c, flat, r, o->node->rank, coef, offset)) return false;
  for (int p = IMAGE_AXES; p && p--;) {
    int at = order_of(v, which)[p], a = o->axis[at];
    tn_node *size = v->size[tn__conv_dims[which][at]];
    if (a >= 0 && r[a]->op == OP_RANGE && coef[a] != expect) return false;
    expect = tn__simplify_index(c, tn__mul(c, expect, size));
  }
  return true;
}

/* a choice: either is right */
static bool is_natural(const tn_node *y, const double *stride, const uint8_t *axis) {
  double last = 0;
  for (uint32_t i = y->rank; i && i--;) {
    if (tn__is_int_const(y->dim[axis[i]], 1)) continue;
    if (stride[axis[i]] < last) return false;
    last = stride[axis[i]];
  }
  return true;
}

/* a choice: no is right */
static bool can_hold(tn__fuse *f, const tn__conv *v, int which, tn_node *y, tn_node *const *r, tn_node *const *idx,
                     stand *out) {
  tn_node *offset;
  uint8_t *axis = NULL;
  const tn__info *in = tn__info_of(f, y);
  if (is_free(y, in)) axis = find_order(f, v, which, y, r, idx);
  if (!is_run(f, v, which, y, r, idx, axis, &offset)) return false;
  *out = (stand){y, offset, axis, !axis || is_natural(y, in->stride, axis)};
  return true;
}

/* The operand as a part of something in memory: of what is stored anyway, or of the lowest node that can hold it
 * easily.  If there is none, it is stored for this purpose alone, so that others may have the rest as they like. */
/* a choice: no is right */
static bool find_stand(tn__fuse *f, const tn__conv *v, int which, stand *out) {
  tn_ctx *c = f->c;
  tn_node *y = v->operand[which].node, *r[TN_MAX_RANK], *idx[TN_MAX_RANK + 1], *next[TN_MAX_RANK + 1], *gate = NULL;
  for (uint32_t i = 0; i < y->rank; i++)
    idx[i] = r[i] = tn__axis_loop(c, y, i);
  stand s;
  bool found = can_hold(f, v, which, y, r, idx, out);
  while (tn__ops[y->op].group == G_MOVE && y->op != OP_FOLD && !(found && out->base == y && tn__info_of(f, y)->must)) {
    if (tn__info_of(f, y)->conv) break; /* itself the result of a library */
    tn__index_through(c, y, idx, next, &gate);
    if (gate) break;
    y = y->src[0];
    memcpy(idx, next, y->rank * sizeof *idx);
    if (!can_hold(f, v, which, y, r, idx, &s) || (found && !s.easy)) continue;
    found = true;
    *out = s;
  }
  return found;
}

static void take_stand(tn__fuse *f, tn__conv *v, int which, const stand *s) {
  tn__info *in = tn__info_of(f, s->base);
  if (s->axis) in->axis = s->axis;
  else tn__layout_fix(f, s->base, true);
  v->operand[which].base = s->base;
  v->operand[which].offset = s->offset;
}

/* All three operands in one order; nothing is fixed unless all fit. */
/* a choice: no is right */
static bool place_all(tn__fuse *f, tn_node *n, tn__conv *v) {
  uint8_t *old[3] = {0};
  tn__info *in[3] = {0};
  for (int i = 0; i < 3; i++) {
    int which = i ? (i - 1) + (i - 1 >= (int)v->kind) : (int)v->kind; /* the result first */
    tn_node *idx[TN_MAX_RANK];
    stand s;
    for (uint32_t a = 0; a < n->rank; a++)
      idx[a] = tn__axis_loop(f->c, n, a);
    if (i ? find_stand(f, v, which, &s) : can_hold(f, v, which, n, idx, idx, &s)) {
      in[i] = tn__info_of(f, s.base);
      old[i] = in[i]->axis;
      take_stand(f, v, which, &s);
      continue;
    }
    while (i && i--) in[i]->axis = old[i];
    return false;
  }
  in[1]->must = in[2]->must = true;
  return true;
}

/* ---- by own kernels ---- */

tn_node *tn__conv_contraction(tn_node *n) {
  while (n->op != OP_CONTRACT) n = n->src[0];
  return n;
}

static void plan_own(tn__fuse *f, tn_node *n, const tn__conv *found) {
  tn__conv *v = tn__arena_dup(f->a, found, sizeof *v);
  tn_node *dot = tn__conv_contraction(n);
  stand s;
  for (int o = 0; o < 3; o++) {
    if (o == (int)v->kind) continue;
    tn_node *base = v->operand[o].node; /* stored as it comes, if nothing better is found */
    if (find_stand(f, v, o, &s)) {
      take_stand(f, v, o, &s);
      base = s.base;
    }
    tn__info_of(f, base)->must = true;
  }
  tn__info_of(f, n)->tiled = true;
  for (tn_node *y = n; y != dot; y = y->src[0]) tn__info_of(f, y->src[0])->conv = NULL; /* parts of this one */
  if (dot != n) tn__info_of(f, dot)->inline_dot = true;
}

/* A copy of x, which may then be stored in any order; with its axes turned round inside if `turned`, so that it is not
 * the one that others get. */
static tn_node *copied(tn_ctx *c, tn_node *x, bool turned) {
  int64_t back[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) back[i] = x->rank - 1 - i;
  if (turned) x = tn__permute(c, x, back);
  x = tn__node_make(c, &(tn__make){.op = OP_CONTIG, .src = &x, .nsrc = 1});
  return turned ? tn__permute(c, x, back) : x;
}

/* Source `from` of a contraction with the operand `o` of its convolution copied, which stands there or, images, below
 * windows. */
static tn_node *with_copy(tn__fuse *f, const tn__conv *v, int o, tn_node *source, tn_node *now) {
  tn_node *x = v->operand[o].node, *fresh;
  stand s;
  if (find_stand(f, v, o, &s)) return now;
  if (x == source) return copied(f->c, now, v->kind == CONV_DATA);
  fresh = copied(f->c, x, false);
  return tn__substitute(f->c, now, &x, &fresh, 1);
}

/* Do both convolutions want their operands, which are one node, stored in the same order? */
/* a choice: either is right */
static bool same_order(const tn__conv *v, int o, const tn__conv *w, int q) {
  const tn_node *x = v->operand[o].node;
  int8_t at[2][IMAGE_AXES];
  memset(at, -1, sizeof at);
  for (int i = 0; i < 2; i++)
    for (int p = 0, n = 0; p < IMAGE_AXES; p++) {
      int a = i ? w->operand[q].axis[order_of(w, q)[p]] : v->operand[o].axis[order_of(v, o)[p]];
      if (a >= 0 && !tn__is_int_const(x->dim[a], 1)) at[i][n++] = (int8_t)a;
    }
  return !memcmp(at[0], at[1], sizeof *at);
}

/* Does one of the first n convolutions have the operand stored in another order?  What is the same when its axes change
 * places, as a constant is, is one node. */
/* a choice: either is right */
static bool is_contested(const tn__conv *const *of, uint32_t n, const tn__conv *v, int o) {
  for (uint32_t i = 0; i < n; i++)
    for (int q = 0; of[i] && !of[i]->own && q < 3; q++)
      if (q != (int)of[i]->kind && of[i]->operand[q].node == v->operand[o].node && !same_order(v, o, of[i], q))
        return true;
  return false;
}

/* What own convolutions read, where it cannot be stored in the order that they want, is copied; so is what libraries
 * read in several orders. */
tn_node *tn__conv_operands(tn__fuse *f) {
  tn_node **now = tn__arena_alloc(f->a, (f->order.n + 1) * sizeof *now);
  const tn__conv **of = tn__arena_zalloc(f->a, (f->order.n + 1) * sizeof *of);
  for (uint32_t i = 0; i < f->order.n; i++)
    if (f->info[i].conv)
      of[tn__info_of(f, tn__conv_contraction(f->order.v[i])) - f->info] = f->info[i].conv;
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i], **src = tn__arena_alloc(f->a, (n->nsrc + 1) * sizeof *src);
    bool changed = false;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      const tn__info *in = tn__info_of(f, n->src[k]);
      src[k] = in ? now[in - f->info] : n->src[k];
      for (int o = 0; o < 3 && of[i]; o++) {
        bool images = o == CONV_DATA &&
                      n->src[k] != of[i]->operand[of[i]->kind == CONV_FORWARD ? CONV_FILTER : CONV_FORWARD].node;
        if (o == (int)of[i]->kind) continue;
        if (of[i]->own && (images || of[i]->operand[o].node == n->src[k]))
          src[k] = with_copy(f, of[i], o, n->src[k], src[k]);
        else if (!of[i]->own && src[k] == n->src[k] && of[i]->operand[o].node == src[k] &&
                 is_contested(of, i, of[i], o))
          src[k] = copied(f->c, src[k], true);
      }
      changed |= src[k] != n->src[k];
    }
    now[i] = changed ? tn__node_with(f->c, n, src) : n;
  }
  return now[f->order.n - 1];
}

const tn__conv *tn__conv_plan(tn__fuse *f, tn_node *n) {
  const tn__conv *found = tn__info_of(f, n)->conv;
  if (!found) return NULL;
  if (found->own) {
    plan_own(f, n, found);
    return NULL;
  }
  tn__conv *v = tn__arena_dup(f->a, found, sizeof *v);
  for (int i = 0; i < 2; i++, v->channels_last = !v->channels_last)
    if (!(v->channels_last && f->dev->target.planes) && place_all(f, n, v)) return v;
  return NULL;
}
