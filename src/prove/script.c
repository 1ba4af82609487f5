/* Proof text of a row: one tactic script, which can neither end the proof that it stands in nor say anything outside
 * it.
 *
 * Coq's commands begin with a capital letter or with #, its tactics do not: so every sentence begins with a small
 * letter, after bullets and braces, which are sentences themselves.  Strings and comments, in which a full stop ends
 * nothing, and characters beyond ASCII have no place.  What a sentence means is left to Coq; that the theorem still
 * states what the row says is seen by stating it again in another file (tn__prove_stated_text). */
#include "prove/prove.h"
#include <ctype.h>
#include <string.h>

static bool word_char(char ch) { return isalnum((unsigned char)ch) || ch == '_' || ch == '\''; }

/* Tactics that leave a goal open, and what would be a command of Coq wherever it stood. */
static bool forbidden(const char *s, size_t n) {
  static const char *const words[] = {"admit",  "give_up", "Admitted", "Admit",   "Abort", "Qed",  "Defined",
                                      "Save",   "Proof",   "Theorem",  "Lemma",   "Axiom", "Goal", "Parameter",
                                      "Declare", "Unset",  "Require",  "Notation"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == n && !memcmp(words[i], s, n)) return true;
  return false;
}

static const char *characters(const char *text) {
  for (const char *s = text; *s; s++) {
    if (*s == '"') return "a string has no place in a proof";
    if (!isprint((unsigned char)*s) && *s != '\n' && *s != '\t') return "a proof is of ASCII characters";
    if ((s[0] == '(' && s[1] == '*') || (s[0] == '*' && s[1] == ')')) return "a comment has no place in a proof";
    if (s[0] == '.' && s[1] == '.') return "a sentence ends with one full stop";
  }
  return NULL;
}

static const char *words(const char *text) {
  for (const char *s = text; *s;) {
    size_t n = 0;
    while (word_char(s[n])) n++;
    if (forbidden(s, n)) return "this word closes, opens or leaves open a statement";
    s += n ? n : 1;
  }
  return NULL;
}

/* One sentence from its first letter on; NULL in *end: it does not end. */
static const char *sentence(const char *s, const char **end) {
  int depth = 0;
  *end = NULL;
  if (!islower((unsigned char)*s) && *s != '(') return "a sentence of a proof begins with a tactic";
  for (; *s; s++) {
    if (*s == '(' || *s == '[') depth++;
    if ((*s == ')' || *s == ']') && --depth < 0) return "a bracket closes nothing";
    if (depth == 0 && (*s == '{' || *s == '}')) return "a brace begins a sentence";
    if (depth == 0 && *s == ':' && s[1] != '=') return "a goal is chosen by bullets and braces";
    if (*s != '.' || (s[1] && !isspace((unsigned char)s[1]))) continue;
    if (depth) return "a sentence ends inside brackets";
    *end = s + 1;
    return NULL;
  }
  return "the last sentence does not end";
}

const char *tn__prove_script_fault(const char *text) {
  const char *fault = characters(text), *s = text, *end;
  bool any = false;
  if (!fault) fault = words(text);
  while (!fault) {
    s += strspn(s, " \t\n-+*{}");
    if (!*s) return any ? NULL : "a proof has a sentence";
    fault = sentence(s, &end);
    any = true;
    if (!fault) s = end;
  }
  return fault;
}
