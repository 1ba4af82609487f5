/* What an op does along one axis, and the engine's adjoint of it, as a theorem for Coq, in the names of
 * proofs/coq/Adjoint.v.  Prefix tn__adjoint_. */
#ifndef TN_PROVE_ADJOINT_COQ_H
#define TN_PROVE_ADJOINT_COQ_H
#include "base/sb.h"
#include "prove/adjoint_axes.h"

/* The statement, in `a`. */
const char *tn__adjoint_axis(tn_ctx *c, tn__arena *a, tn__axis_kind kind);
#endif
