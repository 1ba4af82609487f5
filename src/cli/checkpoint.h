/* A training run on disk: weights, optimiser, place in the data and random generator in one safetensors file.  Prefix
 * tn__checkpoint_. */
#ifndef TN_CLI_CHECKPOINT_H
#define TN_CLI_CHECKPOINT_H
#include "tenet/tenet.h"

/* What a run is, and how far it has come.  The same plan gives the same losses, however often the run was interrupted.
 */
typedef struct tn__run {
  char model[16];
  int64_t epochs, batch, seed, rows, total; /* rows of training data; total: steps in all */
  int64_t epoch, step;                      /* epochs finished; steps done since the start */
} tn__run;

bool tn__checkpoint_save(tn_ctx *ctx, const char *path, const tn__run *run, tn_params *params, tn_optim *opt);
/* reads the plan; NULL on error */
tn_file *tn__checkpoint_open(tn_ctx *ctx, const char *path, tn__run *run);
bool tn__checkpoint_restore(tn_ctx *ctx, tn_file *f, tn_params *params, tn_optim *opt); /* and the random generator */
#endif
