/* Would a wrong pass be caught?  What a pass gave is changed in one place, as a bug in it would, the rest of the
 * pipeline runs as ever, and translation validation compares the schedule with the graph.  Each row is a pass and a
 * kind of bug; it is planted wherever it can be in a dozen programs, for plain, optimised and group devices.  What
 * caught it: a spec (or a constructor, or the encoder) that refuses the text; a checker (bounds, unwritten memory,
 * iterations or threads in each other's way); or the validation, by a value.  What nobody caught is harmless: the
 * change means the same.  docs/validation.md holds the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "ir/spec.h"
#include "rewrite/rewrite.h"
#include "run/runtime.h"
#include "support/forms.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* ---- programs ---- */

enum { OUTPUTS = 4 };
typedef struct outputs {
  tn_tensor *t[OUTPUTS];
} outputs;

static tn_tensor *leaf(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank) {
  return tn_contiguous(tn_zeros(c, dtype, shape, rank));
}
static tn_tensor *input(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank) {
  tn_tensor *t = leaf(c, dtype, shape, rank);
  if (tn_realize(&t, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return t;
}

static outputs chain(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(4, 5)), *y = input(c, TN_F32, DIMS(4, 5));
  return (outputs){{tn_where(tn_lt(x, y), tn_add_scalar(tn_neg(tn_mul(x, y)), 0.5), tn_maximum(tn_exp(x), y)),
                    tn_minimum(tn_add(x, y), tn_abs(tn_sub(x, y)))}};
}
static outputs integers(tn_ctx *c) {
  tn_tensor *x = input(c, TN_I32, DIMS(11)), *y = input(c, TN_I32, DIMS(11));
  return (outputs){
      {tn_where(tn_le(x, y), tn_add(tn_mul(x, y), tn_floordiv(x, y)), tn_bitwise_xor(tn_mod(x, y), tn_shl(y, x)))}};
}
static outputs views(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(6, 5)), *y = input(c, TN_F32, DIMS(5, 6)),
            *v = tn_pad(x, (tn_dim[]){2, 1, 0, 3}, 0);
  tn_tensor *w = tn_slice(tn_slice(v, 0, 1, 9, 2), 1, 1, 8, 1);
  return (outputs){
      {tn_flip(w, AXES(0)), tn_add(tn_transpose(y, 0, 1), x), tn_reshape(tn_transpose(x, 0, 1), DIMS(3, 10))}};
}
static outputs joined(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(3, 2)), *y = input(c, TN_F32, DIMS(3, 4)), *part[] = {x, tn_exp(y), tn_neg(x)};
  return (outputs){{tn_add_scalar(tn_concatenate(part, 3, 1), 1)}};
}
static outputs windows(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(2, 11)), *w = input(c, TN_F32, DIMS(3)),
            *u = tn_mul(tn_unfold(tn_pad(x, (tn_dim[]){0, 0, 1, 1}, 0), 1, 3, 2, 1), w);
  tn_tensor *y = tn_sum(u, AXES(2), false), *g;
  if (tn_vjp(y, input(c, TN_F32, DIMS(2, 6)), 1, &x, &g) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return (outputs){{y, g}};
}
static outputs indexed(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(6, 4)), *i = input(c, TN_I32, DIMS(7)), *u = input(c, TN_F32, DIMS(7, 4));
  return (outputs){{tn_embedding(x, i), tn_index_add(x, 0, i, u)}};
}
static outputs counted(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(6)), *i = input(c, TN_I32, DIMS(90)), *u = input(c, TN_F32, DIMS(90));
  return (outputs){{tn_index_add(x, 0, i, u)}};
}
static outputs tallied(tn_ctx *c) { /* by each group for itself first */
  tn_tensor *x = input(c, TN_I32, DIMS(66)), *i = input(c, TN_I32, DIMS(700)), *u = input(c, TN_I32, DIMS(700));
  return (outputs){{tn_index_add(x, 0, i, u)}};
}
static tn_tensor *keys_of(tn_ctx *c, tn_dim n) {
  return tn_cast(tn_logical_and(input(c, TN_BOOL, DIMS(n)), input(c, TN_BOOL, DIMS(n))), TN_U8);
}
static outputs ranked(tn_ctx *c) { /* by a group's threads in step */
  tn_tensor *key = keys_of(c, 512), *at = tn_arange(c, TN_I32, 0, 512, 1);
  tn_tensor *alike = tn_eq(tn_unsqueeze(key, 1), tn_unsqueeze(key, 0)),
            *before = tn_lt(tn_unsqueeze(at, 0), tn_unsqueeze(at, 1));
  return (outputs){{tn_sum(tn_cast(tn_logical_and(alike, before), TN_I32), AXES(1), false)}};
}
static outputs numbered(tn_ctx *c) { /* so, how many there are of each key */
  tn_tensor *key = tn_cast(keys_of(c, 256), TN_I32), *number = tn_arange(c, TN_I32, 0, 4, 1);
  tn_tensor *is = tn_eq(tn_unsqueeze(key, 0), tn_unsqueeze(number, 1));
  return (outputs){{tn_sum(tn_cast(is, TN_I32), AXES(1), false)}};
}
static outputs runs(tn_ctx *c) { /* of updates sorted by place, in blocks of blocks */
  tn_tensor *x = input(c, TN_F32, DIMS(300)), *i = input(c, TN_I32, DIMS(290)), *u = input(c, TN_F32, DIMS(290));
  tn_tensor *near = tn_mod(i, tn_full(c, TN_I32, NULL, 0, 5)); /* runs of many */
  return (outputs){{tn_index_add(x, 0, near, u)}};
}
static outputs running(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(2, 41));
  return (outputs){{tn_cumsum(x, 1)}};
}
static outputs sorted(tn_ctx *c) { /* by digits */
  tn_tensor *x = tn_lt(input(c, TN_I32, DIMS(600)), input(c, TN_I32, DIMS(600)));
  return (outputs){{tn_argsort(x, 0, false)}};
}
static outputs merged(tn_ctx *c) { /* by runs, the last of which is filled up */
  return (outputs){{tn_argsort(input(c, TN_F32, DIMS(91)), 0, false)}};
}
static outputs spans(tn_ctx *c) { /* a join whose long parts are stored by kernels of their own */
  tn_tensor *x = input(c, TN_F32, DIMS(40, 8)), *y = input(c, TN_F32, DIMS(70, 8)), *part[] = {tn_tanh(x), y};
  return (outputs){{tn_exp(tn_concatenate(part, 2, 0))}};
}
static outputs softmax(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(5, 100));
  return (outputs){{tn_softmax(x, -1), tn_max(x, AXES(0), false)}};
}
static outputs stages(tn_ctx *c) { /* temporaries that take each other's places */
  tn_tensor *x = input(c, TN_F32, DIMS(6, 7)), *a = tn_contiguous(tn_mul(x, x)),
            *b = tn_contiguous(tn_transpose(tn_add_scalar(a, 1), 0, 1));
  tn_tensor *d = tn_contiguous(tn_transpose(tn_exp(b), 0, 1)), *e = tn_contiguous(tn_transpose(tn_add(d, a), 0, 1));
  return (outputs){{tn_transpose(tn_neg(e), 0, 1), tn_sum(d, AXES(1), false)}};
}
static outputs columns(tn_ctx *c) { return (outputs){{tn_softmax(input(c, TN_F32, DIMS(9, 70)), 0)}}; }
static outputs turned(tn_ctx *c) { /* tiles that are whole and cut off, and loops too short for any */
  tn_tensor *x = input(c, TN_F32, DIMS(21, 19)), *y = input(c, TN_F32, DIMS(19, 21)),
            *z = input(c, TN_F32, DIMS(24, 16)), *few = input(c, TN_F32, DIMS(3, 90));
  return (outputs){{tn_add(tn_exp(tn_transpose(x, 0, 1)), y), tn_contiguous(tn_transpose(z, 0, 1)),
                    tn_contiguous(tn_transpose(few, 0, 1))}};
}
static outputs waiting(tn_ctx *c) { /* a store that waits in tiles */
  tn_tensor *x = input(c, TN_F32, DIMS(21, 19)), *y = input(c, TN_F32, DIMS(21, 19)),
            *z = input(c, TN_F32, DIMS(21, 19)), *sum = tn_add(tn_mul(x, y), z);
  return (outputs){{tn_contiguous(tn_transpose(sum, 0, 1)), tn_exp(tn_sub(z, x))}};
}
static outputs repeated(tn_ctx *c) { /* short rows that have one in common */
  tn_tensor *x = input(c, TN_F32, DIMS(300, 5)), *row = input(c, TN_F32, DIMS(5));
  return (outputs){{tn_add(tn_exp(x), row)}};
}
static outputs spread(tn_ctx *c) { /* short rows that differ by a factor each */
  tn_tensor *x = input(c, TN_F32, DIMS(70, 5, 3)), *factor = input(c, TN_F32, DIMS(5, 1));
  return (outputs){{tn_mul(tn_exp(x), factor)}};
}
static outputs distances(tn_ctx *c) { /* a block of lines, and one cut off */
  tn_tensor *x = input(c, TN_F32, DIMS(70, 1, 3)), *y = input(c, TN_F32, DIMS(1, 40, 3)), *d = tn_sub(x, y);
  return (outputs){{tn_sum(tn_mul(d, d), AXES(2), false)}};
}
static outputs product(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(12, 9)), *w = input(c, TN_F32, DIMS(9, 10)), *b = input(c, TN_F32, DIMS(10));
  return (outputs){{tn_relu(tn_add(tn_matmul(x, w), b)), tn_matmul(tn_transpose(w, 0, 1), tn_slice(x, 0, 2, 11, 1))}};
}
static outputs products(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(3, 12, 10)), *y = input(c, TN_F32, DIMS(3, 11, 10));
  return (outputs){{tn_matmul(x, tn_transpose(y, 1, 2))}};
}
static outputs norms(tn_ctx *c, int64_t rows, int64_t columns) {
  tn_tensor *x = input(c, TN_F32, DIMS(rows, columns)), *g = input(c, TN_F32, DIMS(columns)),
            *b = input(c, TN_F32, DIMS(columns)), *dy = input(c, TN_F32, DIMS(rows, columns));
  tn_tensor *wrt[] = {x, g, b};
  outputs o = {{NULL}};
  if (tn_vjp(tn_layer_norm(x, 1, g, b, 1e-5), dy, 3, wrt, o.t) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return o;
}
static outputs norm(tn_ctx *c) { return norms(c, 40, 24); }
static outputs wide_norm(tn_ctx *c) { return norms(c, 300, 100); }
static outputs long_sums(tn_ctx *c) { return (outputs){{tn_sum(input(c, TN_F32, DIMS(2, 70000)), AXES(1), false)}}; }
static outputs column_sums(tn_ctx *c) { return (outputs){{tn_sum(input(c, TN_F32, DIMS(3000, 12)), AXES(0), false)}}; }
static outputs tiles(tn_ctx *c) {
  tn_tensor *x = input(c, TN_BF16, DIMS(64, 64)), *w = input(c, TN_BF16, DIMS(248, 64)),
            *b = input(c, TN_BF16, DIMS(248));
  return (outputs){{tn_relu(tn_add(tn_matmul(x, tn_transpose(w, 0, 1)), b))}};
}

/* ---- changes: of a node, the k-th way; NULL: there is none ---- */

typedef tn_node *change_fn(tn_ctx *c, tn_node *n);

static tn_node *with(tn_ctx *c, tn_node *n, uint32_t at, tn_node *x) {
  tn_node *src[64];
  if (!x || n->nsrc > 64 || x == n->src[at]) return NULL;
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[at] = x;
  return tn__node_with(c, n, src);
}
static tn_node *remake(tn_ctx *c, tn_node *n, tn__op op, uint32_t nsrc, const int64_t *ints) {
  return tn__node_make(c, &(tn__make){.op = op,
                                      .dtype = n->dtype,
                                      .src = n->src,
                                      .nsrc = nsrc,
                                      .ints = ints ? ints : n->ints,
                                      .nint = n->nint,
                                      .name = n->name,
                                      .device = n->device});
}
static tn_node *to_mul(tn_ctx *c, tn_node *n) {
  return n->op == OP_ADD && n->dtype != TN__INDEX ? remake(c, n, OP_MUL, 2, NULL) : NULL;
}
static tn_node *no_neg(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_NEG ? n->src[0] : NULL; }
static tn_node *no_function(tn_ctx *c, tn_node *n) {
  return (void)c, n->op == OP_EXP || n->op == OP_SQRT ? n->src[0] : NULL;
}
static tn_node *swap_where(tn_ctx *c, tn_node *n) {
  return n->op == OP_WHERE && n->src[1] != n->src[2] ? tn__where(c, n->src[0], n->src[2], n->src[1]) : NULL;
}
static tn_node *swap_less(tn_ctx *c, tn_node *n) {
  return n->op == OP_LT && n->src[0]->dtype != TN__INDEX ? tn__op2(c, OP_LT, n->src[1], n->src[0]) : NULL;
}
static tn_node *le_for_lt(tn_ctx *c, tn_node *n) {
  return n->op == OP_LT && n->src[0]->dtype != TN__INDEX ? tn__op2(c, OP_LE, n->src[0], n->src[1]) : NULL;
}
static tn_node *lt_for_le(tn_ctx *c, tn_node *n) {
  return n->op == OP_LE && n->src[0]->dtype != TN__INDEX ? tn__op2(c, OP_LT, n->src[0], n->src[1]) : NULL;
}
static tn_node *to_min(tn_ctx *c, tn_node *n) {
  return n->op == OP_MAX && n->dtype != TN__INDEX ? remake(c, n, OP_MIN, 2, NULL) : NULL;
}
static tn_node *constant_on(tn_ctx *c, tn_node *n) {
  if (n->op != OP_CONST || n->dtype == TN__INDEX || n->dtype == TN_BOOL ||
      !(tn__eval_to_double(n->dtype, (uint64_t)n->ints[0]) < 1e30))
    return NULL;
  return tn__const_num(c, n->dtype, tn__eval_to_double(n->dtype, (uint64_t)n->ints[0]) + 1); /* -inf stays */
}
static tn_node *floor_for_mod(tn_ctx *c, tn_node *n) {
  return n->op == OP_MOD && n->dtype != TN__INDEX ? remake(c, n, OP_FMOD, 2, NULL) : NULL;
}
static tn_node *wrong_permute(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_PERMUTE ? n->src[0] : NULL; }
static tn_node *reshaped_permute(tn_ctx *c, tn_node *n) {
  return n->op == OP_PERMUTE ? tn__reshape(c, n->src[0], n->dim, n->rank) : NULL;
}
static tn_node *swap_pad(tn_ctx *c, tn_node *n) {
  for (uint32_t a = 0; n->op == OP_PAD && a < n->rank; a++) {
    tn_node *lo = n->src[1 + 2 * a], *hi = n->src[2 + 2 * a], *half = with(c, n, 1 + 2 * a, hi);
    if (lo != hi) return with(c, half, 2 + 2 * a, lo);
  }
  return NULL;
}
static tn_node *shift_shrink(tn_ctx *c, tn_node *n) {
  for (uint32_t a = 0; n->op == OP_SHRINK && a < n->rank; a++)
    if (!tn__is_int_const(n->src[1 + a], 0)) return with(c, n, 1 + a, tn__add(c, n->src[1 + a], tn__int(c, -1)));
  return NULL;
}
static tn_node *no_step(tn_ctx *c, tn_node *n) {
  int64_t ints[TN_MAX_RANK];
  bool any = false;
  for (uint32_t a = 0; n->op == OP_SHRINK && a < n->nint; a++) {
    any |= n->ints[a] > 1;
    ints[a] = 1;
  }
  return any ? remake(c, n, OP_SHRINK, n->nsrc, ints) : NULL;
}
static tn_node *no_flip(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_FLIP ? n->src[0] : NULL; }
static tn_node *sum_as_max(tn_ctx *c, tn_node *n) { return n->op == OP_SUM ? remake(c, n, OP_RMAX, 1, NULL) : NULL; }
static tn_node *wrong_dilation(tn_ctx *c, tn_node *n) {
  if (n->op != OP_WINDOW && n->op != OP_FOLD) return NULL;
  int64_t ints[4] = {n->ints[0], n->ints[1], n->ints[2] > 1 ? n->ints[2] - 1 : 2, n->ints[3]};
  return remake(c, n, n->op, n->nsrc, ints);
}
static tn_node *lose_addend(tn_ctx *c, tn_node *n) {
  bool adds = n->op == OP_ADD && n->dtype != TN__INDEX && n->src[0]->op != OP_CONST && n->src[1]->op != OP_CONST;
  return (void)c, adds ? n->src[0] : NULL;
}
static tn_node *assign_add(tn_ctx *c, tn_node *n) {
  return n->op == OP_SCATTER ? with(c, n, 0, tn__op1(c, OP_NEG, n->src[0])) : NULL;
}
static tn_node *swap_outputs(tn_ctx *c, tn_node *n) {
  if (n->op != OP_SINK || n->nsrc < 2 || n->src[0] == n->src[1]) return NULL;
  tn_node *src[OUTPUTS] = {n->src[1], n->src[0]};
  for (uint32_t i = 2; i < n->nsrc; i++) src[i] = n->src[i];
  return tn__sink(c, src, n->nsrc, n->name);
}

/* Of kernel bodies */
static bool is_load(const tn_node *n) { return n->op == OP_LOAD; }
static bool is_store(const tn_node *n) { return n->op == OP_STORE || n->op == OP_STOREADD; }
static bool is_local(const tn_node *n) { return tn__is_access(n) && tn__buffer_of(n)->op == OP_LOCAL; }
static tn_node *load_on(tn_ctx *c, tn_node *n) {
  return is_load(n) && !is_local(n) ? with(c, n, 1, tn__add(c, n->src[1], tn__int(c, 1))) : NULL;
}
static tn_node *load_back(tn_ctx *c, tn_node *n) {
  return is_load(n) && !is_local(n) && n->src[1]->hi > 0
             ? with(c, n, 1, tn__op2(c, OP_MAX, tn__add(c, n->src[1], tn__int(c, -1)), tn__int(c, 0)))
             : NULL;
}
static tn_node *store_back(tn_ctx *c, tn_node *n) {
  return is_store(n) && !is_local(n) && n->src[1]->hi > 0
             ? with(c, n, 1, tn__op2(c, OP_MAX, tn__add(c, n->src[1], tn__int(c, -1)), tn__int(c, 0)))
             : NULL;
}
static tn_node *index_by(tn_ctx *c, tn_node *n, tn__op op) {
  int64_t k;
  return n->op == op && n->dtype == TN__INDEX && tn__const_int(n->src[1], &k) && k > 1
             ? tn__op2(c, op, n->src[0], tn__int(c, k - 1))
             : NULL;
}
static tn_node *stride_off(tn_ctx *c, tn_node *n) { return index_by(c, n, OP_MUL); }
static tn_node *quotient_off(tn_ctx *c, tn_node *n) { return index_by(c, n, OP_IDIV); }
static tn_node *remainder_off(tn_ctx *c, tn_node *n) { return index_by(c, n, OP_MOD); }
static tn_node *gate_dropped(tn_ctx *c, tn_node *n) {
  return is_load(n) && n->nsrc > 2 ? remake(c, n, OP_LOAD, 2, NULL) : NULL;
}
static tn_node *border_on(tn_ctx *c, tn_node *n) {
  int64_t k;
  return n->op == OP_LT && n->src[0]->dtype == TN__INDEX && tn__const_int(n->src[1], &k)
             ? tn__op2(c, OP_LT, n->src[0], tn__int(c, k + 1))
             : NULL;
}
static tn_node *border_back(tn_ctx *c, tn_node *n) {
  int64_t k;
  return n->op == OP_LT && n->src[0]->dtype == TN__INDEX && tn__const_int(n->src[1], &k)
             ? tn__op2(c, OP_LT, n->src[0], tn__int(c, k - 1))
             : NULL;
}
static tn_node *one_condition(tn_ctx *c, tn_node *n) {
  return (void)c, n->op == OP_AND && n->dtype == TN_BOOL ? n->src[0] : NULL;
}
static tn_node *shorter(tn_ctx *c, tn_node *n, int axis) {
  int64_t k;
  return n->op == OP_RANGE && n->ints[0] == axis && tn__const_int(n->src[0], &k) && k > 1
             ? tn__range(c, tn__int(c, k - 1), axis, (tn__role)n->ints[RANGE_ROLE], n->ints[RANGE_ID])
             : NULL;
}
static tn_node *loop_shorter(tn_ctx *c, tn_node *n) { return shorter(c, n, AX_LOOP); }
static tn_node *reduce_shorter(tn_ctx *c, tn_node *n) { return shorter(c, n, AX_REDUCE); }
static tn_node *lanes_shorter(tn_ctx *c, tn_node *n) { return shorter(c, n, AX_UPCAST); }
static tn_node *groups_shorter(tn_ctx *c, tn_node *n) { return shorter(c, n, AX_GLOBAL); }
static tn_node *tail_dropped(tn_ctx *c, tn_node *n) {
  return (void)c, n->op == OP_MIN && n->dtype == TN__INDEX && (tn__is_const(n->src[0]) || tn__is_const(n->src[1]))
                      ? n->src[tn__is_const(n->src[0]) ? 0 : 1]
                      : NULL;
}
/* Loops that run one after the other as others that do not, and places of each turn's own as common ones */
static tn_node *order_as(tn_ctx *c, tn_node *n, int axis) {
  if (n->op != OP_RANGE || n->ints[RANGE_AXIS] != AX_ORDER) return NULL;
  return tn__range(c, n->src[0], axis, (tn__role)n->ints[RANGE_ROLE], n->ints[RANGE_ID]);
}
static tn_node *order_as_lanes(tn_ctx *c, tn_node *n) { return order_as(c, n, AX_UPCAST); }
static tn_node *order_as_slices(tn_ctx *c, tn_node *n) { return order_as(c, n, AX_GLOBAL); }
static tn_node *shared_place(tn_ctx *c, tn_node *n, int axis) { /* two turns of a range store where one did */
  tn__nodes all = {0};
  if (!is_store(n)) return NULL;
  tn__topo(&c->scratch, &n->src[1], 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *r = all.v[i], *half;
    if (r->op != OP_RANGE || r->ints[0] != axis || r->hi < 1) continue;
    half = tn__op2(c, OP_IDIV, r, tn__int(c, 2));
    return with(c, n, 1, tn__substitute(c, n->src[1], &r, &half, 1));
  }
  return NULL;
}
static tn_node *place_of_slices(tn_ctx *c, tn_node *n) { return shared_place(c, n, AX_GLOBAL); }
static tn_node *place_of_lanes(tn_ctx *c, tn_node *n) { return shared_place(c, n, AX_UPCAST); }
static tn_node *lanes_together(tn_ctx *c, tn_node *n) { /* one cell for all lanes */
  return n->op == OP_SETACC && n->nsrc == 3 ? remake(c, n, OP_SETACC, 2, NULL) : NULL;
}
static tn_node *reduce_as_max(tn_ctx *c, tn_node *n) {
  return n->op == OP_REDUCE && n->ints[0] == OP_ADD ? remake(c, n, OP_REDUCE, n->nsrc, (int64_t[]){OP_MAX, n->ints[1]})
                                                    : NULL;
}
static tn_node *reduce_as_sum(tn_ctx *c, tn_node *n) {
  return n->op == OP_REDUCE && n->ints[0] == OP_MAX ? remake(c, n, OP_REDUCE, n->nsrc, (int64_t[]){OP_ADD, n->ints[1]})
                                                    : NULL;
}
static tn_node *local_back(tn_ctx *c, tn_node *n) {
  return is_load(n) && is_local(n) && n->src[1]->hi > 0
             ? with(c, n, 1, tn__op2(c, OP_MAX, tn__add(c, n->src[1], tn__int(c, -1)), tn__int(c, 0)))
             : NULL;
}
static tn_node *copied_back(tn_ctx *c, tn_node *n) { /* out of scratch memory */
  return n->op == OP_STORE && is_load(n->src[2]) && is_local(n->src[2])
             ? with(c, n, 1, tn__op2(c, OP_MAX, tn__add(c, n->src[1], tn__int(c, -1)), tn__int(c, 0)))
             : NULL;
}
static tn_node *local_unset(tn_ctx *c, tn_node *n) {
  return (void)c, n->op == OP_AFTER && n->src[0]->op == OP_LOCAL ? n->src[0] : NULL;
}
static tn_node *add_as_store(tn_ctx *c, tn_node *n) {
  return n->op == OP_STOREADD ? remake(c, n, OP_STORE, n->nsrc, NULL) : NULL;
}
static tn_node *store_as_add(tn_ctx *c, tn_node *n) {
  return n->op == OP_STORE ? remake(c, n, OP_STOREADD, n->nsrc, NULL) : NULL;
}

/* Of instructions */
static tn_node *acc_from_one(tn_ctx *c, tn_node *n) {
  return n->op == OP_ACC ? with(c, n, 0, tn__const_num(c, n->dtype, 1)) : NULL;
}
static tn_node *set_as_max(tn_ctx *c, tn_node *n) {
  return n->op == OP_SETACC && n->ints[0] == OP_ADD ? remake(c, n, OP_SETACC, n->nsrc, (int64_t[]){OP_MAX}) : NULL;
}
static tn_node *get_as_max(tn_ctx *c, tn_node *n) {
  return n->op == OP_GETACC && n->nsrc == 2 && n->ints[0] == OP_ADD && n->src[0]->ints[1] > 1
             ? remake(c, n, OP_GETACC, 2, (int64_t[]){OP_MAX})
             : NULL;
}
static tn_node *ungated(tn_ctx *c, tn_node *n) {
  return is_store(n) && n->nsrc > 3  ? remake(c, n, n->op, 3, NULL)
         : is_load(n) && n->nsrc > 2 ? remake(c, n, n->op, 2, NULL)
                                     : NULL;
}
static tn_node *is_setacc(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_SETACC ? n : NULL; }
static tn_node *is_effect(tn_ctx *c, tn_node *n) { return (void)c, is_store(n) ? n : NULL; }
static tn_node *is_barrier(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_BARRIER ? n : NULL; }
static tn_node *is_end(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_END ? n : NULL; }
static tn_node *is_start(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_ACC ? n : NULL; }

/* ---- where they are made ---- */

typedef struct site { /* changes are counted over a program; `at` is the one to be made */
  tn_ctx *c;
  uint32_t at, seen;
  bool made;
} site;

static bool here(site *s) { return s->made |= s->seen == s->at, s->seen++ == s->at; }

/* The first node of root that is to be changed: so. */
static tn_node *change_graph(site *s, tn_node *root, change_fn *fn) {
  tn__nodes all = {0};
  tn__topo(&s->c->scratch, &root, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *to = s->made ? NULL : fn(s->c, all.v[i]);
    if (to && to != all.v[i] && here(s)) return tn__substitute(s->c, root, &all.v[i], &to, 1);
  }
  return root;
}

typedef void place_fn(site *s, pipeline *p, change_fn *fn);

static void in_graph(site *s, pipeline *p, change_fn *fn) { p->graph = change_graph(s, p->graph, fn); }

static void in_bodies(site *s, pipeline *p, change_fn *fn) {
  for (uint32_t i = 0; i < p->s->items.n; i++) p->s->items.v[i].body = change_graph(s, p->s->items.v[i].body, fn);
}

static void in_parts(site *s, pipeline *p, change_fn *fn) {
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t q = 0; q < p->kernel[i]->nparts; q++) {
      tn__part *part = &p->kernel[i]->part[q];
      tn_node *body = change_graph(s, part->body, fn);
      if (body == part->body) continue;
      tn__linearise(s->c, &s->c->scratch, body, part);
      if (part->group && p->kernel[i]->nlocal) tn__place_barriers(s->c, &s->c->scratch, part);
      tn__spec_linear(s->c, part->ins, part->n);
    }
}

