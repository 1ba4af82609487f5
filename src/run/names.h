/* What a program lists: names by number, and values that are outputs of one plan.  Each is found in a time that does
 * not hang on how many there are.  Prefix tn__names_, tn__roots_. */
#ifndef TN_RUN_NAMES_H
#define TN_RUN_NAMES_H
#include "ir/ctx.h"

typedef struct tn__name {
  const char *name;
  uint32_t number; /* what it stands for */
} tn__name;

typedef struct tn__names {
  tn__vec(tn__name) name;
  tn__map at; /* in `name`, by hash, or the next free key */
} tn__names;

void tn__names_init(tn__names *n, tn__arena *a);
bool tn__names_find(const tn__names *n, const char *name, uint32_t *number);
/* One that is not there; the text is kept by the caller.  Where it throws, it is not there still. */
void tn__names_add(tn__names *n, const char *name, uint32_t number);

typedef struct tn__roots { /* each of a plan's outputs is a node of its own */
  tn__nodes node;
  tn__map last; /* by a node that is among them: itself, or the last copy of it */
} tn__roots;

void tn__roots_init(tn_ctx *c, tn__roots *r);
/* The number of n, or of a copy of it if it is there: equal values of two outputs stand in two places. */
uint32_t tn__roots_add(tn_ctx *c, tn__roots *r, tn_node *n);
#endif
