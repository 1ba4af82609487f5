#include "support/programs.h"
#include "ir/eval.h"
#include "support/graph.h"
#include <math.h>
#include <stdlib.h>

typedef void (*look_fn)(tn_tensor *result);

static tn_tensor *numbers(tn_ctx *c, tn_dtype dtype, int rank, const tn_dim *shape, int64_t modulus) {
  size_t n = 1, size = tn_dtype_size(dtype);
  for (int i = 0; i < rank; i++) n *= (size_t)shape[i];
  char *v = malloc((n + 1) * size);
  if (!v) abort();
  for (size_t i = 0; i < n; i++)
    tn__eval_store((int)dtype, v + i * size, tn__eval_from_double((int)dtype, (double)((int64_t)i * 7919 % modulus)));
  tn_tensor *t = tn_from(c, dtype, shape, rank, v);
  free(v);
  return t;
}
#define TENSOR(dtype, modulus, ...)                                                                                    \
  numbers(c, dtype, (int)(sizeof((tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim)), (tn_dim[]){__VA_ARGS__}, modulus)

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static int with_gradients(tn_tensor *y, int n, tn_tensor *const *x, tn_tensor **out) {
  tn_tensor *loss = tn_mean(tn_square(y), NULL, 0, false);
  out[0] = loss;
  return tn_grad(loss, n, x, out + 1) == TN_OK ? n + 1 : 1;
}

static int perceptron(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 33, 20), *p[] = {TENSOR(TN_F32, 7, 20, 24), TENSOR(TN_F32, 3, 24),
                                                    TENSOR(TN_F32, 7, 24, 10), TENSOR(TN_F32, 3, 10)};
  tn_tensor *h = tn_relu(tn_add(tn_matmul(x, p[0]), p[1])), *y = tn_add(tn_matmul(h, p[2]), p[3]);
  out[0] = tn_cross_entropy(y, TENSOR(TN_I32, 10, 33));
  return tn_grad(out[0], 4, p, out + 1) == TN_OK ? 5 : 1;
}

static int convolutions(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 2, 3, 9, 8), *p[] = {TENSOR(TN_F32, 7, 4, 3, 3, 3), TENSOR(TN_F32, 3, 4), x};
  tn_conv2d_options o = {.stride = {2, 1}, .padding = {1, 1}};
  return with_gradients(tn_max_pool2d(tn_conv2d(x, p[0], p[1], &o), 2, 2, NULL), 3, p, out);
}

static int norms(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 11, 38, 70), TENSOR(TN_F32, 3, 70), TENSOR(TN_F32, 5, 70)};
  return with_gradients(tn_softmax(tn_layer_norm(p[0], 1, p[1], p[2], 1e-5), 1), 3, p, out);
}

static int attention(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 5, 2, 17, 8), TENSOR(TN_F32, 7, 2, 17, 8), TENSOR(TN_F32, 3, 2, 17, 8)};
  tn_tensor *s = tn_mul_scalar(tn_matmul(p[0], tn_transpose(p[1], 1, 2)), 0.25);
  tn_tensor *mask = tn_tril(tn_ones(c, TN_F32, (tn_dim[]){17, 17}, 2), 0);
  s = tn_where(tn_gt_scalar(mask, 0), s, tn_full_like(s, -INFINITY));
  return with_gradients(tn_matmul(tn_softmax(s, 2), p[2]), 3, p, out);
}

static int places(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 5, 40, 6), TENSOR(TN_F32, 9, 200, 6)}, *at = TENSOR(TN_I32, 40, 200);
  tn_tensor *taken = tn_take(p[0], at, 0), *put = tn_index_add(p[0], 0, at, p[1]);
  out[0] = tn_scatter_add(TENSOR(TN_I32, 5, 90), 0, TENSOR(TN_I64, 13, 300), TENSOR(TN_I32, 7, 300));
  return 1 + with_gradients(tn_add(tn_sum(taken, NULL, 0, false), put), 2, p, out + 1);
}