static void put_instructions(site *s, tn__part *part, uint32_t at, tn_node *by, bool drop) {
  tn__nodes ins = {0};
  tn_node *all = by && by != part->ins[at]
                     ? tn__substitute(s->c, tn__list(s->c, part->ins, part->n), &part->ins[at], &by, 1)
                     : tn__list(s->c, part->ins, part->n);
  for (uint32_t i = 0; i < part->n; i++)
    if (i != at || !drop) tn__vec_push(&s->c->scratch, &ins, all->src[i]);
  part->ins = ins.v;
  part->n = ins.n;
  tn__spec_linear(s->c, part->ins, part->n);
}

static void each_instruction(site *s, pipeline *p, change_fn *fn, bool drop) {
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t q = 0; q < p->kernel[i]->nparts; q++)
      for (uint32_t k = 0; k < p->kernel[i]->part[q].n && !s->made; k++) {
        tn_node *to = fn(s->c, p->kernel[i]->part[q].ins[k]);
        if (to && here(s)) put_instructions(s, &p->kernel[i]->part[q], k, to, drop);
      }
}
static void in_code(site *s, pipeline *p, change_fn *fn) { each_instruction(s, p, fn, false); }
static void out_of_code(site *s, pipeline *p, change_fn *fn) { each_instruction(s, p, fn, true); }

