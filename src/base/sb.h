/* String builder in an arena.  Prefix tn__sb_. */
#ifndef TN_BASE_SB_H
#define TN_BASE_SB_H
#include "base/mem.h"
#include <stdarg.h>

typedef struct tn__sb {
  tn__arena *arena;
  char *s; /* always NUL-terminated once anything was added; NULL before */
  size_t n, cap;
} tn__sb;

void tn__sb_init(tn__sb *b, tn__arena *a);
void tn__sb_putc(tn__sb *b, char c);
void tn__sb_puts(tn__sb *b, const char *s);
void tn__sb_putn(tn__sb *b, const char *s, size_t n);
void tn__sb_printf(tn__sb *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tn__sb_vprintf(tn__sb *b, const char *fmt, va_list ap);
const char *tn__sb_str(tn__sb *b); /* "" if empty */
#endif