static int sums(tn_ctx *c, tn_tensor **out) {
  int first = 0, second = 1;
  tn_tensor *x = TENSOR(TN_F32, 5, 700, 30), *y = TENSOR(TN_F16, 5, 3, 2000), *z = TENSOR(TN_I32, 9, 100000);
  out[0] = tn_sum(x, &first, 1, false);
  out[1] = tn_max(x, &second, 1, true);
  out[2] = tn_mean(y, &second, 1, false);
  out[3] = tn_sum(z, NULL, 0, false);
  out[4] = tn_argmax(x, 1, false);
  out[5] = tn_prod(tn_cast(x, TN_F64), &second, 1, false);
  out[6] = tn_prod(tn_mul(x, tn_slice(x, 0, INT64_MAX, INT64_MIN, -1)), &second, 1, false);
  return 7;
}

/* More than 32 bits count; printed and read back, as smaller ones compared, and not run. */
static int large(tn_ctx *c, tn_tensor **out) {
  tn_tensor *i = tn_arange(c, TN_I64, 0, 5e9, 1);
  out[0] = tn_max(tn_mul_scalar(i, 3), NULL, 0, false);
  return 1;
}

static int movements(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 12, 10), *y = TENSOR(TN_F32, 7, 12, 10);
  tn_tensor *part[] = {x, y, tn_flip(x, NULL, 0), tn_mul_scalar(y, 2), tn_slice(x, 0, 1, 11, 3)};
  out[0] = tn_concatenate(part, 5, 0);
  out[1] = tn_pad(tn_transpose(x, 0, 1), (tn_dim[]){1, 2, 0, 3}, 4);
  out[2] = tn_sum(tn_unfold(y, 0, 3, 2, 2), (int[]){1}, 1, false);
  out[3] = tn_reshape(tn_expand(tn_unsqueeze(x, 1), (tn_dim[]){12, 3, 10}, 3), (tn_dim[]){36, 10}, 2);
  out[4] = tn_tril(tn_add(x, tn_slice(y, 0, INT64_MAX, INT64_MIN, -1)), 1);
  return 5;
}

static int halves(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_BF16, 5, 66, 36), TENSOR(TN_BF16, 3, 36, 34)}, *q = TENSOR(TN_F16, 5, 65, 70);
  tn_tensor *y = tn_gelu_tanh(tn_matmul(p[0], p[1]));
  out[0] = tn_tanh(tn_exp(tn_mul_scalar(q, 0.1)));
  return 1 + with_gradients(y, 2, p, out + 1);
}

/* Running sums: rows that a group goes along, one or several; columns; from the end. */
static int scans(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 3, 300), *y = TENSOR(TN_I32, 9, 200, 40), *z = TENSOR(TN_I32, 7, 1500);
  out[0] = tn_cumsum(y, 1);
  out[1] = tn_cumsum(z, 0);
  out[2] = tn_cumsum(x, 0);
  return 3 + with_gradients(tn_mul(tn_cumsum(x, 1), x), 1, &x, out + 3);
}

static int integers(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_I32, 100, 300), *y = TENSOR(TN_U8, 250, 300), *z = TENSOR(TN_I64, 9, 300);
  out[0] = tn_floordiv(x, tn_sub_scalar(x, 50));
  out[1] = tn_mod(tn_neg(x), tn_add_scalar(x, 3));
  out[2] = tn_shl(z, tn_bitwise_and(z, tn_full_like(z, 7)));
  out[3] = tn_pow(z, tn_full_like(z, 3));
  out[4] = tn_cast(y, TN_F32);
  out[5] = tn_where(tn_gt_scalar(x, 10), x, tn_cast(y, TN_I32));
  return 6;
}

