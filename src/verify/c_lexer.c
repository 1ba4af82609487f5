/* From text to words, and words that begin a type. */
#include "verify/c_reader.h"
#include <ctype.h>
#include <stdlib.h>

_Noreturn void tn__c_refuse(reader *r, const char *what) {
  uint32_t at = r->word.v[r->at < r->word.n ? r->at : r->word.n - 1].at;
  tn__sb_printf(r->why, "%s in: %s", what, tn__c_text_line(r->a, r->text, at));
  tn__mem_throw(&r->c->mem, TN_ECOMPILE);
}

const char *tn__c_text_line(tn__arena *a, const char *text, uint32_t at) {
  const char *from = text + at, *to = from;
  while (from > text && from[-1] != '\n') from--;
  while (*from == ' ') from++;
  while (*to && *to != '\n') to++;
  if (to <= from) return "";
  char *line = tn__arena_zalloc(a, (size_t)(to - from) + 1);
  return memcpy(line, from, (size_t)(to - from));
}

static uint32_t sign_length(const char *s) {
  static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "++", "--",
                                    "+=", "-=", "*=", "/=", "%=", "^=", "|=", "&=", "::", "->"};
  for (size_t i = 0; i < sizeof two / sizeof *two; i++)
    if (!strncmp(s, two[i], 2)) return 2;
  return 1;
}

/* Comments and lines of the preprocessor are of no meaning. */
static const char *skip_blank(const char *s) {
  for (;; s++) {
    while (isspace((unsigned char)*s)) s++;
    if (*s == '#') {
      while (*s && *s != '\n') s++;
    } else if (s[0] == '/' && s[1] == '*') {
      const char *end = strstr(s + 2, "*/");
      s = end ? end + 1 : s + strlen(s) - 1;
    } else {
      return s;
    }
    if (!*s) return s;
  }
}

void tn__c_split(reader *r, const char *from, const char *to) {
  for (const char *s = skip_blank(from); s < to; s = skip_blank(s)) {
    const char *start = s;
    uint8_t kind = W_SIGN;
    if (isalpha((unsigned char)*s) || *s == '_') {
      kind = W_NAME;
      while (isalnum((unsigned char)*s) || *s == '_') s++;
    } else if (isdigit((unsigned char)*s)) {
      kind = W_NUMBER;
      while (isalnum((unsigned char)*s) || *s == '.' || ((*s == '+' || *s == '-') && (s[-1] == 'p' || s[-1] == 'P')))
        s++;
    } else if (*s == '"') {
      for (s++; s < to && *s != '"';) s++;
      s++;
    } else {
      s += sign_length(s);
    }
    tn__vec_push(r->a, &r->word, ((word){(uint32_t)(start - r->text), (uint32_t)(s - start), kind}));
  }
  tn__vec_push(r->a, &r->word, ((word){(uint32_t)(to - r->text), 0, W_END}));
}

/* Behind the bracket that closes the one at hand. */
static void skip_brackets(reader *r) {
  int depth = 0;
  do {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "open brackets");
    depth += is_at(r, "(") + is_at(r, "{") - is_at(r, ")") - is_at(r, "}");
    r->at++;
  } while (depth);
}

/* ---- types ---- */

bool tn__c_take_qualifier(reader *r) {
  const word *w = &r->word.v[r->at];
  if (w->kind != W_NAME) return false;
  if (is_at(r, "__attribute__") || is_at(r, "__align__") || is_at(r, "__launch_bounds__") || is_at(r, "alignas")) {
    bool counts = is_at(r, "__launch_bounds__");
    r->at++;
    uint32_t open = r->at;
    skip_brackets(r);
    for (uint32_t i = open; i < r->at; i++) {
      const word *v = &r->word.v[i];
      counts |= is_named(r, i, "reqd_work_group_size");
      if (v->kind != W_NUMBER || !counts) continue;
      int64_t n = strtoll(r->text + v->at, NULL, 10);
      bool first = r->word.v[i - 1].n == 1 && r->text[r->word.v[i - 1].at] == '(';
      if (first) r->f->threads = n;
      else if (n != 1 && is_named(r, open + 2, "reqd_work_group_size")) tn__c_refuse(r, "a group of two dimensions");
    }
    return true;
  }
  if (!tn__c_word_is_qualifier(spelled(r), w->n)) return false;
  bool external = is_at(r, "extern");
  r->at++;
  if (external && spelled(r)[0] == '"') r->at++;
  return true;
}

bool tn__c_take_type(reader *r, tn__c_type *out) {
  uint32_t start = r->at;
  while (tn__c_take_qualifier(r)) continue;
  const word *w = &r->word.v[r->at];
  if (w->kind != W_NAME || !tn__c_word_is_type(spelled(r), w->n, out)) {
    r->at = start;
    return false;
  }
  for (r->at++;;) {
    if (take(r, "*")) out->stars++;
    else if (!tn__c_take_qualifier(r)) return true;
  }
}