/* A group of half as many threads */
static void group_shorter(site *s, pipeline *p, change_fn *fn) {
  (void)fn;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t q = 0; q < p->kernel[i]->nparts && !s->made; q++)
      if (p->kernel[i]->part[q].group > 1 && here(s)) p->kernel[i]->part[q].group /= 2;
}

static void items_swapped(site *s, pipeline *p, change_fn *fn) {
  (void)fn;
  for (uint32_t i = 1; i < p->s->items.n; i++) {
    if (!here(s)) continue;
    tn__item x = p->s->items.v[i];
    p->s->items.v[i] = p->s->items.v[i - 1];
    p->s->items.v[i - 1] = x;
  }
}
static void item_lost(site *s, pipeline *p, change_fn *fn) {
  (void)fn;
  for (uint32_t i = 0; i < p->s->items.n && !s->made; i++)
    if (here(s)) memmove(&p->s->items.v[i], &p->s->items.v[i + 1], (--p->s->items.n - i) * sizeof p->s->items.v[0]);
}
/* An input is read from another buffer of the same kind. */
static void other_buffer(site *s, pipeline *p, change_fn *fn) {
  (void)fn;
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__item *it = &p->s->items.v[i];
    for (uint32_t b = it->nout; b < it->nbuf; b++)
      for (uint32_t o = 0; o < p->s->bufs.n && !s->made; o++) {
        const tn__buf *x = &p->s->bufs.v[it->buf[b]], *y = &p->s->bufs.v[o];
        if ((int)o == it->buf[b] || x->dtype != y->dtype || x->size != y->size || it->gemm) continue;
        if (here(s)) it->buf[b] = (int)o;
      }
  }
}

