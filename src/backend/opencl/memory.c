/* Blocks of device memory, the addresses they are known by, and copies. */
#include "backend/opencl/state.h"
#include <string.h>

enum { ALIGN = 64, FIRST_BASE = 1 << 20 };

/* Room for one more block; false when out of memory. */
static bool grow_table(tn__device *d) {
  tn__opencl *self = d->self;
  if (self->nblocks < self->cap) return true;
  uint32_t cap = self->cap ? 2 * self->cap : 64;
  tn__opencl_block *table = tn__mem_try_alloc(&d->ctx->mem, cap * sizeof *table);
  if (!table) return false;
  if (self->nblocks) memcpy(table, self->block, self->nblocks * sizeof *table);
  tn__mem_free(&d->ctx->mem, self->block);
  self->block = table;
  self->cap = cap;
  return true;
}

/* The last block whose base is not above p; blocks that follow it lie beyond.  nblocks: there is none. */
static uint32_t find_block(const tn__opencl *self, uint64_t p) {
  uint32_t lo = 0, hi = self->nblocks;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (self->block[mid].base <= p) lo = mid + 1;
    else hi = mid;
  }
  return lo ? lo - 1 : self->nblocks;
}

tn_status tn__opencl_find(tn__device *d, const void *p, tn__cl_mem *mem, uint64_t *at) {
  const tn__opencl *self = d->self;
  uint64_t address = (uintptr_t)p;
  uint32_t i = find_block(self, address);
  /* The end of a block counts, too: buffers without elements may lie there. */
  if (i == self->nblocks || address - self->block[i].base > self->block[i].size) {
    tn__error(d->ctx, TN_ERUN, "%s: %p is not in its memory", d->name, p);
    return TN_ERUN;
  }
  *mem = self->block[i].mem;
  *at = address - self->block[i].base;
  return TN_OK;
}

void *tn__opencl_alloc(tn__device *d, size_t size) {
  tn__opencl *self = d->self;
  int32_t failed = 0;
  if (tn__opencl_use(d) || !tn__within_limit(d->ctx, size) || !grow_table(d)) return NULL;
  tn__cl_mem mem = self->api->buffer_create(self->context, CL_READ_WRITE, size ? size : 1, NULL, &failed);
  if (failed || !mem) return NULL;
  if (!self->next) self->next = FIRST_BASE;
  self->block[self->nblocks++] = (tn__opencl_block){.base = self->next, .size = size, .mem = mem};
  uint64_t base = self->next;
  self->next = (base + size) / ALIGN * ALIGN + 2 * ALIGN; /* a gap: the end of one block is not the start of another */
  return (void *)(uintptr_t)base;
}

/* The driver keeps the memory until all commands that were given it are done. */
void tn__opencl_free(tn__device *d, void *p, size_t size) {
  tn__opencl *self = d->self;
  uint32_t i = find_block(self, (uintptr_t)p);
  (void)size;
  if (i == self->nblocks) return;
  self->api->buffer_release(self->block[i].mem);
  self->nblocks--;
  memmove(self->block + i, self->block + i + 1, (self->nblocks - i) * sizeof *self->block);
}

/* Transfers have no status. */
static void must(tn__device *d, tn_status status) {
  if (status) tn__mem_throw(&d->ctx->mem, status);
}

/* Waits until the piece is free. */
static int32_t await(const tn__cl *api, tn__cl_event *written) {
  if (!*written) return 0;
  int32_t failed = api->events_wait(1, written);
  api->event_release(*written);
  *written = NULL;
  return failed;
}

void tn__opencl_ring_close(tn__device *d) {
  tn__opencl *self = d->self;
  for (int i = 0; i < TN__OPENCL_PIECES; i++) await(self->api, &self->ring.written[i]);
  tn__mem_free(&d->ctx->mem, self->ring.mem);
}

void tn__opencl_upload(tn__device *d, void *dst, const void *src, size_t size) {
  static const char doing[] = "copying to the device";
  tn__opencl *self = d->self;
  tn__opencl_ring *r = &self->ring;
  tn__cl_mem mem = NULL;
  uint64_t at = 0;
  if (!size) return;
  must(d, tn__opencl_use(d));
  must(d, tn__opencl_find(d, dst, &mem, &at));
  if (!r->mem) r->mem = tn__mem_try_alloc(&d->ctx->mem, (size_t)TN__OPENCL_PIECES * TN__OPENCL_PIECE);
  if (!r->mem || size > TN__OPENCL_PIECE) {
    must(d, tn__opencl_check(d, self->api->write(self->queue, mem, true, at, size, src, 0, NULL, NULL), doing));
    return;
  }
  int i = r->next;
  r->next = (i + 1) % TN__OPENCL_PIECES;
  must(d, tn__opencl_check(d, await(self->api, &r->written[i]), doing));
  char *piece = r->mem + (size_t)i * TN__OPENCL_PIECE;
  memcpy(piece, src, size);
  must(d,
       tn__opencl_check(d, self->api->write(self->queue, mem, false, at, size, piece, 0, NULL, &r->written[i]), doing));
}

void tn__opencl_download(tn__device *d, void *dst, const void *src, size_t size) {
  const tn__opencl *self = d->self;
  tn__cl_mem mem = NULL;
  uint64_t at = 0;
  if (!size) return;
  must(d, tn__opencl_use(d));
  must(d, tn__opencl_find(d, src, &mem, &at));
  must(d, tn__opencl_check(d, self->api->read(self->queue, mem, true, at, size, dst, 0, NULL, NULL),
                           "copying from the device"));
}
