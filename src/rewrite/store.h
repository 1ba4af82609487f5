/* The context's tables and the engine's work memory.  Prefix tn__rules_. */
#ifndef TN_REWRITE_STORE_H
#define TN_REWRITE_STORE_H
#include "rewrite/table.h"

/* An arena for one rewrite: emptied by the next call. */
tn__arena *tn__rules_work(tn_ctx *c);
#endif