typedef void gemm_fn(tn_ctx *c, tn__gemm *g);
static void each_product(site *s, pipeline *p, gemm_fn *fn) {
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    if (!p->s->items.v[i].gemm || s->made) continue;
    tn__gemm *g = tn__arena_dup(&s->c->scratch, p->s->items.v[i].gemm, sizeof *g);
    fn(s->c, g);
    if (memcmp(g, p->s->items.v[i].gemm, sizeof *g) && here(s)) p->s->items.v[i].gemm = g;
  }
}
static void transpose(tn_ctx *c, tn__gemm *g) { (void)c, g->a.trans = !g->a.trans; }
static void shift(tn_ctx *c, tn__gemm *g) { g->b.offset = tn__add(c, g->b.offset, tn__int(c, 1)); }
static void narrow(tn_ctx *c, tn__gemm *g) { g->a.ld = tn__add(c, g->a.ld, tn__int(c, -1)); }
static void shorten(tn_ctx *c, tn__gemm *g) { g->k = tn__add(c, g->k, tn__int(c, -1)); }
static void one_batch(tn_ctx *c, tn__gemm *g) {
  if (!tn__is_int_const(g->batch, 1)) g->a.batch_stride = tn__int(c, 0);
}
static void no_row(tn_ctx *c, tn__gemm *g) { (void)c, g->row = -1; }
static void no_after(tn_ctx *c, tn__gemm *g) { (void)c, g->after = TN__AFTER_NOTHING; }
#define PRODUCT(name) \
  static void product_##name(site *s, pipeline *p, change_fn *fn) { (void)fn, each_product(s, p, name); }
