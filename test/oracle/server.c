/* Computes what numpy_oracle.py asks for.  Requests come on stdin, one a line, a tensor's bytes behind its line:
 *   in DTYPE RANK SIZE...                              a tensor; it gets the next number, from 0
 *   op NAME NX X... NI INT... NF FLOAT...              a function of tensors, integers and floats; the result gets the
 *   next number
 *   out N NUMBER...                                    realises them at once; each is answered by "DTYPE RANK SIZE..."
 *                                                      and its bytes, or "error TEXT"
 *   end                                                forgets all tensors */
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, ARGS = 64 };

typedef struct args {
  tn_tensor *x[ARGS];
  int64_t i[ARGS];
  double f[ARGS];
  int nx, ni, nf;
  int axes[ARGS]; /* i as ints */
  char word[64];  /* einsum's specification */
} args;

typedef struct row {
  const char *name;
  tn_tensor *(*fn)(args *a);
} row;

#define UNARY(X)                                                                                                       \
  X(abs) X(sign) X(neg) X(square) X(relu) X(floor) X(ceil) X(round) X(trunc) X(isnan) X(isinf) X(isfinite) X(sqrt)     \
  X(rsqrt) X(recip) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log1p) X(sin) X(cos) X(tan) X(tanh) X(log10) X(asin)      \
  X(acos) X(atan) X(sinh) X(cosh) X(asinh) X(acosh) X(atanh) X(sigmoid) X(silu) X(softplus) X(logical_not)             \
  X(bitwise_not)
#define BINARY(X)                                                                                                      \
  X(add) X(sub) X(mul) X(div) X(floordiv) X(mod) X(fmod) X(pow) X(maximum) X(minimum) X(atan2) X(hypot) X(copysign)    \
  X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(bitwise_and) X(bitwise_or) X(bitwise_xor) X(logical_and) X(logical_or)         \
  X(logical_xor) X(shl) X(shr) X(matmul)
#define REDUCE(X) X(sum) X(prod) X(max) X(min) X(mean) X(logsumexp) X(any) X(all)

#define DEFINE_UNARY(name) \
  static tn_tensor *do_##name(args *a) { return tn_##name(a->x[0]); }
#define DEFINE_BINARY(name) \
  static tn_tensor *do_##name(args *a) { return tn_##name(a->x[0], a->x[1]); }
#define DEFINE_REDUCE(name) /* ints: keepdim, axes... */                                                               \
  static tn_tensor *do_##name(args *a) {                                                                               \
    return tn_##name(a->x[0], a->ni > 1 ? a->axes + 1 : NULL, a->ni - 1, a->i[0] != 0);                                \
  }
UNARY(DEFINE_UNARY)
BINARY(DEFINE_BINARY)
REDUCE(DEFINE_REDUCE)

static tn_tensor *do_var(args *a) {
  return tn_var(a->x[0], a->ni > 1 ? a->axes + 1 : NULL, a->ni - 1, a->f[0], a->i[0] != 0);
}
static tn_tensor *do_argmax(args *a) { return tn_argmax(a->x[0], a->axes[0], a->i[1] != 0); }
static tn_tensor *do_argmin(args *a) { return tn_argmin(a->x[0], a->axes[0], a->i[1] != 0); }
static tn_tensor *do_where(args *a) { return tn_where(a->x[0], a->x[1], a->x[2]); }
static tn_tensor *do_clamp(args *a) { return tn_clamp(a->x[0], a->f[0], a->f[1]); }
static tn_tensor *do_cast(args *a) { return tn_cast(a->x[0], (tn_dtype)a->i[0]); }
static tn_tensor *do_reshape(args *a) { return tn_reshape(a->x[0], a->i, a->ni); }
static tn_tensor *do_permute(args *a) { return tn_permute(a->x[0], a->axes, a->ni); }
static tn_tensor *do_expand(args *a) { return tn_expand(a->x[0], a->i, a->ni); }
static tn_tensor *do_pad(args *a) { return tn_pad(a->x[0], a->i, a->f[0]); }
static tn_tensor *do_flip(args *a) { return tn_flip(a->x[0], a->axes, a->ni); }
static tn_tensor *do_slice(args *a) { return tn_slice(a->x[0], a->axes[0], a->i[1], a->i[2], a->i[3]); }
static tn_tensor *do_concatenate(args *a) { return tn_concatenate(a->x, a->nx, a->axes[0]); }
static tn_tensor *do_stack(args *a) { return tn_stack(a->x, a->nx, a->axes[0]); }
static tn_tensor *do_tile(args *a) { return tn_tile(a->x[0], a->i, a->ni); }
static tn_tensor *do_repeat(args *a) { return tn_repeat(a->x[0], a->i[1], a->axes[0]); }
static tn_tensor *do_unfold(args *a) { return tn_unfold(a->x[0], a->axes[0], a->i[1], a->i[2], a->i[3]); }
static tn_tensor *do_tril(args *a) { return tn_tril(a->x[0], a->i[0]); }
static tn_tensor *do_triu(args *a) { return tn_triu(a->x[0], a->i[0]); }
static tn_tensor *do_take(args *a) { return tn_take(a->x[0], a->x[1], a->axes[0]); }
static tn_tensor *do_take_along_axis(args *a) { return tn_take_along_axis(a->x[0], a->x[1], a->axes[0]); }
static tn_tensor *do_scatter_add(args *a) { return tn_scatter_add(a->x[0], a->axes[0], a->x[1], a->x[2]); }
static tn_tensor *do_index_add(args *a) { return tn_index_add(a->x[0], a->axes[0], a->x[1], a->x[2]); }
static tn_tensor *do_softmax(args *a) { return tn_softmax(a->x[0], a->axes[0]); }
static tn_tensor *do_log_softmax(args *a) { return tn_log_softmax(a->x[0], a->axes[0]); }
static tn_tensor *do_layer_norm(args *a) { return tn_layer_norm(a->x[0], a->axes[0], a->x[1], a->x[2], a->f[0]); }
static tn_tensor *do_cross_entropy(args *a) { return tn_cross_entropy(a->x[0], a->x[1]); }
static tn_tensor *do_einsum(args *a) { return tn_einsum(a->word, a->x, a->nx); }

