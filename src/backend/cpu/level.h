/* What kernels may use of the processor.  Prefix tn__level_. */
#ifndef TN_BACKEND_CPU_LEVEL_H
#define TN_BACKEND_CPU_LEVEL_H
#include "ir/ctx.h"

typedef struct tn__level {
  const char *name;  /* as in TENET_CPU_LEVEL */
  const char *march; /* what compilers call it; "": they are not told */
  int bytes;         /* of a vector */
} tn__level;

bool tn__level_is(const char *name);
/* The level called `asked`; NULL: the best that the processor has.  Throws where there is none such, or where the
 * processor lacks something of it; `by`: what asked for it. */
const tn__level *tn__level_choose(tn_ctx *c, const char *asked, const char *by);
#endif
