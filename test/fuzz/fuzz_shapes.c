/* Shapes at the API: the bytes choose calls of the movement and reduction functions with arbitrary axes, sizes and
 * steps, symbolic ones among them.  Every call gives a tensor of legal rank, or an error with a text.  What has plain
 * sizes and few elements, and was made of such, is then computed. */
#include "tenet/tenet.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MOST_ELEMENTS = 4096 };

typedef struct input {
  const uint8_t *at, *end;
} input;

static int byte(input *in) { return in->at < in->end ? *in->at++ : 0; }
static int axis(input *in) { return byte(in) % 9 - 4; }

static tn_dim size(tn_ctx *c, input *in, const tn_dim *var) {
  static const tn_dim odd[] = {-1, -2, INT64_MAX, INT64_MIN, 1LL << 40, 65536, -7};
  int b = byte(in);
  if (b < 160) return b % 8;
  if (b < 200) return odd[b % 7];
  return b < 230 ? var[b % 2] : tn_dim_mul(c, var[b % 2], b % 3);
}

static tn_tensor *call(tn_ctx *c, input *in, const tn_dim *var, tn_tensor *x, tn_tensor *y) {
  tn_dim d[2 * TN_MAX_RANK + 2];
  int axes[8], n = byte(in) % 6;
  for (int i = 0; i < 2 * TN_MAX_RANK + 2; i++) d[i] = i < 12 ? size(c, in, var) : 0;
  for (int i = 0; i < 8; i++) axes[i] = i < n ? axis(in) : 0;
  switch (byte(in) % 26) {
  case 0: return tn_reshape(x, d, n);
  case 1: return tn_expand(x, d, n);
  case 2: return tn_permute(x, axes, n);
  case 3: return tn_transpose(x, axes[0], axes[1]);
  case 4: return tn_pad(x, d, 0);
  case 5: return tn_shrink(x, d, d + TN_MAX_RANK);
  case 6: return tn_flip(x, axes, n);
  case 7: return tn_slice(x, axes[0], d[0], d[1], (int64_t)byte(in) % 7 - 3);
  case 8: return tn_select(x, axes[0], d[0]);
  case 9: return tn_concatenate((tn_tensor *[]){x, y, x}, 1 + n % 3, axes[0]);
  case 10: return tn_stack((tn_tensor *[]){x, y}, 2, axes[0]);
  case 11: return tn_tile(x, d, n);
  case 12: return tn_repeat(x, d[0], axes[0]);
  case 13: return tn_unfold(x, axes[0], d[0], d[1], d[2]);
  case 14: return tn_sum(x, n ? axes : NULL, n, byte(in) & 1);
  case 15: return tn_max(x, n ? axes : NULL, n, byte(in) & 1);
  case 16: return tn_argmax(x, axes[0], byte(in) & 1);
  case 17: return tn_squeeze(x, n ? axes : NULL, n);
  case 18: return tn_unsqueeze(x, axes[0]);
  case 19: return tn_flatten(x, axes[0], axes[1]);
  case 20: return tn_matmul(x, y);
  case 21: return tn_add(x, y);
  case 22: return tn_softmax(x, axes[0]);
  case 23: return tn_take(x, tn_cast(y, TN_I32), axes[0]);
  case 24: return tn_tril(x, d[0]);
  default: return tn_full(c, TN_F32, d, n, 2);
  }
}

static void insist(int good) {
  if (!good) abort();
}

static bool small(const tn_tensor *t) {
  tn_dim n = tn_numel(t), d[TN_MAX_RANK];
  if (tn_dim_is_symbolic(n) || n < 0 || n > MOST_ELEMENTS || tn_shape(t, d)) return false;
  for (int i = 0; i < tn_rank(t); i++)
    if (tn_dim_is_symbolic(d[i])) return false;
  return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  input in = {data, data + bytes};
  tn_ctx *c =
      tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = "", .threads = 1, .quiet = 1, .mem_limit = 64 << 20});
  insist(c != NULL);
  tn_tensor *pool[MOST] = {tn_arange(c, TN_F32, 0, 12, 1), tn_eye(c, TN_F32, 3, 4)};
  tn_dim var[2] = {tn_dim_var(c, "N", 0, 9), tn_dim_var(c, "M", 1, 1 << 20)};
  bool light[MOST] = {true, true};
  int n = 2;
  while (in.at < in.end && n < MOST) {
    int i = n - 1 - byte(&in) % (n < 4 ? n : 4), j = byte(&in) % n;
    tn_tensor *t = call(c, &in, var, pool[i], pool[j]);
    if (t) {
      insist(tn_rank(t) >= 0 && tn_rank(t) <= TN_MAX_RANK && tn_numel(t) != TN_DIM_ERROR);
      light[n] = light[i] && light[j] && small(t);
      pool[n++] = t;
    } else {
      insist(tn_last_error(c)->status != TN_OK && *tn_last_error(c)->text && tn_last_error(c)->status != TN_ERUN);
      tn_clear_error(c);
    }
  }
  tn_tensor *all[MOST];
  int k = 0;
  for (int i = 2; i < n; i++)
    if (light[i]) all[k++] = pool[i];
  tn_status s = tn_realize(all, k > 6 ? 6 : k);
  insist(s == TN_OK || s == TN_EBOUND || s == TN_ENOMEM || s == TN_ENOTSUP);
  tn_ctx_close(c);
  return 0;
}
