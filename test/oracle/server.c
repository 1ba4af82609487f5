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

enum { MOST = 1 << 14, ARGS = 64 };

typedef struct args {
  tn_ctx *c;
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

/* By the arguments that they take. */
#define UNARY(X) X(zeros_like) X(ones_like) X(contiguous) X(detach)
#define BINARY(X)                                                                                                      \
  X(matmul) X(dot) X(outer) X(embedding) X(cross_entropy) X(nll_loss) X(mse_loss) X(binary_cross_entropy_with_logits)
#define NUMBER(X)                                                                                                      \
  X(add_scalar) X(sub_scalar) X(rsub_scalar) X(mul_scalar) X(div_scalar) X(rdiv_scalar) X(floordiv_scalar)             \
  X(mod_scalar) X(pow_scalar) X(maximum_scalar) X(minimum_scalar) X(eq_scalar) X(ne_scalar) X(lt_scalar) X(le_scalar)  \
  X(gt_scalar) X(ge_scalar) X(full_like) X(leaky_relu) X(elu)
#define REDUCE(X) X(sum) X(prod) X(max) X(min) X(mean) X(logsumexp) X(any) X(all)
#define AXES(X) X(permute) X(flip) X(squeeze)
#define SIZES(X) X(reshape) X(expand) X(tile)
#define SHAPE(X) X(zeros) X(ones)

#define FUNCTION(name, call) \
  static tn_tensor *do_##name(args *a) { return call; }
#define DEFINE_UNARY(name) FUNCTION(name, tn_##name(a->x[0]))
#define DEFINE_BINARY(name) FUNCTION(name, tn_##name(a->x[0], a->x[1]))
#define DEFINE_NUMBER(name) FUNCTION(name, tn_##name(a->x[0], a->f[0]))
#define OVER a->ni > 1 ? a->axes + 1 : NULL, a->ni - 1 /* ints: keepdims, axes... */
#define DEFINE_REDUCE(name) FUNCTION(name, tn_##name(a->x[0], OVER, a->i[0] != 0))
#define DEFINE_AXES(name) FUNCTION(name, tn_##name(a->x[0], a->ni ? a->axes : NULL, a->ni))
#define DEFINE_SIZES(name) FUNCTION(name, tn_##name(a->x[0], a->i, a->ni))
#define MADE a->c, (tn_dtype)a->i[0] /* ints: dtype, ... */
#define DEFINE_SHAPE(name) FUNCTION(name, tn_##name(MADE, a->i + 1, a->ni - 1))
#define ONE(name, ...) DEFINE_UNARY(name)
#define TWO(name, ...) DEFINE_BINARY(name)
#include "tensor/elementwise.def"
UNARY(DEFINE_UNARY)
BINARY(DEFINE_BINARY)
NUMBER(DEFINE_NUMBER)
REDUCE(DEFINE_REDUCE)
AXES(DEFINE_AXES)
SIZES(DEFINE_SIZES)
SHAPE(DEFINE_SHAPE)

/* Part number i[2] of those that it gives. */
static tn_tensor *topk(args *a) {
  tn_tensor *values = NULL, *places = NULL;
  if (tn_topk(a->x[0], a->i[0], a->axes[1], a->i[2] != 0, &values, &places) != TN_OK) return NULL;
  return a->i[3] ? places : values;
}

/* Output number i[1] of those that it gives. */
static tn_tensor *unique(args *a) {
  tn_tensor *out[4] = {NULL}, **to[4] = {NULL};
  to[a->i[1]] = &out[a->i[1]];
  return tn_unique(a->x[0], a->i[0], a->f[0], to[0], to[1], to[2], to[3]) == TN_OK ? out[a->i[1]] : NULL;
}

static tn_tensor *unique_now(args *a) {
  tn_tensor *out[3] = {NULL};
  return tn_unique_now(a->x[0], &out[0], &out[1], &out[2]) == TN_OK ? out[a->i[0]] : NULL;
}

static tn_tensor *nonzero(args *a) {
  tn_tensor *places = NULL, *count = NULL;
  return tn_nonzero(a->x[0], a->i[0], a->i[2], &places, &count) != TN_OK ? NULL : a->i[1] ? count : places;
}

static tn_tensor *split(args *a) {
  tn_tensor *part[ARGS] = {0};
  return a->i[0] > ARGS || tn_split(a->x[0], (int)a->i[0], a->axes[1], part) != TN_OK ? NULL : part[a->i[2]];
}

/* x[0] after x[1] has been assigned. */
static tn_tensor *assign(args *a) { return tn_assign(a->x[0], a->x[1]) == TN_OK ? a->x[0] : NULL; }

#define OTHERS(X)                                                                                                      \
  X(var, tn_var(a->x[0], OVER, a->f[0], a->i[0] != 0))                                                                 \
  X(std, tn_std(a->x[0], OVER, a->f[0], a->i[0] != 0))                                                                 \
  X(argmax, tn_argmax(a->x[0], a->axes[0], a->i[1] != 0))                                                              \
  X(cumsum, tn_cumsum(a->x[0], a->axes[0]))                                                                            \
  X(cumprod, tn_cumprod(a->x[0], a->axes[0]))                                                                          \
  X(sort, tn_sort(a->x[0], a->axes[0], a->i[1] != 0))                                                                  \
  X(argsort, tn_argsort(a->x[0], a->axes[0], a->i[1] != 0))                                                            \
  X(topk, topk(a))                                                                                                     \
  X(searchsorted, tn_searchsorted(a->x[0], a->x[1], a->i[0] != 0))                                                     \
  X(bincount, tn_bincount(a->x[0], a->i[0]))                                                                           \
  X(unique, unique(a))                                                                                                 \
  X(unique_now, unique_now(a))                                                                                         \
  X(nonzero, nonzero(a))                                                                                               \
  X(nonzero_now, tn_nonzero_now(a->x[0]))                                                                              \
  X(argmin, tn_argmin(a->x[0], a->axes[0], a->i[1] != 0))                                                              \
  X(where, tn_where(a->x[0], a->x[1], a->x[2]))                                                                        \
  X(where_scalar, tn_where_scalar(a->x[0], a->x[1], a->f[0]))                                                          \
  X(rwhere_scalar, tn_rwhere_scalar(a->x[0], a->f[0], a->x[1]))                                                        \
  X(where_scalars, tn_where_scalars(a->x[0], (tn_dtype)a->i[0], a->f[0], a->f[1]))                                     \
  X(clamp, tn_clamp(a->x[0], a->f[0], a->f[1]))                                                                        \
  X(cast, tn_cast(a->x[0], (tn_dtype)a->i[0]))                                                                         \
  X(bitcast, tn_bitcast(a->x[0], (tn_dtype)a->i[0]))                                                                   \
  X(pad, tn_pad(a->x[0], a->i, a->f[0]))                                                                               \
  X(flatten, tn_flatten(a->x[0], a->axes[0], a->axes[1]))                                                              \
  X(unsqueeze, tn_unsqueeze(a->x[0], a->axes[0]))                                                                      \
  X(transpose, tn_transpose(a->x[0], a->axes[0], a->axes[1]))                                                          \
  X(shrink, tn_shrink(a->x[0], a->i, a->i + a->ni / 2))                                                                \
  X(slice, tn_slice(a->x[0], a->axes[0], a->i[1], a->i[2], a->i[3]))                                                   \
  X(select, tn_select(a->x[0], a->axes[0], a->i[1]))                                                                   \
  X(concatenate, tn_concatenate(a->x, a->nx, a->axes[0]))                                                              \
  X(stack, tn_stack(a->x, a->nx, a->axes[0]))                                                                          \
  X(split, split(a))                                                                                                   \
  X(repeat, tn_repeat(a->x[0], a->i[1], a->axes[0]))                                                                   \
  X(unfold, tn_unfold(a->x[0], a->axes[0], a->i[1], a->i[2], a->i[3]))                                                 \
  X(tril, tn_tril(a->x[0], a->i[0]))                                                                                   \
  X(triu, tn_triu(a->x[0], a->i[0]))                                                                                   \
  X(take, tn_take(a->x[0], a->x[1], a->axes[0]))                                                                       \
  X(take_along_axis, tn_take_along_axis(a->x[0], a->x[1], a->axes[0]))                                                 \
  X(scatter_add, tn_scatter_add(a->x[0], a->axes[0], a->x[1], a->x[2]))                                                \
  X(index_add, tn_index_add(a->x[0], a->axes[0], a->x[1], a->x[2]))                                                    \
  X(one_hot, tn_one_hot(a->x[0], a->i[1], (tn_dtype)a->i[0]))                                                          \
  X(softmax, tn_softmax(a->x[0], a->axes[0]))                                                                          \
  X(log_softmax, tn_log_softmax(a->x[0], a->axes[0]))                                                                  \
  X(layer_norm, tn_layer_norm(a->x[0], a->axes[0], a->x[1], a->x[2], a->f[0]))                                         \
  X(rms_norm, tn_rms_norm(a->x[0], a->axes[0], a->x[1], a->f[0]))                                                      \
  X(einsum, tn_einsum(a->word, a->x, a->nx))                                                                           \
  X(assign, assign(a))                                                                                                 \
  X(full, tn_full(MADE, a->i + 1, a->ni - 1, a->f[0]))                                                                 \
  X(full_i64, tn_full_i64(MADE, a->i + 2, a->ni - 2, a->i[1]))                                                         \
  X(arange, tn_arange(MADE, a->f[0], a->f[1], a->f[2]))                                                                \
  X(linspace, tn_linspace(MADE, a->f[0], a->f[1], a->i[1]))                                                            \
  X(eye, tn_eye(MADE, a->i[1], a->i[2]))                                                                               \
  X(scalar, tn_scalar(MADE, a->f[0]))                                                                                  \
  X(const, tn_const(MADE, a->f[0]))
OTHERS(FUNCTION)

#define LIST(name) {#name, do_##name},
#define LIST_OTHER(name, call) LIST(name)
static const row table[] = {
#define ONE(name, ...) LIST(name)
#define TWO(name, ...) LIST(name)
#include "tensor/elementwise.def"
    UNARY(LIST) BINARY(LIST) NUMBER(LIST) REDUCE(LIST) AXES(LIST) SIZES(LIST) SHAPE(LIST) OTHERS(LIST_OTHER)};

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
  args a = {.c = c};
  if (scanf("%63s %63s", name, a.word) != 2) give_up("no function");
  a.nx = (int)number();
  for (int i = 0; i < a.nx; i++) a.x[i] = made[number()];
  a.ni = (int)number();
  for (int i = 0; i < a.ni; i++) a.i[i] = number(), a.axes[i] = (int)a.i[i];
  a.nf = (int)number();
  for (int i = 0; i < a.nf; i++)
    if (scanf("%lf", &a.f[i]) != 1) give_up("a float was expected"); /* hexadecimal, too */
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
