/* Accounted heap and the jump that unwinds it.  See mem.h for the rule that makes the jump safe. */
#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of every block: its size, padded so that the block keeps malloc's alignment of 16. */
typedef struct header {
  size_t size;
  size_t pad;
} header;
_Static_assert(sizeof(header) == 16, "blocks must stay aligned to 16");

struct tn__catch {
  jmp_buf env;
  volatile tn_status status; /* written between _setjmp and _longjmp */
  struct tn__catch *outer;
};

/* May the heap grow from `held` bytes of the same block to `wanted`?  Counts the attempt. */
static bool admit(tn__mem *m, size_t wanted, size_t held) {
  m->count++;
  if (m->fail_at > 0 && m->count >= m->fail_at) return false;
  if (wanted > (size_t)PTRDIFF_MAX - sizeof(header)) return false;
  size_t rest = m->live - held;
  return m->limit == 0 || (rest <= m->limit && wanted + sizeof(header) <= m->limit - rest);
}

static void account(tn__mem *m, size_t gone, size_t come) {
  m->live = m->live - gone + come;
  if (m->live > m->peak) m->peak = m->live;
}

void *tn__mem_try_alloc(tn__mem *m, size_t size) {
  if (!admit(m, size, 0)) return NULL;
  header *h = malloc(sizeof *h + size);
  if (!h) return NULL;
  h->size = size;
  account(m, 0, sizeof *h + size);
  return h + 1;
}

void *tn__mem_alloc(tn__mem *m, size_t size) {
  void *p = tn__mem_try_alloc(m, size);
  if (!p) tn__mem_throw(m, TN_ENOMEM);
  return p;
}

void *tn__mem_zalloc(tn__mem *m, size_t size) {
  return memset(tn__mem_alloc(m, size), 0, size);
}

void *tn__mem_realloc(tn__mem *m, void *p, size_t size) {
  if (!p) return tn__mem_alloc(m, size);
  header *old = (header *)p - 1;
  size_t held = sizeof *old + old->size;
  header *h = admit(m, size, held) ? realloc(old, sizeof *h + size) : NULL;
  if (!h) tn__mem_throw(m, TN_ENOMEM);
  h->size = size;
  account(m, held, sizeof *h + size);
  return h + 1;
}

void tn__mem_free(tn__mem *m, void *p) {
  if (!p) return;
  header *h = (header *)p - 1;
  account(m, sizeof *h + h->size, 0);
  free(h);
}

bool tn__mem_try(tn__mem *m, void (*fn)(void *), void *arg, tn_status *status) {
  struct tn__catch c;
  c.status = TN_OK;
  c.outer = m->top;
  m->top = &c;
  /* _setjmp, since saving the signal mask would cost two system calls per public function. */
  if (_setjmp(c.env) == 0) fn(arg);
  m->top = c.outer;
  *status = c.status;
  return c.status == TN_OK;
}

void tn__mem_throw(tn__mem *m, tn_status status) {
  if (!m->top) {
    fprintf(stderr, "tenet: internal error: status %d thrown outside tn__mem_try\n", (int)status);
    abort();
  }
  m->top->status = status;
  _longjmp(m->top->env, 1);
}
