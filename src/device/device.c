/* The list of devices, and the table from storage ids to buffers. */
#include "device/devices.h"
#include "ir/build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void tn__devices_open(tn_ctx *c) {
  c->devices = tn__mem_zalloc(&c->mem, sizeof *c->devices);
  c->devices->free_id = -1;
  tn__devices_seek(c);
}

void tn__devices_seek(tn_ctx *c) { c->devices->since = milliseconds(); }

/* The buffer goes back, the id is free again. */
static void forget(tn_ctx *c, int64_t id) {
  struct tn__devices *ds = c->devices;
  tn__buffer_drop(ds->storage[id].buffer);
  tn__mem_free(&c->mem, ds->storage[id].from);
  ds->storage[id] = (tn__storage_entry){.next_free = ds->free_id};
  ds->free_id = id;
}

void tn__devices_close(tn_ctx *c) {
  struct tn__devices *ds = c->devices;
  if (!ds) return;
  for (int64_t i = 0; i < ds->nstorage; i++)
    if (ds->storage[i].buffer) forget(c, i);
  tn__mem_free(&c->mem, ds->storage);
  for (int i = ds->n - 1; i >= 0; i--) {
    tn__device *d = &ds->slot[i]->device;
    tn__device_flush(ds->slot[i]);
    if (d->ops->close) d->ops->close(d);
    tn__mem_free(&c->mem, ds->slot[i]);
  }
  tn__mem_free(&c->mem, ds);
  c->devices = NULL;
}

tn__device *tn__device_add(tn_ctx *c, const tn__device_ops *ops, const char *name, const char *text, void *self) {
  struct tn__devices *ds = c->devices;
  if (ds->n == TN__MAX_DEVICES) tn__fail(c, TN_EDEVICE, "more than %d devices", TN__MAX_DEVICES);
  tn__device_slot *s = tn__mem_zalloc(&c->mem, sizeof *s);
  tn__device *d = &s->device;
  d->ops = ops;
  d->ctx = c;
  d->index = ds->n;
  d->self = self;
  snprintf(d->name, sizeof d->name, "%s", name);
  snprintf(d->text, sizeof d->text, "%s", text);
  d->probed = milliseconds() - ds->since;
  tn__devices_seek(c);
  ds->slot[ds->n++] = s;
  return d;
}

tn__device *tn__device_get(tn_ctx *c, int index) {
  if (index < 0 || index >= c->devices->n) tn__fail(c, TN_EDEVICE, "there is no device number %d", index);
  return &c->devices->slot[index]->device;
}

int tn__device_find(tn_ctx *c, const char *name) {
  for (int i = 0; i < c->devices->n; i++)
    if (!strcmp(c->devices->slot[i]->device.name, name)) return i;
  return -1;
}

int tn__device_count(tn_ctx *c) { return c->devices->n; }

/* Doubles the table; false when out of memory. */
static bool grow_table(tn_ctx *c, struct tn__devices *ds) {
  int64_t cap = ds->cap ? 2 * ds->cap : 64;
  tn__storage_entry *table = tn__mem_try_alloc(&c->mem, (size_t)cap * sizeof *table);
  if (!table) return false;
  if (ds->nstorage) memcpy(table, ds->storage, (size_t)ds->nstorage * sizeof *table);
  tn__mem_free(&c->mem, ds->storage);
  ds->storage = table;
  ds->cap = cap;
  return true;
}

int64_t tn__storage_new(tn_ctx *c, tn__buffer *b) {
  struct tn__devices *ds = c->devices;
  int64_t id = ds->free_id;
  if (id >= 0) {
    ds->free_id = ds->storage[id].next_free;
  } else {
    if (ds->nstorage == ds->cap && !grow_table(c, ds)) {
      tn__buffer_drop(b); /* ours by now: nobody else would */
      tn__mem_throw(&c->mem, TN_ENOMEM);
    }
    id = ds->nstorage++;
  }
  ds->storage[id] = (tn__storage_entry){.buffer = b, .next_free = -1};
  return id;
}

typedef struct making {
  tn_ctx *c;
  int dtype, device;
  int64_t id;
  tn_node *const *dims;
  uint32_t rank;
  tn_node *made;
} making;

static void make_storage(void *arg) {
  making *k = arg;
  k->made = tn__storage(k->c, k->dtype, k->id, k->device, k->dims, k->rank);
}

static tn_node *make(tn_ctx *c, int dtype, tn__buffer *b, int device, tn_node *const *dims, uint32_t rank) {
  making k = {.c = c, .dtype = dtype, .device = device, .dims = dims, .rank = rank};
  tn_status status;
  k.id = tn__storage_new(c, b);
  if (tn__mem_try(&c->mem, make_storage, &k, &status)) {
    c->devices->storage[k.id].serial = k.made->serial;
    return k.made;
  }
  forget(c, k.id);
  tn__mem_throw(&c->mem, status);
}

tn_node *tn__storage_make(tn_ctx *c, int dtype, tn__buffer *b, tn_node *const *dims, uint32_t rank) {
  return make(c, dtype, b, b->device->index, dims, rank);
}