PRODUCT(transpose)
PRODUCT(shift)
PRODUCT(narrow)
PRODUCT(shorten)
PRODUCT(one_batch)
PRODUCT(no_row)
PRODUCT(no_after)

static void same_place(site *s, pipeline *p, change_fn *fn) {
  tn__verify_subject *x = &p->subject;
  (void)fn;
  for (uint32_t a = 0; a < x->nblock; a++)
    for (uint32_t b = a + 1; b < x->nblock && !s->made; b++) {
      bool both = x->block[a].kind == BUF_TEMP && x->block[b].kind == BUF_TEMP && p->first[a] != UINT32_MAX &&
                  p->first[b] != UINT32_MAX;
      bool meet =
          both && p->first[a] <= p->last[b] && p->first[b] <= p->last[a] && x->block[b].offset != x->block[a].offset;
      if (meet && here(s))
        x->block[x->block[a].bytes < x->block[b].bytes ? a : b].offset =
            x->block[x->block[a].bytes < x->block[b].bytes ? b : a].offset;
    }
}
static void too_short(site *s, pipeline *p, change_fn *fn) {
  (void)fn;
  for (uint32_t b = 0; b < p->subject.nblock && !s->made; b++)
    if (p->subject.block[b].kind == BUF_TEMP && p->first[b] != UINT32_MAX && here(s))
      p->subject.block[b].bytes -= tn__size_of(p->subject.block[b].dtype);
}

