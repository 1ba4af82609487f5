#include "ir/object.h"
#include "ir/ctx.h"
#include <string.h>

enum { RESTS = 64 };

static const char *const names[TN__OBJECT_KINDS] = {
    [TN__PROGRAM] = "program", [TN__PARAMS] = "list of parameters",
    [TN__OPTIM] = "optimiser", [TN__BATCHES] = "iterator",
    [TN__FILE] = "file",
};

/* The block that has rested longest, once enough others rest, too. */
static tn__object *take_rested(tn_ctx *c, tn__object_kind kind) {
  struct tn__resting *r = &c->objects.closed[kind];
  tn__object *o = r->n > RESTS ? r->first : NULL;
  if (!o) return NULL;
  r->first = o->next;
  r->n--;
  return o;
}

void *tn__object_new(tn_ctx *c, tn__object_kind kind, size_t size, void (*close)(void *)) {
  tn__object *o = take_rested(c, kind), *first = c->objects.open;
  if (!o) o = tn__mem_alloc(&c->mem, size);
  memset(o, 0, size);
  *o = (tn__object){.magic = TN__OBJECT_OPEN, .kind = kind, .ctx = c, .close = close, .next = first};
  if (first) first->prev = o;
  c->objects.open = o;
  return o;
}

void tn__object_refuse(const void *object, tn__object_kind kind, const char *api) {
  const tn__object *o = object;
  if (o && o->magic == TN__OBJECT_CLOSED && o->kind == kind) tn__refuse(o->ctx, api, "the %s was closed", names[kind]);
}

/* Is it open?  No longer then. */
static bool end(tn__object *o) {
  if (!o || o->magic != TN__OBJECT_OPEN) return false;
  o->magic = TN__OBJECT_CLOSED;
  if (o->prev) o->prev->next = o->next;
  else o->ctx->objects.open = o->next;
  if (o->next) o->next->prev = o->prev;
  o->next = NULL;
  o->close(o);
  return true;
}

void tn__object_close(void *object) {
  tn__object *o = object;
  if (!end(o)) return;
  struct tn__resting *r = &o->ctx->objects.closed[o->kind];
  if (r->n++) r->last->next = o;
  else r->first = o;
  r->last = o;
}

void tn__object_close_by_caller(void *object, tn__object_kind kind, const char *api) {
  tn_ctx *c = tn__object_use(object, kind, api);
  if (!c) return;
  if (((tn__object *)object)->owned)
    tn__refuse(c, api, "the %s belongs to what it was asked of, which closes it", names[kind]);
  else tn__object_close(object);
}

void tn__object_discard(void *object) {
  tn__object *o = object;
  if (end(o)) tn__mem_free(&o->ctx->mem, o);
}

void tn__objects_close(tn_ctx *c) {
  while (c->objects.open) tn__object_close(c->objects.open);
}

void tn__objects_free(tn_ctx *c) {
  for (int k = 0; k < TN__OBJECT_KINDS; k++)
    for (tn__object *o; (o = c->objects.closed[k].first);) {
      c->objects.closed[k].first = o->next;
      tn__mem_free(&c->mem, o);
    }
}