tn_node *tn__storage_loose(tn_ctx *c, int dtype, tn__buffer *b, tn_node *const *dims, uint32_t rank) {
  return make(c, dtype, b, -1, dims, rank);
}

tn__buffer *tn__storage_buffer(tn_ctx *c, const tn_node *storage) {
  int64_t id = storage->ints[0];
  struct tn__devices *ds = c->devices;
  if (id < 0 || id >= ds->nstorage || !ds->storage[id].buffer)
    tn__fail(c, TN_ESTATE, "storage %lld has no buffer", (long long)id);
  return ds->storage[id].buffer;
}

void tn__device_copy(tn__device *d, void *dst, tn__device *from, const void *src, size_t size) {
  if (d->ops == from->ops && d->ops->fetch && d->ops->fetch(d, dst, from, src, size)) return;
  if (from->ops->alloc == tn__host_alloc) {
    d->ops->upload(d, dst, src, size);
    return;
  }
  if (d->ops->alloc == tn__host_alloc) {
    from->ops->download(from, dst, src, size);
    return;
  }
  void *host = tn__alloc(d->ctx, size + 1);
  from->ops->download(from, host, src, size);
  d->ops->upload(d, dst, host, size);
}

tn__buffer *tn__storage_input(tn_ctx *c, const tn_node *storage) {
  tn__buffer *b = tn__storage_buffer(c, storage);
  tn__device *d = b->device;
  if ((uintptr_t)b->mem % TN__INPUT_ALIGN == 0) return b;
  tn__buffer *copy = tn__buffer_new(d, b->size);
  /* ends with the call */
  const tn_node *owner = tn__storage_make(c, storage->dtype, copy, storage->dim, storage->rank);
  tn__device_copy(d, copy->mem, d, b->mem, b->size);
  tn__storage_swap(c, owner, b);
  tn__storage_swap(c, storage, copy);
  return copy;
}

tn__buffer *tn__storage_on(tn_ctx *c, const tn_node *storage, tn__device *d) {
  tn__buffer *b = tn__storage_buffer(c, storage);
  if (b->device == d) return tn__storage_input(c, storage);
  tn__buffer *copy = tn__buffer_new(d, b->size);
  tn__storage_make(c, storage->dtype, copy, storage->dim, storage->rank); /* nobody keeps it: it ends with the call */
  tn__device_copy(d, copy->mem, b->device, b->mem, b->size);
  return copy;
}

tn__buffer *tn__storage_swap(tn_ctx *c, const tn_node *storage, tn__buffer *b) {
  tn__buffer *old = tn__storage_buffer(c, storage);
  c->devices->storage[storage->ints[0]].buffer = b;
  return old;
}

/* ---- what values were computed from ---- */

enum { MOST_ORIGINS = 4096 };

static int by_serial(const void *x, const void *y) {
  const tn__birth *a = x, *b = y;
  return a->serial < b->serial ? -1 : a->serial > b->serial;
}

static bool is_there(const struct tn__devices *ds, const tn__birth *b) {
  return ds->storage[b->id].buffer && ds->storage[b->id].serial == b->serial;
}

void tn__storage_derive(tn_ctx *c, const tn_node *storage, tn_node *const *from, uint32_t n) {
  struct tn__devices *ds = c->devices;
  tn__storage_entry *e = &ds->storage[storage->ints[0]];
  tn__vec(tn__birth) all = {0};
  for (uint32_t i = 0; i < n; i++) {
    const tn__storage_entry *s = &ds->storage[from[i]->ints[0]];
    tn__vec_push(&c->scratch, &all, ((tn__birth){from[i]->ints[0], from[i]->serial}));
    for (uint32_t k = 0; k < s->nfrom; k++)
      if (is_there(ds, &s->from[k])) tn__vec_push(&c->scratch, &all, s->from[k]);
  }
  if (!all.n) return;
  qsort(all.v, all.n, sizeof *all.v, by_serial);
  uint32_t once = 1;
  for (uint32_t i = 1; i < all.n; i++)
    if (all.v[i].serial != all.v[once - 1].serial) all.v[once++] = all.v[i];
  if (once > MOST_ORIGINS) return;
  e->from = tn__mem_alloc(&c->mem, once * sizeof *e->from);
  memcpy(e->from, all.v, once * sizeof *e->from);
  e->nfrom = once;
}

bool tn__storage_is_from(tn_ctx *c, const tn_node *storage, const tn_node *other) {
  const struct tn__devices *ds = c->devices;
  if (!ds || storage->ints[0] >= ds->nstorage) return false; /* texts may name storages that never were */
  const tn__storage_entry *e = &ds->storage[storage->ints[0]];
  tn__birth key = {.serial = other->serial};
  return e->nfrom && bsearch(&key, e->from, e->nfrom, sizeof key, by_serial);
}

void tn__storage_reap(tn_ctx *c) {
  struct tn__devices *ds = c->devices;
  for (tn_node *n; (n = c->dead);) {
    c->dead = n->next;
    int64_t id = n->ints[0];
    /* texts may name storages that never were */
    if (id >= 0 && id < ds->nstorage && ds->storage[id].buffer) forget(c, id);
    tn__node_free(c, n);
  }
}