#define LIST(name) {#name, do_##name},
static const row table[] = {UNARY(LIST) BINARY(LIST) REDUCE(LIST) LIST(var) LIST(argmax) LIST(argmin) LIST(where)
                                LIST(clamp) LIST(cast) LIST(reshape) LIST(permute) LIST(expand) LIST(pad) LIST(flip)
                                    LIST(slice) LIST(concatenate) LIST(stack) LIST(tile) LIST(repeat) LIST(unfold)
                                        LIST(tril) LIST(triu) LIST(take) LIST(take_along_axis) LIST(scatter_add)
                                            LIST(index_add) LIST(softmax) LIST(log_softmax) LIST(layer_norm)
                                                LIST(cross_entropy) LIST(einsum)};

static tn_tensor *made[MOST];
static char *failed[MOST]; /* why there is no such tensor */
static int count;

_Noreturn static void give_up(const char *why) {
  fprintf(stderr, "oracle server: %s\n", why);
  exit(2);
}

static long long number(void) {
  long long v;
  if (scanf("%lld", &v) != 1) give_up("a number was expected");
  return v;
}

static void push(tn_ctx *c, tn_tensor *t) {
  if (count == MOST) give_up("too many tensors");
  if (!t) failed[count] = strdup(tn_last_error(c)->text);
  made[count++] = t;
  tn_clear_error(c);
}

static void forget(tn_ctx *c) {
  for (; count; count--) free(failed[count - 1]), failed[count - 1] = NULL;
  tn_scope_end(c);
  tn_scope_begin(c);
}

static void take_input(tn_ctx *c) {
  tn_dtype dtype = (tn_dtype)number();
  int rank = (int)number();
  tn_dim shape[TN_MAX_RANK];
  size_t bytes = tn_dtype_size(dtype);
  for (int i = 0; i < rank; i++) shape[i] = number(), bytes *= (size_t)shape[i];
  char *data = malloc(bytes + 1);
  if (getchar() != '\n' || !data || fread(data, 1, bytes, stdin) != bytes) give_up("a tensor is cut short");
  push(c, tn_from(c, dtype, shape, rank, data));
  free(data);
}

static void apply(tn_ctx *c) {
  char name[64];
  args a = {0};
  if (scanf("%63s %63s", name, a.word) != 2) give_up("no function");
  a.nx = (int)number();
  for (int i = 0; i < a.nx; i++) a.x[i] = made[number()];
  a.ni = (int)number();
  for (int i = 0; i < a.ni; i++) a.i[i] = number(), a.axes[i] = (int)a.i[i];
  a.nf = (int)number();
  for (int i = 0; i < a.nf; i++)
    if (scanf("%lf", &a.f[i]) != 1) give_up("a float was expected");
  for (size_t r = 0; r < sizeof table / sizeof *table; r++)
    if (!strcmp(table[r].name, name)) {
      push(c, table[r].fn(&a));
      return;
    }
  give_up(name);
}

static void answer_one(tn_ctx *c, tn_tensor *t, const char *why) {
  tn_dim shape[TN_MAX_RANK];
  size_t bytes = tn_nbytes(t);
  char *data = malloc(bytes + 1);
  if (!t || !data || tn_read(t, data, bytes) != TN_OK) {
    printf("error %s\n", why ? why : tn_last_error(c)->text);
    tn_clear_error(c);
  } else {
    tn_shape(t, shape);
    printf("%d %d", (int)tn_dtype_of(t), tn_rank(t));
    for (int i = 0; i < tn_rank(t); i++) printf(" %lld", (long long)shape[i]);
    putchar('\n');
    fwrite(data, 1, bytes, stdout);
  }
  free(data);
}

static void answer(tn_ctx *c) {
  int n = (int)number(), at[MOST], good = 0;
  tn_tensor *all[MOST];
  for (int i = 0; i < n; i++) {
    at[i] = (int)number();
    if (made[at[i]]) all[good++] = made[at[i]];
  }
  tn_realize(all, good);
  tn_clear_error(c); /* the reads say it again */
  for (int i = 0; i < n; i++) answer_one(c, made[at[i]], failed[at[i]]);
  fflush(stdout);
}

int main(int argc, char **argv) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = argc > 1 ? argv[1] : NULL, .quiet = 1});
  char verb[8];
  if (!c) give_up("no context");
  tn_scope_begin(c);
  while (scanf("%7s", verb) == 1) {
    if (!strcmp(verb, "in")) take_input(c);
    else if (!strcmp(verb, "op")) apply(c);
    else if (!strcmp(verb, "out")) answer(c);
    else if (!strcmp(verb, "end")) forget(c);
    else give_up(verb);
  }
  tn_ctx_close(c);
  return 0;
}