static int transformer(tn_ctx *c, tn_tensor **out) {
  enum { STEPS = 5, ROWS = 2 * STEPS, WIDTH = 16, HEADS = 2 };
  tn_tensor *x = TENSOR(TN_F32, 5, ROWS, WIDTH), *p[] = {TENSOR(TN_F32, 3, WIDTH), TENSOR(TN_F32, 5, WIDTH),
                                                         TENSOR(TN_F32, 7, 3 * WIDTH, WIDTH),
                                                         TENSOR(TN_F32, 11, WIDTH, WIDTH),
                                                         TENSOR(TN_F32, 13, 4 * WIDTH, WIDTH),
                                                         TENSOR(TN_F32, 17, WIDTH, 4 * WIDTH)};
  tn_tensor *all = tn_linear(tn_layer_norm(x, 1, p[0], p[1], 1e-5), p[2], NULL), *part[3];
  all = tn_permute(tn_reshape(all, (tn_dim[]){2, STEPS, 3, HEADS, WIDTH / HEADS}, 5), (int[]){2, 0, 3, 1, 4}, 5);
  if (tn_split(all, 3, 0, part) != TN_OK) return 0;
  for (int i = 0; i < 3; i++) part[i] = tn_squeeze(part[i], (int[]){0}, 1);
  tn_tensor *seen = tn_softmax(tn_mul_scalar(tn_matmul(part[0], tn_transpose(part[1], 2, 3)), 0.35), 3);
  tn_tensor *back = tn_permute(tn_matmul(seen, part[2]), (int[]){0, 2, 1, 3}, 4);
  back = tn_reshape(back, (tn_dim[]){ROWS, WIDTH}, 2);
  tn_tensor *y = tn_add(x, tn_linear(back, p[3], NULL));
  y = tn_add(y, tn_linear(tn_gelu(tn_linear(tn_rms_norm(y, 1, p[0], 1e-5), p[4], NULL)), p[5], NULL));
  return with_gradients(y, 6, p, out);
}

static int lstm(tn_ctx *c, tn_tensor **out) {
  enum { ROWS = 6, WIDTH = 8, STEPS = 4 };
  tn_tensor *x = TENSOR(TN_F32, 5, STEPS, ROWS, WIDTH), *w[] = {TENSOR(TN_F32, 7, 2 * WIDTH, 4 * WIDTH),
                                                                TENSOR(TN_F32, 3, 4 * WIDTH)};
  tn_tensor *h = tn_zeros(c, TN_F32, (tn_dim[]){ROWS, WIDTH}, 2), *cell = h;
  for (int i = 0; i < STEPS; i++) {
    tn_tensor *in = tn_concatenate((tn_tensor *[]){tn_select(x, 0, i), h}, 2, 1), *part[4];
    if (tn_split(tn_add(tn_matmul(in, w[0]), w[1]), 4, 1, part) != TN_OK) return 0;
    cell = tn_add(tn_mul(tn_sigmoid(part[0]), cell), tn_mul(tn_sigmoid(part[1]), tn_tanh(part[2])));
    h = tn_mul(tn_sigmoid(part[3]), tn_tanh(cell));
  }
  return with_gradients(h, 2, w, out);
}

static int embedding(tn_ctx *c, tn_tensor **out) {
  tn_tensor *table = TENSOR(TN_F32, 5, 50, 12), *at = TENSOR(TN_I64, 47, 6, 7);
  return with_gradients(tn_mean(tn_embedding(table, at), (int[]){1}, 1, false), 1, &table, out);
}

static int batch_norm(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 11, 6, 5, 4, 3), TENSOR(TN_F32, 3, 5, 1, 1), TENSOR(TN_F32, 5, 5, 1, 1)};
  int over[] = {0, 2, 3};
  tn_tensor *from = tn_sub(p[0], tn_mean(p[0], over, 3, true));
  tn_tensor *y = tn_mul(from, tn_rsqrt(tn_add_scalar(tn_var(p[0], over, 3, 0, true), 1e-5)));
  return with_gradients(tn_relu(tn_add(tn_mul(y, p[1]), p[2])), 3, p, out);
}

/* The likelihood of a mixture of normal distributions */
static int mixture(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F64, 11, 40, 1, 3), *p[] = {TENSOR(TN_F64, 7, 5), TENSOR(TN_F64, 5, 5, 3),
                                                       TENSOR(TN_F64, 3, 5, 3)};
  tn_tensor *far = tn_mul(tn_sub(x, p[1]), tn_exp(p[2]));
  tn_tensor *each = tn_sum(tn_square(far), (int[]){2}, 1, false);
  each = tn_sub(tn_sum(p[2], (int[]){1}, 1, false), tn_mul_scalar(each, 0.5));
  return with_gradients(tn_logsumexp(tn_add(each, tn_log_softmax(p[0], 0)), (int[]){1}, 1, false), 3, p, out);
}

