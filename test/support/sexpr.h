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

/* The statement of "Theorem name : statement.\nProof. ...", its words and terms in order, NULL at the end; NULL: there
 * is none. */
static inline const expr **read_statement(tn_ctx *c, const char *theorem) {
  const char *at = strstr(theorem, " : "), *end = strstr(theorem, ".\nProof. ");
  if (!at || !end || end < at) return NULL;
  size_t n = (size_t)(end - at) - 3, words = 0;
  char *text = tn__arena_alloc(&c->scratch, n + 1);
  memcpy(text, at + 3, n);
  text[n] = 0;
  const expr **list = tn__arena_zalloc(&c->scratch, (n + 2) * sizeof *list); /* a word takes a character */
  for (const char *s = text; *s; s += strspn(s, " ")) {
    if (*s == ')') return NULL;
    list[words++] = read_expr(c, &s);
  }
  return list;
}

/* The theorem with the first `from` of its statement replaced; NULL: it says no such thing. */
static inline const char *altered_statement(tn_ctx *c, const char *text, const char *from, const char *to) {
  const char *statement = strstr(text, " : "), *at = statement ? strstr(statement, from) : NULL;
  tn__sb b;
  if (!at || at > strstr(text, "\nProof.")) return NULL;
  tn__sb_init(&b, &c->scratch);
  tn__sb_printf(&b, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  return tn__sb_str(&b);
}

static inline bool atom_is(const expr *e, const char *s) { return e->s && e->n == strlen(s) && !memcmp(e->s, s, e->n); }
static inline bool head_is(const expr *e, const char *s) { return !e->s && e->nkid && atom_is(e->kid[0], s); }
#endif