/* ---- the table ---- */

typedef enum stage { SIMPLIFIED, SCATTERED, SCHEDULED, LOWERED, PLACED } stage;

typedef struct mutation {
  const char *pass, *what;
  stage after;
  place_fn *place;
  change_fn *change;
  const char *note; /* only kernels whose notes hold this word are of interest: programs that have one */
} mutation;

static const mutation mutations[] = {
    {"simplify", "a sum becomes a product", SIMPLIFIED, in_graph, to_mul, NULL},
    {"simplify", "a negation is lost", SIMPLIFIED, in_graph, no_neg, NULL},
    {"simplify", "a function is lost", SIMPLIFIED, in_graph, no_function, NULL},
    {"simplify", "a choice is turned round", SIMPLIFIED, in_graph, swap_where, NULL},
    {"simplify", "a comparison is turned round", SIMPLIFIED, in_graph, swap_less, NULL},
    {"simplify", "< becomes <=", SIMPLIFIED, in_graph, le_for_lt, NULL},
    {"simplify", "<= becomes <", SIMPLIFIED, in_graph, lt_for_le, NULL},
    {"simplify", "max becomes min", SIMPLIFIED, in_graph, to_min, NULL},
    {"simplify", "a constant is 1 more", SIMPLIFIED, in_graph, constant_on, NULL},
    {"simplify", "a remainder has the other sign", SIMPLIFIED, in_graph, floor_for_mod, NULL},
    {"simplify", "a permute is lost", SIMPLIFIED, in_graph, wrong_permute, NULL},
    {"simplify", "a permute becomes a reshape", SIMPLIFIED, in_graph, reshaped_permute, NULL},
    {"simplify", "a pad is on the other side", SIMPLIFIED, in_graph, swap_pad, NULL},
    {"simplify", "a slice begins 1 before", SIMPLIFIED, in_graph, shift_shrink, NULL},
    {"simplify", "a slice's step is lost", SIMPLIFIED, in_graph, no_step, NULL},
    {"simplify", "a flip is lost", SIMPLIFIED, in_graph, no_flip, NULL},
    {"simplify", "a sum becomes a maximum", SIMPLIFIED, in_graph, sum_as_max, NULL},
    {"simplify", "windows have another stride", SIMPLIFIED, in_graph, wrong_dilation, NULL},
    {"simplify", "a scatter begins from another base", SIMPLIFIED, in_graph, assign_add, NULL},
    {"simplify", "one of two addends is lost", SIMPLIFIED, in_graph, lose_addend, NULL},
    {"scatter", "one of two addends is lost", SCATTERED, in_graph, lose_addend, NULL},
    {"scatter", "a choice is turned round", SCATTERED, in_graph, swap_where, NULL},
    {"scatter", "<= becomes <", SCATTERED, in_graph, lt_for_le, NULL},
    {"scatter", "< becomes <=", SCATTERED, in_graph, le_for_lt, NULL},
    {"scatter", "a constant is 1 more", SCATTERED, in_graph, constant_on, NULL},
    {"scatter", "a pad is on the other side", SCATTERED, in_graph, swap_pad, NULL},
    {"scatter", "a slice begins 1 before", SCATTERED, in_graph, shift_shrink, NULL},
    {"prune", "two outputs change places", SIMPLIFIED, in_graph, swap_outputs, NULL},
    {"index", "a load is 1 on", SCHEDULED, in_bodies, load_on, NULL},
    {"index", "a load is 1 back", SCHEDULED, in_bodies, load_back, NULL},
    {"index", "a stride is 1 less", SCHEDULED, in_bodies, stride_off, NULL},
    {"index", "a divisor is 1 less", SCHEDULED, in_bodies, quotient_off, NULL},
    {"index", "a modulus is 1 less", SCHEDULED, in_bodies, remainder_off, NULL},
    {"emit", "the gate of a load is lost", SCHEDULED, in_bodies, gate_dropped, NULL},
    {"emit", "one of two conditions is lost", SCHEDULED, in_bodies, one_condition, NULL},
    {"emit", "a store is 1 back", SCHEDULED, in_bodies, store_back, NULL},
    {"emit", "a loop is 1 shorter", SCHEDULED, in_bodies, loop_shorter, NULL},
    {"emit", "a reduction is 1 shorter", SCHEDULED, in_bodies, reduce_shorter, NULL},
    {"emit", "a sum becomes a maximum", SCHEDULED, in_bodies, reduce_as_max, NULL},
    {"emit", "a maximum becomes a sum", SCHEDULED, in_bodies, reduce_as_sum, NULL},
    {"join", "a border is 1 on", SCHEDULED, in_bodies, border_on, NULL},
    {"join", "a border is 1 back", SCHEDULED, in_bodies, border_back, NULL},
    {"fuse", "a kernel reads another buffer", SCHEDULED, other_buffer, NULL, NULL},
    {"fuse", "a kernel is lost", SCHEDULED, item_lost, NULL, NULL},
    {"layout", "two kernels change places", SCHEDULED, items_swapped, NULL, NULL},
    {"gemm", "an operand is transposed", SCHEDULED, product_transpose, NULL, NULL},
    {"gemm", "an operand begins 1 on", SCHEDULED, product_shift, NULL, NULL},
    {"gemm", "rows are 1 closer", SCHEDULED, product_narrow, NULL, NULL},
    {"gemm", "the sum is 1 shorter", SCHEDULED, product_shorten, NULL, NULL},
    {"gemm", "all products share an operand", SCHEDULED, product_one_batch, NULL, NULL},
    {"epilogue", "the row is lost", SCHEDULED, product_no_row, NULL, NULL},
    {"epilogue", "the function is lost", SCHEDULED, product_no_after, NULL, NULL},
    {"optimise", "a loop is 1 shorter", LOWERED, in_parts, loop_shorter, NULL},
    {"optimise: split", "a block is 1 shorter", LOWERED, in_parts, reduce_shorter, "split("},
    {"optimise: split", "a stride is 1 less", LOWERED, in_parts, stride_off, "split("},
    {"optimise: lanes", "a tail has full length", LOWERED, in_parts, tail_dropped, NULL},
    {"optimise: lanes", "the lanes are 1 fewer", LOWERED, in_parts, lanes_shorter, NULL},
    {"optimise: chunk", "the slices are 1 fewer", LOWERED, in_parts, groups_shorter, NULL},
    {"rows", "a kept row is read 1 back", LOWERED, in_parts, local_back, "row("},
    {"rows", "a kept row is not stored", LOWERED, in_parts, local_unset, "row("},
    {"turn", "a turned tile is read 1 back", LOWERED, in_parts, local_back, "turn("},
    {"turn", "a turned tile is not filled", LOWERED, in_parts, local_unset, "turn("},
    {"turn", "a tile's lines are 1 closer", LOWERED, in_parts, stride_off, "turn("},
    {"turn", "a tile's line is 1 shorter", LOWERED, in_parts, lanes_shorter, "turn("},
    {"turn", "a tile is copied out to 1 back", LOWERED, in_parts, copied_back, "turn("},
    {"merge: repeat", "a copy is read 1 back", LOWERED, in_parts, local_back, "repeat("},
    {"merge: repeat", "the copies are not made", LOWERED, in_parts, local_unset, "repeat("},
    {"merge: repeat", "copies are 1 closer", LOWERED, in_parts, stride_off, "repeat("},
    {"merge: spread", "what is spread is read 1 back", LOWERED, in_parts, local_back, "spread("},
    {"merge: spread", "what is spread is not filled", LOWERED, in_parts, local_unset, "spread("},
    {"merge: spread", "each is spread over 1 less", LOWERED, in_parts, lanes_shorter, "spread("},
    {"merge: spread", "one less is spread", LOWERED, in_parts, reduce_shorter, "spread("},
    {"scan", "what stands before a thread is read 1 back", LOWERED, in_parts, local_back, "scan("},
    {"scan", "what a thread has is not told", LOWERED, in_parts, local_unset, "scan("},
    {"scan", "a line of threads is 1 shorter", LOWERED, in_parts, reduce_shorter, "scan("},
    {"scan", "a line begins 1 before", LOWERED, in_parts, stride_off, "scan("},
    {"columns", "what adds up is overwritten", LOWERED, in_parts, add_as_store, "hold("},
    {"columns", "a column's start is added", LOWERED, in_parts, store_as_add, "hold("},
    {"tally", "what is added up is not cleared", LOWERED, in_parts, local_unset, "tally("},
    {"tally", "what is added up is overwritten", LOWERED, in_parts, add_as_store, "tally("},
    {"tally", "a place has the one before it", LOWERED, in_parts, local_back, "tally("},
    {"tally", "a share is 1 shorter", LOWERED, in_parts, lanes_shorter, "tally("},
    {"tally", "a barrier is lost", LOWERED, out_of_code, is_barrier, "tally("},
    {"tables", "what is counted is not cleared", LOWERED, in_parts, local_unset, " in step("},
    {"tables", "what is counted is overwritten", LOWERED, in_parts, add_as_store, " in step("},
    {"tables", "a term has the count of the one before it", LOWERED, in_parts, local_back, " in step("},
    {"tables", "the last thread's terms are lost", LOWERED, in_parts, lanes_shorter, " in step("},
    {"tables", "a table begins 1 before", LOWERED, in_parts, stride_off, " in step("},
    {"tables", "a barrier is lost", LOWERED, out_of_code, is_barrier, " in step("},
    {"group", "a divisor is 1 less", LOWERED, in_parts, quotient_off, "flat("},
    {"group", "a modulus is 1 less", LOWERED, in_parts, remainder_off, "flat("},
    {"fold", "a kept sum is read 1 back", LOWERED, in_parts, local_back, "fold("},
    {"tile", "a modulus is 1 less", LOWERED, in_parts, remainder_off, "tile("},
    {"tile", "a border is 1 on", LOWERED, in_parts, border_on, "tile("},
    {"linearise", "an accumulator starts from 1", LOWERED, in_code, acc_from_one, NULL},
    {"linearise", "an accumulator is not started", LOWERED, out_of_code, is_start, NULL},
    {"linearise", "a value is not added up", LOWERED, out_of_code, is_setacc, NULL},
    {"linearise", "a maximum instead of a sum", LOWERED, in_code, set_as_max, NULL},
    {"linearise", "lanes meet by a maximum", LOWERED, in_code, get_as_max, NULL},
    {"linearise", "a store is lost", LOWERED, out_of_code, is_effect, NULL},
    {"linearise", "a gate is lost", LOWERED, in_code, ungated, NULL},
    {"linearise", "a loop is not closed", LOWERED, out_of_code, is_end, NULL},
    {"optimise: lanes", "lanes for a loop in order", LOWERED, in_parts, order_as_lanes, NULL},
    {"optimise: chunk", "slices for a loop in order", LOWERED, in_parts, order_as_slices, NULL},
    {"optimise: lanes", "two lanes store to one place", LOWERED, in_parts, place_of_lanes, NULL},
    {"optimise: chunk", "two slices store to one place", LOWERED, in_parts, place_of_slices, NULL},
    {"linearise", "lanes add to one cell", LOWERED, in_code, lanes_together, NULL},
    {"group", "a group has half its threads", LOWERED, group_shorter, NULL, NULL},
    {"barrier", "a barrier is lost", LOWERED, out_of_code, is_barrier, NULL},
    {"place", "two that live together share memory", PLACED, same_place, NULL, NULL},
    {"place", "a buffer is 1 too short", PLACED, too_short, NULL, NULL},
};
enum { MUTATIONS = sizeof mutations / sizeof *mutations };

