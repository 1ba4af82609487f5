/* Copies between host and device, through pinned memory: the GPU copies at full speed only from and to pages that stay
 * where they are, and an upload's source may be used again as soon as the call returns.
 *
 * Small uploads share a piece of the ring: each costs a copy and a call of the driver, no event.  A piece that is full
 * gets an event, which is waited for when its turn comes again.  Both directions use the same pieces: they are in order
 * on one stream. */
#include "backend/cuda/state.h"
#include <string.h>

enum { PIECE = 1 << 20, ALIGN = 64 };

static tn_status open_ring(tn__device *d) {
  tn__cuda *self = d->self;
  void *mem = NULL;
  int result = 0;
  for (int i = 0; i < TN__CUDA_PIECES && !result; i++)
    if (!self->ring.passed[i]) result = self->api->event_create(&self->ring.passed[i], CU_NO_TIMING);
  if (!result) result = self->api->host_alloc(&mem, (size_t)TN__CUDA_PIECES * PIECE, 0);
  self->ring.mem = mem;
  return tn__cuda_check(d, result, "allocating pinned memory");
}

void tn__cuda_ring_close(tn__cuda *self) {
  for (int i = 0; i < TN__CUDA_PIECES; i++)
    if (self->ring.passed[i]) self->api->event_destroy(self->ring.passed[i]);
  if (self->ring.mem) self->api->host_free(self->ring.mem);
  self->ring = (tn__cuda_ring){0};
}

/* Everything that may fail throws: transfers have no status. */
static void must(tn__device *d, tn_status status) {
  if (status) tn__mem_throw(&d->ctx->mem, status);
}

static void begin(tn__device *d) {
  const tn__cuda *self = d->self;
  must(d, tn__cuda_enter(d));
  if (!self->ring.mem) must(d, open_ring(d));
}

/* Leaves the current piece for the next one. */
static void turn(tn__device *d) {
  tn__cuda *self = d->self;
  tn__cuda_ring *r = &self->ring;
  must(d, tn__cuda_check(d, self->api->event_record(r->passed[r->piece], self->stream), "marking a copy"));
  r->waiting[r->piece] = true;
  r->piece = (r->piece + 1) % TN__CUDA_PIECES;
  r->used = 0;
}

/* Waits until piece i is free. */
static void await(tn__device *d, int i) {
  tn__cuda *self = d->self;
  if (self->ring.waiting[i])
    must(d, tn__cuda_check(d, self->api->event_wait(self->ring.passed[i]), "waiting for a copy"));
  self->ring.waiting[i] = false;
}

void tn__cuda_upload(tn__device *d, void *dst, const void *src, size_t size) {
  tn__cuda *self = d->self;
  tn__cuda_ring *r = &self->ring;
  if (!size) return;
  begin(d);
  for (size_t done = 0; done < size;) {
    if (r->used == PIECE) turn(d);
    await(d, r->piece);
    size_t n = size - done < PIECE - r->used ? size - done : PIECE - r->used;
    char *at = r->mem + (size_t)r->piece * PIECE + r->used;
    memcpy(at, (const char *)src + done, n);
    must(d, tn__cuda_check(d, self->api->to_device((tn__cu_address)(uintptr_t)dst + done, at, n, self->stream),
                           "copying to the device"));
    r->used = (r->used + n + ALIGN - 1) / ALIGN * ALIGN;
    done += n;
  }
}

/* Asks for `n` bytes into the next piece. */
static void ask(tn__device *d, tn__cu_address src, size_t n) {
  tn__cuda *self = d->self;
  tn__cuda_ring *r = &self->ring;
  char *at = r->mem + (size_t)r->piece * PIECE;
  must(d, tn__cuda_check(d, self->api->to_host(at, src, n, self->stream), "copying from the device"));
  turn(d);
}

void tn__cuda_download(tn__device *d, void *dst, const void *src, size_t size) {
  tn__cuda *self = d->self;
  tn__cuda_ring *r = &self->ring;
  tn__cu_address from = (tn__cu_address)(uintptr_t)src;
  if (!size) return;
  begin(d);
  size_t asked = 0;
  for (size_t done = 0; done < size;) {
    /* One piece is being emptied while the others are under way.  Uploads still waiting in a piece need no care: the
     * stream is in order. */
    for (; asked < size && asked < done + (size_t)TN__CUDA_PIECES * PIECE; asked += PIECE)
      ask(d, from + asked, size - asked < PIECE ? size - asked : PIECE);
    int oldest = (r->piece + TN__CUDA_PIECES - (int)((asked - done) / PIECE)) % TN__CUDA_PIECES;
    size_t n = size - done < PIECE ? size - done : PIECE;
    await(d, oldest);
    memcpy((char *)dst + done, r->mem + (size_t)oldest * PIECE, n);
    done += PIECE;
  }
}

/* What comes on `later` waits for what is on `first` now. */
static tn_status queue_behind(tn__device *later, tn__device *first) {
  const tn__cuda *l = later->self, *f = first->self;
  tn__cu_event passed = NULL;
  tn_status status = tn__cuda_enter(first);
  if (!status) status = tn__cuda_check(first, f->api->event_create(&passed, CU_NO_TIMING), "marking a copy");
  if (!status) status = tn__cuda_check(first, f->api->event_record(passed, f->stream), "marking a copy");
  if (!status) status = tn__cuda_enter(later);
  if (!status) status = tn__cuda_check(later, l->api->stream_after(l->stream, passed, 0), "waiting for a copy");
  if (passed) f->api->event_destroy(passed); /* lives on until it has passed */
  return status;
}

bool tn__cuda_fetch(tn__device *d, void *dst, tn__device *from, const void *src, size_t size) {
  const tn__cuda *self = d->self, *other = from->self;
  if (!size) return true;
  must(d, tn__cuda_use(d));
  must(d, queue_behind(d, from));
  if (self->api->to_peer((tn__cu_address)(uintptr_t)dst, self->context, (tn__cu_address)(uintptr_t)src, other->context,
                         size, self->stream))
    return false;
  must(d, queue_behind(from, d)); /* which may be about to free or to change it */
  return true;
}
