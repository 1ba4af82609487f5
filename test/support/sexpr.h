/* Reading back what is printed for provers: terms in parentheses. */
#ifndef TN_TEST_SUPPORT_SEXPR_H
#define TN_TEST_SUPPORT_SEXPR_H
#include "ir/ctx.h"
#include <ctype.h>
#include <string.h>

enum { MAX_EXPR = 24 };
typedef struct expr {
  const char *s; /* of an atom */
  size_t n;
  struct expr *kid[MAX_EXPR];
  int nkid;
} expr;

static inline expr *read_expr(tn_ctx *c, const char **s) {
  expr *e = tn__arena_zalloc(&c->scratch, sizeof *e);
  while (isspace((unsigned char)**s)) ++*s;
  if (**s != '(') {
    e->s = *s;
    e->n = strcspn(*s, " ()\n");
    *s += e->n;
    return e;
  }
  for (++*s; **s && **s != ')';) {
    if (e->nkid == MAX_EXPR) fail_msg("too long");
    e->kid[e->nkid++] = read_expr(c, s);
    while (isspace((unsigned char)**s)) ++*s;
  }
  ++*s;
  return e;
}

static inline bool atom_is(const expr *e, const char *s) { return e->s && e->n == strlen(s) && !memcmp(e->s, s, e->n); }
static inline bool head_is(const expr *e, const char *s) { return !e->s && e->nkid && atom_is(e->kid[0], s); }
#endif