/* ---- programs on devices ---- */

typedef struct program {
  const char *name;
  outputs (*make)(tn_ctx *c);
  const char *device;
  form form;
  bool library, noted; /* noted: only for changes of what a note tells */
} program;

#define FORMED(f)                                                                                                      \
  {#f, f, "ref", PLAIN, false, false}, {#f, f, "ref", OPTIMISED, false, false}, {                                      \
#f, f, "ref", GROUPS, false, false                                                                                 \
  }
static const program programs[] = {
    FORMED(chain),
    FORMED(integers),
    FORMED(views),
    FORMED(joined),
    FORMED(windows),
    FORMED(indexed),
    FORMED(counted),
    FORMED(running),
    FORMED(sorted),
    {"runs", runs, "ref", GROUPS, false, false},
    {"tallied", tallied, "ref:opencl", PLAIN, false, true},
    {"ranked", ranked, "ref:sm_90", PLAIN, false, true},
    {"numbered", numbered, "ref:sm_90", PLAIN, false, true},
    {"merged", merged, "ref:sm_90", PLAIN, false, false},
    {"spans", spans, "ref:sm_90", PLAIN, false, false},
    FORMED(softmax),
    FORMED(stages),
    FORMED(product),
    {"columns", columns, "ref", OPTIMISED, false, true},
    {"turned", turned, "ref", OPTIMISED, false, true},
    {"waiting", waiting, "ref", OPTIMISED, false, true},
    {"repeated", repeated, "ref", OPTIMISED, false, true},
    {"spread", spread, "ref", OPTIMISED, false, true},
    {"distances", distances, "ref", OPTIMISED, false, true},
    {"wide norm", wide_norm, "ref", GROUPS, false, true},
    {"norm", norm, "ref", PLAIN, false, false},
    {"norm", norm, "ref", GROUPS, false, false},
    {"long sums", long_sums, "ref", OPTIMISED, false, true},
    {"column sums", column_sums, "ref", GROUPS, false, false},
    {"norm", norm, "ref:sm_90", PLAIN, false, true},
    {"column sums", column_sums, "ref:sm_90", PLAIN, false, true},
    {"tiles", tiles, "ref:sm_90", PLAIN, false, true},
    {"product", product, "ref", PLAIN, true, false},
    {"products", products, "ref", PLAIN, true, false},
};
enum { PROGRAMS = sizeof programs / sizeof *programs, PER_PROGRAM = 2 };

