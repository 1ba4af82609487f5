/* Sentinels around the buffers of kernels: a device that computes in host memory runs each kernel on copies of its
 * buffers, of their exact size and between guards.  These are NaN in every float dtype, so that reading them is seen in
 * results, and must be whole after the kernel has run; so must buffers that it only reads. */
#ifndef TEST_SUPPORT_SENTINEL_H
#define TEST_SUPPORT_SENTINEL_H
#include "device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTINEL_ROOM = 4096, SENTINEL_LINE = 64, SENTINEL_BYTE = 0xff, SENTINEL_BUFS = 256 };

typedef struct sentinel_kernel {
  char name[64];
  uint32_t nbuf;
  bool written[SENTINEL_BUFS];
} sentinel_kernel;

typedef struct sentinel_code { /* what the device compiled */
  struct sentinel_code *next;
  tn__code *code;
  sentinel_kernel *kernel;
} sentinel_code;

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  sentinel_code *codes;
  uint64_t runs;
  bool recording; /* what is written down now runs later, on the buffers themselves */
} sentinel;

typedef struct sentinel_buffer {
  char *block, *mem, *own; /* the allocation, its content, the device's */
  size_t bytes;
  bool written;
} sentinel_buffer;

static inline tn__code *sentinel_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  sentinel_code *s = malloc(sizeof *s);
  *s = (sentinel_code){sentinel.codes, sentinel.real->compile(d, kernels, n), calloc(n, sizeof(sentinel_kernel))};
  for (uint32_t i = 0; i < n; i++) {
    sentinel_kernel *k = &s->kernel[i];
    snprintf(k->name, sizeof k->name, "%s", kernels[i]->name);
    k->nbuf = kernels[i]->nbuf;
    for (uint32_t b = 0; b < k->nbuf; b++) k->written[b] = kernels[i]->buf_written[b];
  }
  sentinel.codes = s;
  return s->code;
}

static inline void sentinel_release(tn__device *d, tn__code *code) {
  for (sentinel_code **at = &sentinel.codes; *at; at = &(*at)->next) {
    sentinel_code *s = *at;
    if (s->code != code) continue;
    *at = s->next;
    free(s->kernel);
    free(s);
    break;
  }
  sentinel.real->release(d, code);
}

static inline void sentinel_fill(sentinel_buffer *b) {
  size_t room = (b->bytes + SENTINEL_LINE - 1) / SENTINEL_LINE * SENTINEL_LINE + 2 * (size_t)SENTINEL_ROOM;
  b->block = aligned_alloc(SENTINEL_LINE, room);
  memset(b->block, SENTINEL_BYTE, room);
  b->mem = b->block + SENTINEL_ROOM;
  if (b->bytes) memcpy(b->mem, b->own, b->bytes);
}

static inline bool sentinel_sound(const sentinel_buffer *b) {
  for (int i = 0; i < SENTINEL_ROOM; i++)
    if (b->block[i] != (char)SENTINEL_BYTE || b->mem[b->bytes + (size_t)i] != (char)SENTINEL_BYTE) return false;
  return b->written || !b->bytes || !memcmp(b->mem, b->own, b->bytes);
}

static inline tn_status sentinel_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf,
                                        const size_t *bytes, const int64_t *var) {
  if (sentinel.recording) return sentinel.real->launch(d, code, i, buf, bytes, var);
  sentinel_buffer b[SENTINEL_BUFS];
  uint32_t n = 0, at[SENTINEL_BUFS];
  void *mem[SENTINEL_BUFS] = {0};
  const sentinel_code *s = sentinel.codes;
  while (s->code != code) s = s->next;
  const sentinel_kernel *k = &s->kernel[i];
  for (uint32_t slot = 0; slot < k->nbuf; slot++) { /* one that stands in several slots is one */
    for (at[slot] = 0; at[slot] < n && b[at[slot]].own != buf[slot];) at[slot]++;
    if (at[slot] == n) b[n++] = (sentinel_buffer){.own = buf[slot]};
    sentinel_buffer *x = &b[at[slot]];
    if (bytes[slot] > x->bytes) x->bytes = bytes[slot];
    x->written |= k->written[slot];
  }
  for (uint32_t j = 0; j < n; j++) sentinel_fill(&b[j]);
  for (uint32_t slot = 0; slot < k->nbuf; slot++) mem[slot] = b[at[slot]].mem;
  tn_status status = sentinel.real->launch(d, code, i, mem, bytes, var);
  for (uint32_t j = 0; j < n; j++) {
    if (status == TN_OK && !sentinel_sound(&b[j])) {
      tn__error(d->ctx, TN_ERUN, "kernel %s wrote where it must not: around or in buffer %u of %zu bytes", k->name, j,
                b[j].bytes);
      status = TN_ERUN;
    }
    if (b[j].bytes) memcpy(b[j].own, b[j].mem, b[j].bytes);
    free(b[j].block);
  }
  sentinel.runs++;
  return status;
}

static inline tn_status sentinel_record(tn__device *d) {
  tn_status status = sentinel.real->record(d);
  sentinel.recording = status == TN_OK;
  return status;
}

static inline tn__recording *sentinel_recorded(tn__device *d) {
  sentinel.recording = false;
  return sentinel.real->recorded(d);
}

/* From now on, on one device at a time; close the context before the next.  Devices with memory of their own are left
 * as they are. */
static inline void sentinel_put(tn__device *d) {
  if (d->ops->alloc != tn__host_alloc) return;
  sentinel.real = d->ops;
  sentinel.ops = *d->ops;
  sentinel.ops.compile = sentinel_compile;
  sentinel.ops.release = sentinel_release;
  sentinel.ops.launch = sentinel_launch;
  if (d->ops->record) sentinel.ops.record = sentinel_record, sentinel.ops.recorded = sentinel_recorded;
  d->ops = &sentinel.ops;
}
#endif