static int axes(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 23, 7, 6, 9, 34), *y = TENSOR(TN_BF16, 11, 40, 35);
  for (int i = 0; i < 4; i++) out[i] = tn_sum(tn_tanh(x), &i, 1, i & 1);
  out[4] = tn_max(x, (int[]){0, 2}, 2, false);
  out[5] = tn_std(x, (int[]){1, 3}, 2, 1, false);
  out[6] = tn_argmin(x, 2, true);
  out[7] = tn_any(tn_gt_scalar(y, 9), (int[]){0}, 1, false);
  out[8] = tn_sum(y, (int[]){1}, 1, false);
  out[9] = tn_logsumexp(y, (int[]){0}, 1, false);
  return 10;
}

static int windows(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 5, 2, 4, 11, 7), TENSOR(TN_F32, 7, 6, 2, 3, 2)};
  tn_conv2d_options o = {.stride = {2, 1}, .padding = {2, 1}, .dilation = {1, 2}, .groups = 2};
  tn_tensor *h = TENSOR(TN_F16, 5, 1, 8, 6, 6), *w = TENSOR(TN_F16, 3, 8, 8, 1, 1);
  out[0] = tn_conv2d(h, w, NULL, NULL);
  return 1 + with_gradients(tn_avg_pool2d(tn_silu(tn_conv2d(p[0], p[1], NULL, &o)), 3, 2, NULL), 2, p, out + 1);
}

static int products(tn_ctx *c, tn_tensor **out) {
  tn_tensor *h = TENSOR(TN_F16, 5, 48, 32), *b = TENSOR(TN_BF16, 3, 3, 20, 36), *d = TENSOR(TN_F64, 7, 9, 14);
  tn_tensor *i = TENSOR(TN_I32, 9, 12, 10), *v = TENSOR(TN_F32, 5, 200);
  out[0] = tn_relu(tn_matmul(h, tn_transpose(h, 0, 1)));
  out[1] = tn_matmul(b, tn_transpose(b, 1, 2));
  out[2] = tn_einsum("ij,kj->ik", (tn_tensor *[]){d, d}, 2);
  out[3] = tn_matmul(tn_transpose(i, 0, 1), i);
  out[4] = tn_dot(v, v);
  out[5] = tn_outer(v, tn_slice(v, 0, 0, 50, 1));
  out[6] = tn_einsum("bij,bkj->bk", (tn_tensor *[]){b, b}, 2);
  return 7;
}

static int bits(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_U32, 1000, 333), *y = TENSOR(TN_I16, 90, 333), *s = TENSOR(TN_I8, 5, 65, 3);
  tn_tensor *big = TENSOR(TN_I64, 9, 30);
  out[0] = tn_bitwise_xor(tn_shr(x, tn_full_like(x, 3)), tn_bitwise_not(x));
  out[1] = tn_mul(tn_cast(y, TN_I64), tn_cast(x, TN_I64));
  out[2] = tn_bitcast(x, TN_F32);
  out[3] = tn_prod(s, (int[]){0}, 1, false);
  out[4] = tn_minimum(tn_abs(tn_sub_scalar(y, 40)), tn_sign(y));
  out[5] = tn_one_hot(TENSOR(TN_I32, 7, 30), 7, TN_F32);
  out[6] = tn_dropout(TENSOR(TN_F32, 5, 129), 0.25, true);
  out[7] = tn_eq(big, tn_full_i64(c, TN_I64, NULL, 0, INT64_MIN));
  return 8;
}

static int moves(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 6, 4, 10), *y = TENSOR(TN_U8, 7, 24, 33);
  out[0] = tn_stack((tn_tensor *[]){x, tn_neg(x)}, 2, 1);
  out[1] = tn_repeat(tn_permute(x, (int[]){2, 0, 1}, 3), 3, 1);
  out[2] = tn_tile(y, (tn_dim[]){2, 3}, 2);
  out[3] = tn_add_scalar(tn_shrink(y, (tn_dim[]){3, 1}, (tn_dim[]){20, 31}), 1);
  out[4] = tn_contiguous(tn_transpose(y, 0, 1));
  out[5] = tn_take_along_axis(x, TENSOR(TN_I32, 4, 6, 9, 10), 1);
  out[6] = tn_mul_scalar(tn_flatten(tn_transpose(x, 0, 2), 0, 1), 3);
  return 7;
}

