/* What calls of libraries compute, as places in their operands' memory. */
#include "device/device.h"

/* ---- products ---- */

int64_t tn__product_a(const tn__product *g, int64_t batch, int64_t i, int64_t k) {
  return batch * g->stride_a + (g->trans_a ? k * g->lda + i : i * g->lda + k);
}

int64_t tn__product_b(const tn__product *g, int64_t batch, int64_t k, int64_t j) {
  return batch * g->stride_b + (g->trans_b ? j * g->ldb + k : k * g->ldb + j);
}

int64_t tn__product_c(const tn__product *g, int64_t batch, int64_t i, int64_t j) {
  return batch * g->stride_c + i * g->ldc + j;
}

/* ---- convolutions ---- */

const uint8_t tn__conv_dims[3][4] = {
    [CONV_DATA] = {CONV_N, CONV_C, CONV_H, CONV_W},
    [CONV_FILTER] = {CONV_K, CONV_C, CONV_R, CONV_S},
    [CONV_FORWARD] = {CONV_N, CONV_K, CONV_P, CONV_Q},
};

const uint8_t tn__conv_summed[3][3] = {
    [CONV_DATA] = {CONV_K, CONV_R, CONV_S},
    [CONV_FILTER] = {CONV_N, CONV_P, CONV_Q},
    [CONV_FORWARD] = {CONV_C, CONV_R, CONV_S},
};

int64_t tn__conv_place(const tn__conv_call *v, int o, const int64_t *at) {
  static const uint8_t order[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
  int64_t place = 0;
  for (int i = 0; i < 4; i++) {
    uint8_t dim = tn__conv_dims[o][order[v->channels_last][i]];
    place = place * v->size[dim] + at[dim];
  }
  return place;
}

bool tn__conv_meet(const tn__conv_call *v, int64_t *at) {
  for (int i = 0; i < 2; i++) {
    int64_t *image = &at[CONV_H + i], *place = &at[CONV_P + i], offset = at[CONV_R + i] * v->dilation[i];
    if (v->kind != CONV_DATA) {
      *image = *place * v->stride[i] + offset - v->pad[i];
      if (*image < 0 || *image >= v->size[CONV_H + i]) return false;
    } else {
      int64_t from = *image + v->pad[i] - offset;
      if (from < 0 || from % v->stride[i]) return false;
      *place = from / v->stride[i];
      if (*place >= v->size[CONV_P + i]) return false;
    }
  }
  return true;
}
