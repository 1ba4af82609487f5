/* Node constructors.  They check and intern; scalars constants are folded where both sources are constant integers (so
 * sizes stay literal), nothing more: simplification is rewriting's work. */
#ifndef TN_IR_BUILD_H
#define TN_IR_BUILD_H
#include "ir/ctx.h"

tn_node *tn__const_bits(tn_ctx *c, int dtype, uint64_t bits); /* bit pattern, integers sign-extended */
tn_node *tn__const_num(tn_ctx *c, int dtype, double v);       /* rounded (floats) or saturated (ints) to dtype */
tn_node *tn__int(tn_ctx *c, int64_t v);                       /* index constant */
tn_node *tn__var(tn_ctx *c, const char *name, int64_t lo, int64_t hi);
/* A variable that is no size, and that no text and no caller can name: something of this number, in lo..hi. */
tn_node *tn__stand_in(tn_ctx *c, const char *what, uint64_t number, int64_t lo, int64_t hi);
tn_node *tn__datum(tn_ctx *c, int64_t number, int64_t hi);
tn_node *tn__storage(tn_ctx *c, int dtype, int64_t id, int device, tn_node *const *dims, uint32_t rank);
tn_node *tn__param(tn_ctx *c, int dtype, int64_t slot, int device, tn_node *const *dims, uint32_t rank);
tn_node *tn__iota(tn_ctx *c, tn_node *n);

tn_node *tn__op1(tn_ctx *c, tn__op op, tn_node *x);
tn_node *tn__op2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y);
tn_node *tn__op3(tn_ctx *c, tn__op op, tn_node *x, tn_node *y, tn_node *z);
tn_node *tn__cast(tn_ctx *c, tn_node *x, int dtype); /* x itself if it has the dtype */
tn_node *tn__bitcast(tn_ctx *c, tn_node *x, int dtype);
#define tn__add(c, x, y) tn__op2(c, OP_ADD, x, y)
#define tn__mul(c, x, y) tn__op2(c, OP_MUL, x, y)
#define tn__neg(c, x) tn__op1(c, OP_NEG, x)
#define tn__where(c, p, x, y) tn__op3(c, OP_WHERE, p, x, y)
tn_node *tn__sub(tn_ctx *c, tn_node *x, tn_node *y); /* x + -y */

/* Tensor-level: sources must already have equal shapes (broadcasting is the front end's work). */
/* axes ascending; x itself if n = 0 */
tn_node *tn__reduce(tn_ctx *c, tn__op op, tn_node *x, const int64_t *axes, uint32_t n);
tn_node *tn__reshape(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank);       /* x itself if equal */
/* rank as x; x itself if equal */
tn_node *tn__expand(tn_ctx *c, tn_node *x, tn_node *const *dims);
tn_node *tn__permute(tn_ctx *c, tn_node *x, const int64_t *perm);                       /* x itself if identity */
tn_node *tn__pad(tn_ctx *c, tn_node *x, tn_node *const *lohi);                          /* 2*rank; x itself if all 0 */
tn_node *tn__shrink(tn_ctx *c, tn_node *x, tn_node *const *begin, tn_node *const *size,
                    const int64_t *step /* NULL: 1 */);
tn_node *tn__flip(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n);
tn_node *tn__window(tn_ctx *c, tn_node *x, int64_t axis, int64_t size, int64_t stride, int64_t dilation);
tn_node *tn__fold(tn_ctx *c, tn_node *g, tn_node *n, int64_t axis, int64_t size, int64_t stride, int64_t dilation);
tn_node *tn__gather(tn_ctx *c, tn_node *x, tn_node *idx);
tn_node *tn__scatter(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *upd);
tn_node *tn__scatter_by(tn_ctx *c, tn__op op, tn_node *base, tn_node *idx, tn_node *upd); /* MAX, OR */
tn_node *tn__contract(tn_ctx *c, tn_node *a, tn_node *b, int nb, int nm, int nn, int nk);
tn_node *tn__scalar_to(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank); /* rank-0 x spread over a shape */
tn_node *tn__sink(tn_ctx *c, tn_node *const *src, uint32_t n, const char *name);
tn_node *tn__list(tn_ctx *c, tn_node *const *src, uint32_t n);
tn_node *tn__range(tn_ctx *c, tn_node *extent, int axis, tn__role role, int64_t id);

/* Sizes.  Two dims are the same if their normal forms are (after folding, the same node). */
tn_node *tn__numel(tn_ctx *c, const tn_node *x);        /* product of the dims, index */
bool tn__dims_equal(tn_ctx *c, tn_node *const *a, tn_node *const *b, uint32_t n);
/* What normal forms cannot decide is let pass: a reshape between sizes that may be equal stands in the graph, and is a
 * constraint (ir/constraint.h). */
/* the size that both are, a plain one if one is; NULL: they certainly differ */
tn_node *tn__size_common(tn_ctx *c, tn_node *a, tn_node *b);
/* x, this axis taken as of the size */
tn_node *tn__axis_as(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *size);
/* so for all; NULL: the shapes certainly differ */
tn_node *tn__taken_as(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank);
#endif