static int losses(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 9, 20, 7), *t = TENSOR(TN_F32, 2, 20, 7), *loss[4];
  loss[0] = tn_binary_cross_entropy_with_logits(x, t);
  loss[1] = tn_mse_loss(x, t);
  loss[2] = tn_nll_loss(tn_log_softmax(x, 1), TENSOR(TN_I64, 7, 20));
  loss[3] = tn_mean(tn_softplus(tn_elu(tn_hypot(x, t), 1)), NULL, 0, false);
  for (int i = 0; i < 4; i++)
    if (tn_grad(loss[i], 1, &x, &out[2 * i]) == TN_OK) out[2 * i + 1] = loss[i];
    else return 0;
  return 8;
}

static int functions(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = tn_mul_scalar(TENSOR(TN_F32, 23, 300), 0.04), *d = tn_cast(x, TN_F64), *h = tn_cast(x, TN_F16);
  out[0] = tn_sin(tn_exp2(tn_atan2(tn_log1p(x), tn_erf(x))));
  out[1] = tn_pow(tn_asinh(d), tn_cosh(d));
  out[2] = tn_floor(tn_div(tn_sqrt(h), tn_clamp(h, 0.5, 2)));
  out[3] = tn_where(tn_isfinite(tn_log(x)), tn_fmod(x, tn_const(c, TN_F32, 0.3)), tn_round(x));
  return 4;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

/* A training step of its own state, twice, at two sizes. */
static void step(tn_ctx *c, look_fn look) {
  tn_scope(c) {
    tn_dim rows = tn_dim_var(c, "B", 1, 40);
    tn_tensor *w = tn_keep(TENSOR(TN_F32, 7, 12, 5)), *bias = tn_keep(TENSOR(TN_F32, 3, 5)), *g[2];
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){rows, 12}, 2);
    tn_tensor *t = tn_program_input(p, "t", TN_I32, &rows, 1), *wrt[] = {w, bias};
    tn_tensor *loss = tn_cross_entropy(tn_add(tn_matmul(x, w), bias), t);
    tn_grad(loss, 2, wrt, g);
    tn_assign(w, tn_sub(w, tn_mul_scalar(g[0], 0.1)));
    tn_assign(bias, tn_sub(bias, tn_mul_scalar(g[1], 0.1)));
    tn_program_output(p, "loss", loss);
    tn_program_end(p);
    for (tn_dim n = 7; n < 40 && tn_last_error(c)->status == TN_OK; n += 13) {
      tn_program_bind(p, "x", TENSOR(TN_F32, 5, n, 12));
      tn_program_bind(p, "t", TENSOR(TN_I32, 5, n));
      for (int k = 0; k < 3; k++) tn_program_run(p);
    }
    tn_program_close(p);
    if (look) look(w), look(bias);
    tn_release(w);
    tn_release(bias);
  }
}

/* Inputs that are written where they stand, at sizes that come back; now and then a result is kept, and the next run
 * has another place for it. */
static void stream(tn_ctx *c, look_fn look) {
  static const tn_dim rows[] = {33, 33, 33, 20, 20, 20, 33, 33, 33};
  static float data[33 * 12];
  for (int i = 0; i < 33 * 12; i++) data[i] = (float)(i * 7919 % 11);
  tn_scope(c) {
    tn_dim n = tn_dim_var(c, "N", 1, 40);
    tn_tensor *w = TENSOR(TN_F32, 7, 12, 5);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){n, 12}, 2), *y = tn_softmax(tn_matmul(x, w), 1);
    tn_program_output(p, "y", y);
    tn_program_output(p, "sums", tn_sum(tn_mul(y, tn_flip(y, NULL, 0)), (int[]){0}, 1, false));
    tn_program_output(p, "squares", tn_square(x));
    tn_program_end(p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && tn_last_error(c)->status == TN_OK; i++) {
      tn_program_write(p, "x", (tn_dim[]){rows[i], 12}, 2, data, (size_t)rows[i] * 12 * sizeof *data);
      tn_program_run(p);
      tn_tensor *kept = i == 5 || i == 7 ? tn_program_result(p, "sums") : NULL;
      if (look && kept) look(kept);
    }
    tn_program_close(p);
  }
}

