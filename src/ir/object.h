/* What callers hold by a pointer, besides contexts and tensors: programs, lists of parameters, optimisers, batches,
 * open files.  Prefix tn__object_.
 *
 * Each starts with a tn__object and belongs to its context, which closes what is still open when it ends.  The block of
 * a closed one is kept, and serves another of its kind only after many more were closed: until then a pointer to it is
 * told from a live one, and using it is an error with a message. */
#ifndef TN_IR_OBJECT_H
#define TN_IR_OBJECT_H
#include <stdbool.h>
#include <stddef.h>
#include "tenet/ctx.h"

typedef enum tn__object_kind {
  TN__PROGRAM,
  TN__PARAMS,
  TN__OPTIM,
  TN__BATCHES,
  TN__FILE,
  TN__OBJECT_KINDS
} tn__object_kind;

typedef struct tn__object {
  uint32_t magic;                 /* tells an object, open or closed, from a stray pointer */
  tn__object_kind kind;
  bool owned;                     /* by another object, which closes it: no caller may */
  tn_ctx *ctx;
  void (*close)(void *);          /* gives back what it holds, the block excepted */
  struct tn__object *prev, *next; /* open ones, newest first; of closed ones next alone, oldest first */
} tn__object;

enum { TN__OBJECT_OPEN = 0x6f70656e, TN__OBJECT_CLOSED = 0x73687574 };

/* A context's: zeroed is none. */
typedef struct tn__objects {
  tn__object *open;
  struct tn__resting { tn__object *first, *last; uint32_t n; } closed[TN__OBJECT_KINDS];
} tn__objects;

void tn__object_refuse(const void *object, tn__object_kind kind, const char *api);
/* Of `size` cleared bytes, the same for all of a kind.  Throws TN_ENOMEM. */
void *tn__object_new(tn_ctx *c, tn__object_kind kind, size_t size, void (*close)(void *));
/* The context of an open one.  Else NULL: of a closed one it has recorded TN_EINVAL, naming the public function `api`.
 */
static inline tn_ctx *tn__object_use(const void *object, tn__object_kind kind, const char *api) {
  const tn__object *o = object;
  if (o && o->magic == TN__OBJECT_OPEN && o->kind == kind) return o->ctx;
  tn__object_refuse(object, kind, api);
  return NULL;
}
static inline void tn__object_own(void *object) { ((tn__object *)object)->owned = true; }
void tn__object_close(void *object);   /* an open one; of others nothing */
/* that, or TN_EINVAL recorded: it was closed, or is owned */
void tn__object_close_by_caller(void *object, tn__object_kind kind, const char *api);
void tn__object_discard(void *object); /* so one that no caller has seen: its block goes at once */
void tn__objects_close(tn_ctx *c);   /* all that are open, newest first */
void tn__objects_free(tn_ctx *c);    /* the blocks of those closed, at last */
#endif
