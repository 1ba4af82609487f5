/* String builder.  Capacity doubles; what it outgrows stays in the arena. */
#include "base/sb.h"
#include <stdio.h>
#include <string.h>

void tn__sb_init(tn__sb *b, tn__arena *a) {
  *b = (tn__sb){.arena = a};
}

/* Room for `more` characters and the NUL behind them. */
static void reserve(tn__sb *b, size_t more) {
  if (more >= (size_t)PTRDIFF_MAX / 2 - b->n) tn__mem_throw(b->arena->mem, TN_ENOMEM);
  size_t need = b->n + more + 1;
  if (need <= b->cap) return;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < need) cap *= 2;
  char *s = tn__arena_alloc(b->arena, cap);
  if (b->n) memcpy(s, b->s, b->n);
  s[b->n] = 0;
  b->s = s;
  b->cap = cap;
}

void tn__sb_putc(tn__sb *b, char c) {
  reserve(b, 1);
  b->s[b->n++] = c;
  b->s[b->n] = 0;
}

void tn__sb_putn(tn__sb *b, const char *s, size_t n) {
  reserve(b, n);
  if (n) memcpy(b->s + b->n, s, n);
  b->n += n;
  b->s[b->n] = 0;
}

void tn__sb_puts(tn__sb *b, const char *s) {
  tn__sb_putn(b, s, strlen(s));
}

void tn__sb_vprintf(tn__sb *b, const char *fmt, va_list ap) {
  reserve(b, 40); /* most texts fit at the first try */
  for (;;) {
    va_list copy;
    va_copy(copy, ap);
    int n = vsnprintf(b->s + b->n, b->cap - b->n, fmt, copy);
    va_end(copy);
    if (n < 0) { /* only an argument the C library cannot encode; Tenet passes none */
      b->s[b->n] = 0;
      return;
    }
    if ((size_t)n < b->cap - b->n) {
      b->n += (size_t)n;
      return;
    }
    reserve(b, (size_t)n);
  }
}

void tn__sb_printf(tn__sb *b, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tn__sb_vprintf(b, fmt, ap);
  va_end(ap);
}

const char *tn__sb_str(tn__sb *b) {
  return b->s ? b->s : "";
}