/* Old values of state that somebody keeps, or means to use; memory changes places in the runs between. */
static void old_values(tn_ctx *c, look_fn look) {
  tn_scope(c) {
    tn_tensor *w = TENSOR(TN_F32, 7, 30), *seen[4];
    tn_program *p = tn_program_begin(c);
    tn_scope(c) tn_assign(w, tn_mul_scalar(tn_flip(w, NULL, 0), 2));
    tn_program_end(p);
    for (int i = 0; i < 4; i++) {
      tn_program_run(p);
      seen[i] = i % 2 ? tn_slice(w, 0, 0, 20, 1) : tn_add_scalar(w, 1);
      tn_program_run(p);
      tn_program_run(p);
    }
    tn_program_close(p);
    tn_realize(seen, 4);
    for (int i = 0; look && i < 4; i++) look(seen[i]);
    if (look) look(w);
  }
}

static void assign(tn_ctx *c, look_fn look) {
  tn_scope(c) {
    tn_tensor *x = TENSOR(TN_F32, 5, 8, 9), *y = TENSOR(TN_F32, 7, 8, 9);
    tn_assign(tn_slice(x, 0, 1, 7, 2), tn_mul_scalar(tn_slice(y, 0, 1, 4, 1), 2));
    tn_tensor *z = tn_add(x, y);
    tn_assign(x, tn_transpose(tn_reshape(y, (tn_dim[]){9, 8}, 2), 0, 1));
    tn_realize((tn_tensor *[]){z, x}, 2);
    if (look) look(z), look(x);
  }
}

/* Trains the parameters that are listed, by `forward`, for two steps; input: of so many rows */
static void train(tn_ctx *c, look_fn look, tn_params *params, tn_optim *o, tn_tensor *x,
                  tn_tensor *(*forward)(tn_tensor *const *p, tn_tensor *x)) {
  tn_dim shape[4];
  for (int i = 0; i < tn_rank(x); i++) shape[i] = tn_size(x, i);
  tn_tensor *grads[8] = {0};
  tn_program *p = tn_program_begin(c);
  tn_tensor *in = tn_program_input(p, "x", TN_F32, shape, tn_rank(x));
  tn_tensor *t = tn_program_input(p, "t", TN_I32, shape, 1);
  tn_tensor *loss = tn_cross_entropy(forward(tn_params_tensors(params), in), t);
  tn_grad(loss, tn_params_count(params), tn_params_tensors(params), grads);
  tn_optim_step(o, grads);
  tn_program_output(p, "loss", loss);
  tn_program_end(p);
  tn_program_bind(p, "x", x);
  tn_program_bind(p, "t", TENSOR(TN_I32, 10, shape[0]));
  for (int i = 0; i < 2; i++) tn_program_run(p);
  tn_program_close(p);
  for (int i = 0; look && i < tn_params_count(params); i++) look(tn_params_tensors(params)[i]);
  tn_optim_close(o);
  tn_params_close(params);
}

static tn_tensor *mlp_forward(tn_tensor *const *p, tn_tensor *x) {
  return tn_linear(tn_gelu_tanh(tn_linear(x, p[0], p[1])), p[2], p[3]);
}

static void mlp(tn_ctx *c, look_fn look) {
  tn_scope(c) {
    tn_params *p = tn_params_open(c);
    tn_params_add(p, "w1", TENSOR(TN_F32, 7, 32, 40));
    tn_params_add(p, "b1", TENSOR(TN_F32, 3, 32));
    tn_params_add(p, "w2", TENSOR(TN_F32, 5, 10, 32));
    tn_params_add(p, "b2", TENSOR(TN_F32, 3, 10));
    train(c, look, p, tn_sgd(p, 0.1, 0.9, 1e-4, true), TENSOR(TN_F32, 11, 24, 40), mlp_forward);
  }
}

