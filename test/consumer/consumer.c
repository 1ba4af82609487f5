/* A program outside the tree, in the common part of C and C++: fits y = x w + b by gradient descent. */
#include <stdio.h>
#include <tenet/tenet.h>

enum { ROWS = 64, COLUMNS = 3 };

static int fail(tn_ctx *ctx, const char *where) {
  fprintf(stderr, "%s: %s\n", where, tn_last_error(ctx)->text);
  return 1;
}

int main(void) {
  const float truth[COLUMNS] = {2.0f, -1.0f, 0.5f};
  float xs[ROWS * COLUMNS], ys[ROWS];
  for (int i = 0; i < ROWS; i++) {
    ys[i] = 0.25f;
    for (int k = 0; k < COLUMNS; k++) {
      xs[i * COLUMNS + k] = (float)((i * 7 + k * 5) % 11 - 5) / 5;
      ys[i] += xs[i * COLUMNS + k] * truth[k];
    }
  }
  const tn_dim sx[] = {ROWS, COLUMNS}, sy[] = {ROWS, 1}, sw[] = {COLUMNS, 1}, sb[] = {1};
  tn_ctx *ctx = tn_ctx_open(NULL);
  if (!ctx) return 1;
  tn_tensor *x = tn_from(ctx, TN_F32, sx, 2, xs), *y = tn_from(ctx, TN_F32, sy, 2, ys);
  tn_tensor *param[] = {tn_zeros(ctx, TN_F32, sw, 2), tn_zeros(ctx, TN_F32, sb, 1)};
  if (tn_realize(param, 2) != TN_OK) return fail(ctx, "parameters");
  double loss = 1;
  for (int step = 0; step < 300; step++) {
    tn_scope(ctx) {
      tn_tensor *error = tn_mse_loss(tn_add(tn_matmul(x, param[0]), param[1]), y), *slope[2];
      if (tn_grad(error, 2, param, slope) != TN_OK) return fail(ctx, "gradient");
      for (int i = 0; i < 2; i++) tn_assign(param[i], tn_sub(param[i], tn_mul_scalar(slope[i], 0.3)));
      if (tn_realize(param, 2) != TN_OK || tn_item(error, &loss) != TN_OK) return fail(ctx, "step");
    }
  }
  printf("tenet %s: loss %.2g\n", tn_version(), loss);
  tn_ctx_close(ctx);
  return loss < 1e-6 ? 0 : 1;
}
