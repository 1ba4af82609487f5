/* Optimisers: they update the tensors of a parameter list by tn_assign().
 *
 *   tn_optim *opt = tn_adam(params, 1e-3, 0.9, 0.999, 1e-8, 0);
 *   ... tn_grad(loss, tn_params_count(params), tn_params_tensors(params), grads);
 *   tn_optim_step(opt, grads);          records the update
 *   tn_optim_realize(opt, loss);        and runs it; inside a program, the program does
 *
 * Learning rate, step count and moments are tensors, so that neither a changing rate nor the growing step compiles
 * anything anew, and a program replays them. */
#ifndef TENET_OPTIM_H
#define TENET_OPTIM_H
#include "tenet/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_optim tn_optim;

/* Each makes an optimiser for float parameters, all on one device, and realises them and its state, there, too.  What
 * is added to the list later is not the optimiser's.  NULL on error; TN_EINVAL names an option that is NaN, negative or
 * infinite, or a beta that is not below 1. */

/* Sutskever, Martens, Dahl, Hinton, On the Importance of Initialization and Momentum in Deep Learning, ICML 2013, in
 * PyTorch's form: g += weight_decay*w; v = momentum*v + g; w -= lr*(nesterov ? g + momentum*v : v).  momentum = 0: no
 * state. */
TN_API tn_optim *tn_sgd(tn_params *params, double lr, double momentum, double weight_decay, bool nesterov);
/* Kingma, Ba, Adam: A Method for Stochastic Optimization, arXiv 1412.6980, algorithm 1: m = beta1*m + (1-beta1)*g, v =
 * beta2*v + (1-beta2)*g^2, w -= lr * m/(1-beta1^t) / (sqrt(v/(1-beta2^t)) + eps).  weight_decay adds weight_decay*w to
 * g. */
TN_API tn_optim *tn_adam(tn_params *params, double lr, double beta1, double beta2, double eps, double weight_decay);
/* Loshchilov, Hutter, Decoupled Weight Decay Regularization, arXiv 1711.05101, in PyTorch's form: Adam, after w *= 1 -
 * lr*weight_decay. */
TN_API tn_optim *tn_adamw(tn_params *params, double lr, double beta1, double beta2, double eps, double weight_decay);
TN_API void tn_optim_close(tn_optim *o); /* NULL allowed */

/* Records one update from the gradients of all parameters, in the list's order (NULLs after an earlier error are passed
 * on). */
TN_API tn_status tn_optim_step(tn_optim *o, tn_tensor *const *grads);
/* Computes what was recorded, and `loss` (may be NULL) beside it, in one schedule.  Not inside a program. */
TN_API tn_status tn_optim_realize(tn_optim *o, tn_tensor *loss);
TN_API tn_status tn_optim_set_lr(tn_optim *o, double lr); /* TN_EINVAL as above */
/* Everything but the parameters that a checkpoint must hold: "lr", Adam's "step", and the moments "momentum.NAME",
 * "m.NAME", "v.NAME".  The optimiser's own: it closes it. */
TN_API tn_params *tn_optim_state(tn_optim *o);

#ifdef __cplusplus
}
#endif
#endif
