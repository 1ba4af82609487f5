/* Buffers and the pool of freed blocks.
 *
 * Sizes are rounded up to classes: powers of two with three steps between, from 64 bytes on, so a block wastes at most
 * a fifth of itself.  A freed block keeps its tn__buffer, so reuse allocates nothing. */
#include "device/devices.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  MIN_LOG = 6,
  ALIGN = 64,
  LARGE = 4 << 20 /* bytes of a block that is worth large pages */
};

static tn__device_slot *slot_of(tn__device *d) { return (tn__device_slot *)(void *)d; }

/* The class of a size and, in *cap, its bytes.  size <= 2^62. */
static uint32_t size_class(size_t size, size_t *cap) {
  if (size <= (size_t)1 << MIN_LOG) {
    *cap = (size_t)1 << MIN_LOG;
    return 0;
  }
  uint32_t log = 63 - (uint32_t)__builtin_clzll(size - 1); /* 2^log < size <= 2^(log+1) */
  size_t step = (size_t)1 << (log - 2), quarters = (size - 1) / step + 1; /* 5..8 */
  *cap = quarters * step;
  return (log - MIN_LOG) * 4 + (uint32_t)quarters - 4;
}

void tn__device_flush(tn__device_slot *s) {
  tn__device *d = &s->device;
  for (uint32_t k = 0; k < TN__SIZE_CLASSES; k++)
    for (tn__buffer *b; (b = s->freed[k]);) {
      s->freed[k] = b->next;
      d->ctx->stats.pool_bytes -= b->cap;
      d->ops->free(d, b->mem, b->cap);
      tn__mem_free(&d->ctx->mem, b);
    }
}

/* A new block; NULL when out of memory. */
static tn__buffer *make_block(tn__device *d, size_t cap) {
  tn__buffer *b = tn__mem_try_alloc(&d->ctx->mem, sizeof *b);
  if (!b) return NULL;
  *b = (tn__buffer){.mem = d->ops->alloc(d, cap), .cap = cap, .device = d};
  if (b->mem) return b;
  tn__mem_free(&d->ctx->mem, b);
  return NULL;
}

_Noreturn static void refuse(tn__device *d, size_t size, size_t pooled) {
  tn_ctx *c = d->ctx;
  char room[40] = "";
  if (d->ops->room) snprintf(room, sizeof room, "%zu bytes free, ", d->ops->room(d));
  tn__fail(c, TN_ENOMEM, "no memory on %s for a buffer of %zu bytes: %s%zu bytes in use, %zu were pooled", d->name,
           size, room, c->stats.buffer_bytes, pooled);
}

tn__buffer *tn__buffer_new(tn__device *d, size_t size) {
  tn_ctx *c = d->ctx;
  tn__device_slot *s = slot_of(d);
  if (size > (size_t)1 << 62) tn__fail(c, TN_ENOMEM, "a buffer of %zu bytes on %s cannot be", size, d->name);
  if (d->largest && size > d->largest)
    tn__fail(c, TN_ENOMEM, "a buffer of %zu bytes on %s, which has none of more than %zu", size, d->name, d->largest);
  size_t cap;
  uint32_t k = size_class(size, &cap);
  if (d->largest && cap > d->largest) cap = d->largest;
  tn__buffer *b = s->freed[k];
  if (b) {
    s->freed[k] = b->next;
    c->stats.pool_bytes -= cap;
  } else {
    b = make_block(d, cap);
    size_t pooled = c->stats.pool_bytes;
    if (!b && pooled) {
      for (int i = 0; i < c->devices->n; i++) tn__device_flush(c->devices->slot[i]); /* all: devices may share memory */
      b = make_block(d, cap);
    }
    if (!b) refuse(d, size, pooled);
  }
  b->size = size;
  b->refs = 1;
  b->next = NULL;
  c->stats.buffer_bytes += cap;
  return b;
}

tn__buffer *tn__buffer_keep(tn__buffer *b) {
  b->refs++;
  return b;
}

bool tn__buffer_is_own(const tn__buffer *b) { return b->refs == 1 && !b->of; }

void tn__buffer_share(tn__buffer **b, tn__buffer *of, size_t at, size_t size) {
  tn__buffer *block = tn__buffer_keep(of->of ? of->of : of), *part = *b, made = {.mem = (char *)of->mem + at};
  made.size = size, made.refs = 1, made.device = block->device, made.of = block;
  if (part && part->of && part->refs == 1) {
    tn__buffer_drop(part->of);
    *part = made;
    return;
  }
  tn__mem *mem = &block->device->ctx->mem;
  part = tn__mem_try_alloc(mem, sizeof *part);
  if (!part) {
    tn__buffer_drop(block);
    tn__mem_throw(mem, TN_ENOMEM);
  }
  *part = made;
  if (*b) tn__buffer_drop(*b);
  *b = part;
}

static void give_back(tn__buffer *b) {
  tn__device *d = b->device;
  size_t cap;
  if (b->of) {
    tn__mem_free(&d->ctx->mem, b);
    return;
  }
  uint32_t k = size_class(b->cap, &cap);
  b->next = slot_of(d)->freed[k];
  slot_of(d)->freed[k] = b;
  d->ctx->stats.buffer_bytes -= b->cap;
  d->ctx->stats.pool_bytes += b->cap;
}

void tn__buffer_drop(tn__buffer *b) {
  while (b && !--b->refs) { /* a part, then its block */
    tn__buffer *of = b->of;
    give_back(b);
    b = of;
  }
}

bool tn__within_limit(const tn_ctx *c, size_t size) {
  size_t held = c->mem.live + c->stats.buffer_bytes + c->stats.pool_bytes;
  return !c->mem.limit || (held <= c->mem.limit && size <= c->mem.limit - held);
}

/* Asks for large pages: fewer to be made when a block is first written, and to be looked up where loads go anywhere.
 * It is advice: where there are none, all goes on as it is. */
static void ask_for_large_pages(char *block, size_t size) {
#ifdef MADV_HUGEPAGE
  size_t page = (size_t)sysconf(_SC_PAGESIZE), skipped = page - (uintptr_t)block % page;
  if (size >= LARGE) (void)madvise(block + skipped, (size - skipped) / page * page, MADV_HUGEPAGE);
#else
  (void)block, (void)size;
#endif
}

void *tn__host_alloc(tn__device *d, size_t size) {
  if (size > SIZE_MAX - ALIGN) return NULL;
  char *block = tn__mem_try_alloc(&d->ctx->mem, size + ALIGN);
  if (!block) return NULL;
  ask_for_large_pages(block, size + ALIGN);
  /* Blocks are aligned to 16, so going up to the next multiple of 64 leaves at least 16 bytes: room for the way
   * back. */
  char *p = block + ALIGN - (uintptr_t)block % ALIGN;
  ((char **)(void *)p)[-1] = block;
  return p;
}

void tn__host_free(tn__device *d, void *p, size_t size) {
  (void)size;
  if (p) tn__mem_free(&d->ctx->mem, ((void **)p)[-1]);
}

void tn__host_copy(tn__device *d, void *dst, const void *src, size_t size) {
  (void)d;
  if (size) memcpy(dst, src, size);
}
