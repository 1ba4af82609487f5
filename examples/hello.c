/* cc hello.c $(pkg-config --cflags --libs tenet) && ./a.out */
#include <tenet/tenet.h>

int main(void) {
  tn_ctx *ctx = tn_ctx_open(NULL);
  tn_tensor *x = tn_linspace(ctx, TN_F32, 0, 1, 5);
  tn_status status = tn_print(tn_softmax(tn_mul_scalar(x, 3), 0), stdout);
  if (status != TN_OK) fprintf(stderr, "%s\n", tn_last_error(ctx)->text);
  tn_ctx_close(ctx);
  return status != TN_OK;
}
