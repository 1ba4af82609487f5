/* What the parts of the front end share: checked arguments, broadcasting, promotion, and node constructors that do
 * both. All throw; texts say what is wrong, the public function's name is put in front by tn__fail.  For tensor/, and
 * for nn/, which composes what is here. */
#ifndef TN_TENSOR_OPERANDS_H
#define TN_TENSOR_OPERANDS_H
#include "tensor/cell.h"

/* A shape inside a builder. */
typedef struct tn__dims {
  uint32_t rank;
  tn_node *d[TN_MAX_RANK];
} tn__dims;

/* ---- checks of arguments (operands.c) ---- */
const char *tn__text(tn_ctx *c, const tn_node *x);                 /* "f32[2,3]" for messages */
const char *tn__dims_text(tn_ctx *c, tn_node *const *d, uint32_t rank); /* "[2,3]" */
void tn__check_dtype(tn_ctx *c, int dtype);                         /* a dtype from the caller */
void tn__shape_in(tn_ctx *c, const tn_dim *shape, int rank, tn__dims *out);
uint32_t tn__axis(tn_ctx *c, int axis, uint32_t rank);              /* counted from the front */
/* Ascending, each once; n = 0 and axes = NULL: all.  Returns how many. */
uint32_t tn__axes(tn_ctx *c, const int *axes, int n, uint32_t rank, int64_t *out);
/* The dtype must be one of these classes (a mask of tn__class); the message suggests tn_cast. */
void tn__want(tn_ctx *c, const tn_node *x, int classes);
enum {
  TN__C_NUM = TN__C_INT | TN__C_FLOAT,
  TN__C_BITS = TN__C_BOOL | TN__C_INT,
  TN__C_ANY = TN__C_BOOL | TN__C_INT | TN__C_FLOAT
};

/* check.c: the public function `api` was given indices (or labels) idx for this axis of x, and is to use those that
 * this gives: what is made of them is refused with them. */
tn_node *tn__check_index(tn_ctx *c, const char *api, tn_node *idx, tn_node *x, uint32_t axis);

/* ---- constants and index tensors ---- */
bool tn__fits(int dtype, double v);                                 /* floats take every number */
/* rank 0; throws if an integer or bool dtype cannot hold v */
tn_node *tn__literal(tn_ctx *c, int dtype, double v);
tn_node *tn__literal_like(tn_ctx *c, tn_node *x, double v);         /* spread over x's shape, x's dtype */
tn_node *tn__dim_value(tn_ctx *c, tn_node *dim, int dtype);         /* a size as a rank-0 value */
tn_node *tn__spread(tn_ctx *c, tn_node *x, const tn__dims *to);     /* broadcast to a shape; throws TN_ESHAPE */
tn_node *tn__place(tn_ctx *c, const tn__dims *shape, uint32_t axis);/* i64: each element's index along an axis */
tn__dims tn__dims_of(const tn_node *x);

/* ---- dtypes and shapes of several operands ---- */
void tn__promote(tn_ctx *c, tn_node **x, int n);
void tn__broadcast(tn_ctx *c, tn_node **x, int n);
tn_node *tn__bcast2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y);  /* broadcast (not promoted) */
#define tn__bsub(c, x, y) tn__bcast2(c, OP_ADD, x, tn__neg(c, y))
tn_node *tn__op2_num(tn_ctx *c, tn__op op, tn_node *x, double v);   /* x op v */
tn_node *tn__num_op2(tn_ctx *c, tn__op op, double v, tn_node *x);   /* v op x */
tn_node *tn__op2_bits(tn_ctx *c, tn__op op, tn_node *x, uint64_t bits); /* x op the number of these bits */

/* ---- movements by name ---- */
tn_node *tn__add_axis(tn_ctx *c, tn_node *x, uint32_t axis);        /* of size 1 */
tn_node *tn__drop_axis(tn_ctx *c, tn_node *x, uint32_t axis);       /* of size 1 */
tn_node *tn__merge_axes(tn_ctx *c, tn_node *x, uint32_t first, uint32_t n); /* n >= 0 axes into one */
tn_node *tn__split_axis(tn_ctx *c, tn_node *x, uint32_t axis, const tn__dims *into);
tn_node *tn__move_axis(tn_ctx *c, tn_node *x, uint32_t from, uint32_t to);
tn_node *tn__join(tn_ctx *c, tn_node **x, int n, uint32_t axis);    /* concatenation; x is overwritten */
/* Rebuilds the movements that lead from `from` up to `top` over another source. */
tn_node *tn__moves_replay(tn_ctx *c, tn_node *top, const tn_node *from, tn_node *over);

/* ---- reductions (reduce.c) and others used by compositions ---- */
tn_node *tn__sum_axes(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim);
tn_node *tn__mean_axes(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim);
tn_node *tn__reduce_keep(tn_ctx *c, tn__op op, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim);
tn_node *tn__acc(tn_ctx *c, tn_node *x);                            /* in the dtype in which sums accumulate */
int tn__widened(int dtype); /* of sums and products, as in the array API: those of small integers do not overflow */
bool tn__is_empty(const tn_node *x, const int64_t *axes, uint32_t n); /* some listed axis is known to have size 0 */
/* x, which has something on these axes: what cannot be told of a symbolic size is a constraint, checked when it is
 * bound. */
tn_node *tn__not_empty(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n);
tn_node *tn__finite_or_zero(tn_ctx *c, tn_node *x);
tn_node *tn__relu_of(tn_ctx *c, tn_node *x);
tn_node *tn__gelu_tanh_of(tn_ctx *c, tn_node *x);
tn_node *tn__softplus_of(tn_ctx *c, tn_node *x);                    /* ln(1 + exp(x)) */
#endif
