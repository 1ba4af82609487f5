/* Derivatives, graph to graph: the results are ordinary lazy tensors, which can be differentiated again.
 *
 * Conventions at points without a derivative: elements tied for a maximum or minimum share equally; abs has slope 0 at
 * 0; floor, ceil, round, trunc, sign and everything with an integer or bool result have slope 0 everywhere.  tn_detach
 * stops gradients.
 *
 * A tensor that was realised, read or printed holds a value and no longer knows how it was made: take gradients of a
 * loss before reading it (reading it afterwards is free to share the work), and realise what you differentiate by
 * before you use it.  A gradient that would have to flow through such a value to a realised wrt[i] that it was made
 * from is TN_EGRAD, never a number without that part; tn_detach says that a constant is meant. Leaves without a memory
 * are what is itself in wrt, what was assigned or written, copies by tn_to, results of programs, and what was made of
 * more than 4096 tensors. */
#ifndef TENET_GRAD_H
#define TENET_GRAD_H
#include "tenet/tensor_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out[i] = d loss / d wrt[i], in the shape and dtype of wrt[i].
 *
 * loss: rank 0, float.  wrt: n tensors of float dtypes that loss was made from, leaves or not; where wrt[i] is made
 * from wrt[j], the gradient of wrt[j] includes what flows through wrt[i].  The results belong to the innermost scope.
 * Errors (every out[i] is then NULL): TN_EGRAD if loss is not a float scalar, if a wrt[i] is not float or does not
 * influence loss, if an intermediate that was realised before, an assignment, a bitcast or an op without a derivative
 * lies between; TN_EINVAL for NULL or dead handles. */
TN_API tn_status tn_grad(tn_tensor *loss, int n, tn_tensor *const *wrt, tn_tensor **out);

/* Reverse mode with a given start: out[i] = sum over the elements of y of dy * d y / d wrt[i].  dy has the shape and
 * dtype of y. */
TN_API tn_status tn_vjp(tn_tensor *y, tn_tensor *dy, int n, tn_tensor *const *wrt, tn_tensor **out);

/* Forward mode: *out = sum over i of d y / d wrt[i] * v[i], in the shape and dtype of y.  v[i] has those of wrt[i]. */
TN_API tn_status tn_jvp(tn_tensor *y, int n, tn_tensor *const *wrt, tn_tensor *const *v, tn_tensor **out);

#ifdef __cplusplus
}
#endif
#endif
