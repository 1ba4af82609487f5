/* Finding and running the C compiler: no file but the result. */
#include "backend/cpu/compiler.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMPILE_LIMIT_MS = 60000 };

/* Contraction off and no -ffast-math: results are those of the scalar evaluator.  Vectors are written out in kernels:
 * no compiler makes any of its own, so that neither results nor speed hang on what it guesses.  Signed vectors wrap. */
static const char *const flags[] = {"-x",
                                    "c",
                                    "-std=gnu17",
                                    "-O2",
                                    "-fno-tree-vectorize",
                                    "-fno-tree-slp-vectorize",
                                    "-fwrapv",
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-semantic-interposition",
                                    "-fno-stack-protector",
                                    "-fPIC",
                                    "-shared",
                                    "-nostartfiles",
                                    "-pipe",
                                    "-w",
                                    NULL};

/* The words of a command as a shell reads them, each ended by 0: blanks part them, quotes and backslashes keep what
 * would. */
static int cut_words(tn_ctx *c, const char *command, char *out, size_t room) {
  int n = 0;
  size_t at = 0;
  if (strlen(command) + 2 > room) tn__fail(c, TN_EINVAL, "TENET_CC is longer than %zu", room - 2);
  for (const char *s = command + strspn(command, " \t\n"); *s; s += strspn(s, " \t\n"), n++) {
    char quote = 0;
    for (; *s && (quote || !strchr(" \t\n", *s)); s++) {
      if (*s == quote) quote = 0;
      else if (!quote && (*s == '\'' || *s == '"')) quote = *s;
      else out[at++] = *s == '\\' && quote != '\'' && s[1] ? *++s : *s;
    }
    if (quote) tn__fail(c, TN_EINVAL, "TENET_CC is \"%s\": a quote does not end", command);
    out[at++] = 0;
  }
  return n;
}

/* A path first, so that one with blanks in it needs no quotes. */
static bool find_command(tn_ctx *c, tn__cc *cc, const char *command) {
  char words[sizeof cc->words];
  cc->nwords = 0;
  if (tn__child_find(command, cc->path, sizeof cc->path)) return true;
  int n = cut_words(c, command, words, sizeof words);
  if (n > TN__CC_WORDS) tn__fail(c, TN_EINVAL, "TENET_CC has more than %d arguments", TN__CC_WORDS);
  if (!n || !tn__child_find(words, cc->path, sizeof cc->path)) return false;
  cc->nwords = n - 1;
  memcpy(cc->words, words + strlen(words) + 1, sizeof words - strlen(words) - 1);
  return true;
}

bool tn__cc_find(tn_ctx *c, tn__cc *cc) {
  const char *const usual[] = {"cc", "gcc", "clang", NULL}, *const asked[] = {c->opt.cc, NULL};
  const char *const *name = c->opt.cc ? asked : usual;
  cc->limit_ms = COMPILE_LIMIT_MS;
  cc->march = "";
  for (; *name && **name; name++)
    if (find_command(c, cc, *name)) return true;
  cc->path[0] = '\0';
  return false;
}

const char *tn__cc_asked_march(const tn__cc *cc) {
  static const char option[] = "-march=";
  const char *word = cc->words, *last = NULL;
  for (int i = 0; i < cc->nwords; i++, word += strlen(word) + 1)
    if (!strncmp(word, option, sizeof option - 1)) last = word + sizeof option - 1;
  return last;
}

/* Another version of the compiler is another file: asking it would cost a process in every program that uses Tenet. */
const char *tn__cc_identity(tn_ctx *c, const tn__cc *cc, const char *machine) {
  char real[PATH_MAX];
  struct stat st = {0};
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  const char *path = realpath(cc->path, real) ? real : cc->path;
  if (stat(path, &st)) st.st_size = -1;
  tn__sb_printf(&b, "%s %lld %lld.%09ld\n%s\n%s\n", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                st.st_mtim.tv_nsec, machine, cc->march);
  const char *word = cc->words;
  for (int i = 0; i < cc->nwords; i++, word += strlen(word) + 1) tn__sb_printf(&b, "%s\n", word);
  for (int i = 0; flags[i]; i++) tn__sb_printf(&b, "%s ", flags[i]);
  return tn__sb_str(&b);
}

void tn__cc_start(tn_ctx *c, const tn__cc *cc, const char *source, const char *out, tn__child *run) {
  enum { NFLAGS = sizeof flags / sizeof *flags - 1 };
  const char *argv[NFLAGS + TN__CC_WORDS + 9], *word = cc->words;
  int n = 0, left = cc->nwords;
  argv[n++] = cc->path;
  for (; left && *word != '-'; left--, word += strlen(word) + 1) argv[n++] = word; /* what ccache is to start */
  for (int i = 0; i < NFLAGS; i++) argv[n++] = flags[i];
  if (*cc->march) argv[n++] = cc->march;
  for (; left; left--, word += strlen(word) + 1) argv[n++] = word; /* which have the last word */
  argv[n++] = "-o";
  argv[n++] = out;
  argv[n++] = "-";
  argv[n++] = "-lm";
  argv[n] = NULL;
  if (tn__child_start(run, argv, source, cc->limit_ms)) return;
  unlink(out);
  tn__fail(c, TN_ECOMPILE, "the C compiler %s does not start", cc->path);
}

void tn__cc_finish(tn_ctx *c, const tn__cc *cc, tn__child *run, const char *out) {
  char said[800];
  bool too_long = tn__child_wait(run) == TN__CHILD_TOO_LONG;
  tn__child_said(run, said, sizeof said);
  tn__child_close(run);
  if (!too_long && !run->status && !access(out, R_OK)) return;
  unlink(out);
  if (too_long) tn__fail(c, TN_ECOMPILE, "the C compiler %s ran for more than %g s", cc->path, cc->limit_ms / 1000.0);
  for (char *s = said; *s; s++)
    if (*s == '\n') *s = s[1] ? '|' : '\0'; /* an error is one line */
  tn__fail(c, TN_ECOMPILE, "the C compiler %s failed: %s", cc->path, *said ? said : "it gave no reason");
}