static tn_tensor *cnn_forward(tn_tensor *const *p, tn_tensor *x) {
  tn_conv2d_options o = {.padding = {1, 1}};
  tn_tensor *h = tn_max_pool2d(tn_relu(tn_conv2d(x, p[0], p[1], &o)), 2, 2, NULL);
  h = tn_max_pool2d(tn_relu(tn_conv2d(h, p[2], p[3], &o)), 2, 2, NULL);
  return tn_linear(tn_flatten(h, 1, 3), p[4], p[5]);
}

static void cnn(tn_ctx *c, look_fn look) {
  tn_scope(c) {
    tn_params *p = tn_params_open(c);
    tn_params_add(p, "w1", TENSOR(TN_F32, 7, 8, 1, 3, 3));
    tn_params_add(p, "b1", TENSOR(TN_F32, 3, 8));
    tn_params_add(p, "w2", TENSOR(TN_F32, 5, 8, 8, 3, 3));
    tn_params_add(p, "b2", TENSOR(TN_F32, 3, 8));
    tn_params_add(p, "w3", TENSOR(TN_F32, 7, 10, 32));
    tn_params_add(p, "b3", TENSOR(TN_F32, 3, 10));
    train(c, look, p, tn_adam(p, 1e-3, 0.9, 0.999, 1e-8, 0), TENSOR(TN_F32, 11, 3, 1, 8, 8), cnn_forward);
  }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const program program_list[] = {{.name = "perceptron", .graph = perceptron},
                                {.name = "convolutions", .graph = convolutions},
                                {.name = "norms", .graph = norms},
                                {.name = "attention", .graph = attention},
                                {.name = "places", .graph = places},
                                {.name = "sums", .graph = sums},
                                {.name = "movements", .graph = movements},
                                {.name = "halves", .graph = halves},
                                {.name = "integers", .graph = integers},
                                {.name = "large", .graph = large, .large = true},
                                {.name = "transformer", .graph = transformer},
                                {.name = "lstm", .graph = lstm},
                                {.name = "embedding", .graph = embedding},
                                {.name = "batch norm", .graph = batch_norm},
                                {.name = "mixture", .graph = mixture},
                                {.name = "axes", .graph = axes},
                                {.name = "windows", .graph = windows},
                                {.name = "products", .graph = products},
                                {.name = "bits", .graph = bits},
                                {.name = "moves", .graph = moves},
                                {.name = "losses", .graph = losses},
                                {.name = "functions", .graph = functions},
                                {.name = "scans", .graph = scans},
                                {.name = "step", .run = step},
                                {.name = "stream", .run = stream},
                                {.name = "old values", .run = old_values},
                                {.name = "assign", .run = assign},
                                {.name = "mlp", .run = mlp},
                                {.name = "cnn", .run = cnn}};
const int program_count = sizeof program_list / sizeof *program_list;

void program_run(tn_ctx *c, const program *p, void (*look)(tn_tensor *result)) {
  if (p->run) {
    p->run(c, look);
    return;
  }
  tn_scope(c) {
    tn_tensor *out[PROGRAM_OUTPUTS] = {0};
    int n = p->graph(c, out);
    if (tn_realize(out, n) == TN_OK && n > 0) tn_realize(out, n);
    for (int i = 0; look && i < n; i++) look(out[i]);
  }
}

bool program_random(tn_ctx *c, uint64_t seed, graph *out) {
  static const graph_size sizes[] = {
      {.nodes = 16, .outputs = 4, .longest = 8, .elements = 300, .work = 3000, .rank = 5},
      {.nodes = 12, .outputs = 3, .longest = 150, .elements = 2000, .work = 8000, .rank = 4},
      {.nodes = 12, .outputs = 3, .longest = 8, .elements = 2000, .work = 8000, .rank = 4, .symbolic = 13}};
  graph_dice d = {.state = seed << 8};
  bool drawn = graph_random(c, &d, &sizes[seed % 4 == 3 ? 2 : seed % 2], out);
  if (drawn) tn_clear_error(c);
  return drawn;
}