typedef enum catcher { MISSED, SPEC, CHECKER, VALIDATION, CATCHERS } catcher;

typedef struct trial {
  const mutation *m; /* NULL: as it is */
  const program *p;
  site site;
  bool of_interest;
  const tn__verdict *verdict;
  char why[300];
  outputs out;
} trial;

static bool has_gemm(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }
static bool has_after(tn__device *d, int dtype, tn__after after) {
  return (void)d, (void)dtype, after == TN__AFTER_RELU || after == TN__AFTER_NOTHING;
}
static tn_status no_gemm(tn__device *d, const tn__product *g) { return (void)d, (void)g, TN_ENOTSUP; }

static void mutate(trial *t, pipeline *p, stage after) {
  if (t->m && t->m->after == after) t->m->place(&t->site, p, t->m->change);
}

static bool is_noted(const pipeline *p, const char *word) {
  for (uint32_t i = 0; word && i < p->s->items.n; i++)
    if (strstr(p->kernel[i]->note, word)) return true;
  return !word;
}

static void run_passes(tn_ctx *c, void *arg) {
  trial *t = arg;
  tn__nodes roots = {0}, in = {0};
  for (int i = 0; i < OUTPUTS && t->out.t[i]; i++) tn__vec_push(&c->scratch, &roots, t->out.t[i]->node);
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, roots.v, roots.n, &in)};
  t->site.c = c;
  pipeline_simplify(&p);
  mutate(t, &p, SIMPLIFIED);
  pipeline_scatter(&p);
  mutate(t, &p, SCATTERED);
  pipeline_schedule(&p);
  mutate(t, &p, SCHEDULED);
  pipeline_lower(&p);
  t->of_interest = !t->m || is_noted(&p, t->m->note);
  if (!t->of_interest) return;
  mutate(t, &p, LOWERED);
  pipeline_place(&p);
  mutate(t, &p, PLACED);
  if (t->m && !t->site.made) return;
  t->verdict = pipeline_verify(&p);
  snprintf(t->why, sizeof t->why, "%s", t->verdict->why ? t->verdict->why : "");
  t->site.seen = t->verdict->result; /* scratch goes */
  for (uint32_t i = 0; i < p.s->items.n && !t->m && getenv("SEEDED_PRINT"); i++)
    fprintf(stderr, "NOTE %s on %s, form %d: %s%s\n", t->p->name, t->p->device, (int)t->p->form, p.kernel[i]->note,
            p.s->items.v[i].gemm ? " gemm" : "");
}

/* One program with one change; false: there is no such place any more. */
static bool attempt(tn_ctx *c, trial *t, catcher *by) {
  bool good = tn__ctx_run(c, "attempt", run_passes, t);
  if (!good) snprintf(t->why, sizeof t->why, "%s", tn_last_error(c)->text);
  tn_clear_error(c);
  if (good && (!t->of_interest || (t->m && !t->site.made))) return false;
  *by = !good                                ? SPEC
        : t->site.seen != TN__VERIFY_DIFFERS ? MISSED
        : strncmp(t->why, "kernel", 6)       ? VALIDATION
                                             : CHECKER;
  if (strstr(t->why, "never written")) *by = CHECKER;
  return true;
}

typedef struct counts {
  uint32_t n[CATCHERS];
} counts;

static void plant(tn_ctx *c, const mutation *m, const program *p, const outputs *out, counts *count) {
  for (uint32_t at = 0; at < PER_PROGRAM; at++) {
    trial t = {.m = m, .p = p, .out = *out, .site = {.at = at}};
    catcher by;
    if (!attempt(c, &t, &by)) break;
    count->n[by]++;
    if (getenv("SEEDED_PRINT"))
      fprintf(stderr, "%s, %s: %s on %s, form %d, place %u: %s\n", m->pass, m->what, p->name, p->device, (int)p->form,
              at, t.why);
  }
}

/* A program as it is, and with every change. */
static void plant_all(const program *p, counts *count) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = p->device, .quiet = 1});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  tn__device_ops ops = *d->ops;
  take_form(d, p->form);
  if (p->make == tiles) d->target.units = 1; /* which so small a product keeps busy */
  /* what is so small would rather be one kernel */
  if (p->make == runs) d->target.launch = 1e-9f;
  if (p->make == spans) d->target.launch = 1e-12f;
  if (p->make == merged) d->target.launch = d->target.latency = 1e-12f;
  tn_scope(c) {
    trial t = {.p = p, .out = p->make(c)};
    catcher by;
    if (p->library) {
      ops.has_gemm = has_gemm, ops.has_after = has_after, ops.gemm = no_gemm;
      d->ops = &ops;
    }
    if (!attempt(c, &t, &by) || t.site.seen != TN__VERIFY_EQUAL)
      fail_msg("%s on %s, form %d, as it is: %s", p->name, p->device, (int)p->form, t.why);
    for (int m = 0; m < MUTATIONS; m++)
      if (mutations[m].note || !p->noted) plant(c, &mutations[m], p, &t.out, &count[m]);
  }
  tn_ctx_close(c);
}

static void every_mutation(void **s) {
  (void)s;
  counts count[MUTATIONS + 1] = {0}, *all = &count[MUTATIONS];
  uint32_t uncaught = 0;
  for (int p = 0; p < PROGRAMS; p++) plant_all(&programs[p], count);
  printf("%-18s %-38s %8s %5s %8s %11s %9s\n", "pass", "what is wrong", "planted", "spec", "checker", "validation",
         "harmless");
  for (int m = 0; m <= MUTATIONS; m++) {
    const uint32_t *n = count[m].n;
    bool total = m == MUTATIONS;
    printf("%-18s %-38s %8u %5u %8u %11u %9u\n", total ? "all" : mutations[m].pass, total ? "" : mutations[m].what,
           n[SPEC] + n[CHECKER] + n[VALIDATION] + n[MISSED], n[SPEC], n[CHECKER], n[VALIDATION], n[MISSED]);
    for (int k = 0; k < CATCHERS && !total; k++) all->n[k] += n[k];
    uncaught += n[SPEC] + n[CHECKER] + n[VALIDATION] == 0;
  }
  assert_int_equal(uncaught, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_mutation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
