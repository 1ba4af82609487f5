/* Optimisers.  A step builds the new value of every target (parameters, moments, the step count), and assigns them when all are
 * there: an error leaves everything as it was. */
#include "ir/ctx.h"
#include "ir/dtype.h"
#include "tenet/optim.h"
#include "tenet/tensor.h"
#include <string.h>

enum { MAX_MOMENTS = 2 };

typedef struct rule rule;

struct tn_optim {
  tn_ctx *ctx;
  tn_params *params, *state;
  const rule *rule;
  double beta1, beta2, eps, decay; /* SGD: beta1 is the momentum */
  bool variant;                    /* SGD: Nesterov's; Adam: decoupled decay */
  int n, moments;
  tn_tensor *lr, *step;            /* f64; step is NULL where the rule has none */
  int targets;                     /* n parameters, n of each moment, the step */
  tn_tensor **target, **next;      /* what is updated, and the new values; room for lr and a loss behind the targets */
};

struct rule {
  const char *moment[MAX_MOMENTS]; /* names */
  bool counts;                     /* has a step count */
  void (*prepare)(tn_optim *o);    /* once per step */
  /* The new value of parameter i, of value w and gradient g in the arithmetic's dtype; puts its moments' into o->next. */
  tn_tensor *(*update)(tn_optim *o, int i, tn_tensor *w, tn_tensor *g);
  tn_tensor *scale[2];
};

/* Moments and arithmetic of f16 and bf16 parameters are f32. */
static tn_dtype wide(const tn_tensor *w) { return (tn_dtype)tn__dtype_acc((int)tn_dtype_of(w)); }
