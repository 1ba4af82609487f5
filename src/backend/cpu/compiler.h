/* The system's C compiler as a function from source text to a shared object.  Prefix tn__cc_. */
#ifndef TN_BACKEND_CPU_COMPILER_H
#define TN_BACKEND_CPU_COMPILER_H
#include "base/child.h"
#include "ir/ctx.h"

typedef struct tn__cc {
  char path[4096]; /* "" if there is none */
  char words[4096]; /* of what was asked for, those that stand behind it: its arguments, each ended by 0, */
  int nwords;       /* so many of them */
  const char *march; /* the processor to compile for, "": the compiler's choice */
  int limit_ms;    /* a compilation that takes longer is killed */
} tn__cc;

enum { TN__CC_WORDS = 32 };
/* Finds the compiler of opt->cc, a path or words as a shell reads them (else cc, gcc, clang); false if there is none.
 * Starts no process.  Throws TN_EINVAL for a quote that does not end. */
bool tn__cc_find(tn_ctx *c, tn__cc *cc);
/* What its arguments say that it is to compile for (-march=), NULL: nothing. */
const char *tn__cc_asked_march(const tn__cc *cc);
/* What the result of compiling depends on besides the source, in c->scratch. */
const char *tn__cc_identity(tn_ctx *c, const tn__cc *cc, const char *machine);
/* Begins to compile `source` into the file `out`.  Throws TN_ECOMPILE if the compiler does not start. */
void tn__cc_start(tn_ctx *c, const tn__cc *cc, const char *source, const char *out, tn__child *run);
/* Waits until it has ended, and closes it; throws TN_ECOMPILE with the compiler's words. */
void tn__cc_finish(tn_ctx *c, const tn__cc *cc, tn__child *run, const char *out);
#endif
