#include "verify/library.h"
#include "ir/eval.h"

typedef struct call {
  tn__world *w;
  const tn__span *span;
  const tn__verify_item *it;
} call;

static tn__val at(const call *l, int block, int64_t element, int dtype) {
  return tn__span_get(&l->span[block], element, dtype);
}

static tn__val zero(const call *l, int acc) { return tn__val_bits(l->w, acc, tn__eval_reduce_init(OP_ADD, acc)); }

/* sum + x y, as libraries accumulate */
static tn__val add_product(const call *l, int dtype, tn__val sum, tn__val x, tn__val y) {
  int acc = tn__dtype_acc(dtype);
  x = tn__val_eval(l->w, OP_CAST, acc, dtype, &x);
  y = tn__val_eval(l->w, OP_CAST, acc, dtype, &y);
  return tn__val_collect(l->w, OP_ADD, acc, sum, tn__val_collect(l->w, OP_MUL, acc, x, y));
}

/* ---- products ---- */

static tn__val apply(const call *l, int op, int dtype, tn__val x, tn__val y) {
  return tn__val_eval(l->w, op, dtype, dtype, (tn__val[]){x, y});
}

/* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), of halves in f32, as libraries have it: its constants are no
 * halves. */
static tn__val gelu(const call *l, int of, tn__val x) {
  int dtype = of == TN_F64 ? of : TN_F32;
  double number[] = {0.5, 1, 0.7978845608028654, 0.044715};
  tn__val c[4], cube = apply(l, OP_MUL, dtype, apply(l, OP_MUL, dtype, x, x), x);
  for (int i = 0; i < 4; i++) c[i] = tn__val_bits(l->w, dtype, tn__eval_from_double(dtype, number[i]));
  tn__val inner = apply(l, OP_ADD, dtype, x, apply(l, OP_MUL, dtype, c[3], cube));
  inner = apply(l, OP_MUL, dtype, c[2], inner);
  tn__val outer = apply(l, OP_ADD, dtype, c[1], tn__val_eval(l->w, OP_TANH, dtype, dtype, &inner));
  return apply(l, OP_MUL, dtype, apply(l, OP_MUL, dtype, c[0], x), outer);
}

static tn__val product_at(const call *l, int64_t batch, int64_t i, int64_t j) {
  const tn__verify_item *it = l->it;
  const tn__product *g = it->product;
  int acc = tn__dtype_acc(g->dtype);
  tn__val sum = zero(l, acc);
  for (int64_t k = 0; k < g->k; k++) {
    tn__val a = at(l, it->a, it->a_off + tn__product_a(g, batch, i, k), g->dtype);
    tn__val b = at(l, it->b, it->b_off + tn__product_b(g, batch, k, j), g->dtype);
    sum = add_product(l, g->dtype, sum, a, b);
  }
  sum = tn__val_eval(l->w, OP_CAST, g->dtype, acc, &sum);
  if (it->row >= 0) sum = apply(l, OP_ADD, g->dtype, sum, at(l, it->row, j, g->dtype));
  if (g->after == TN__AFTER_RELU) sum = apply(l, OP_MAX, g->dtype, sum, tn__val_bits(l->w, g->dtype, 0));
  return g->after == TN__AFTER_GELU ? gelu(l, g->dtype, sum) : sum;
}

static const char *compare_product(const call *l, tn__library_agree agree, void *arg) {
  const tn__product *g = l->it->product;
  for (int64_t b = 0; b < g->batch; b++)
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        tn__val want = at(l, l->it->c, tn__product_c(g, b, i, j), g->dtype);
        if (agree(arg, g->dtype, want, product_at(l, b, i, j), g->after == TN__AFTER_GELU)) continue;
        tn__sb s;
        tn__sb_init(&s, &l->w->c->scratch);
        tn__sb_printf(&s, "product %lldx%lldx%lld: the library's element [%lld, %lld, %lld] is not that of the "
                      "reference",
                      (long long)g->m, (long long)g->n, (long long)g->k, (long long)b, (long long)i, (long long)j);
        return tn__sb_str(&s);
      }
  return NULL;
}

/* ---- convolutions ---- */

static tn__val conv_operand(const call *l, int o, const int64_t *at_dim) {
  const tn__conv_call *v = l->it->conv;
  return at(l, l->it->operand[o], l->it->conv_off[o] + tn__conv_place(v, o, at_dim), v->dtype);
}

static tn__val conv_at(const call *l, int64_t *at_dim) {
  const tn__conv_call *v = l->it->conv;
  const uint8_t *d = tn__conv_summed[v->kind];
  int acc = tn__dtype_acc(v->dtype), x = v->kind == CONV_DATA, y = v->kind == CONV_FORWARD ? CONV_FILTER : CONV_FORWARD;
  tn__val sum = zero(l, acc);
  for (at_dim[d[0]] = 0; at_dim[d[0]] < v->size[d[0]]; at_dim[d[0]]++)
    for (at_dim[d[1]] = 0; at_dim[d[1]] < v->size[d[1]]; at_dim[d[1]]++)
      for (at_dim[d[2]] = 0; at_dim[d[2]] < v->size[d[2]]; at_dim[d[2]]++) {
        if (!tn__conv_meet(v, at_dim)) continue;
        sum = add_product(l, v->dtype, sum, conv_operand(l, x, at_dim), conv_operand(l, y, at_dim));
      }
  return tn__val_eval(l->w, OP_CAST, v->dtype, acc, &sum);
}

static const char *compare_conv(const call *l, tn__library_agree agree, void *arg) {
  const tn__conv_call *v = l->it->conv;
  const uint8_t *d = tn__conv_dims[v->kind];
  int64_t n = 1, at_dim[CONV_DIMS] = {0};
  for (int i = 0; i < 4; i++) n *= v->size[d[i]];
  for (int64_t e = 0; e < n; e++) {
    int64_t rest = e;
    for (int i = 4; i && i--; rest /= v->size[d[i]]) at_dim[d[i]] = rest % v->size[d[i]];
    if (agree(arg, v->dtype, conv_operand(l, (int)v->kind, at_dim), conv_at(l, at_dim), false)) continue;
    tn__sb s;
    tn__sb_init(&s, &l->w->c->scratch);
    tn__sb_printf(&s, "convolution of kind %d: the library's element %lld is not that of the reference", (int)v->kind,
                  (long long)e);
    return tn__sb_str(&s);
  }
  return NULL;
}

const char *tn__library_compare(tn__world *w, const tn__span *span, const tn__verify_item *it, tn__library_agree agree,
                                void *arg) {
  const call l = {w, span, it};
  return it->conv ? compare_conv(&l, agree, arg) : compare_product(&l, agree, arg);
}
