/* Names, each with a number; found in a time that does not hang on how many there are.  Prefix tn__names_. */
#ifndef TN_BASE_NAMES_H
#define TN_BASE_NAMES_H
#include "base/mem.h"

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

#endif
