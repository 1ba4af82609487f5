/* Does a kernel's text say what its linear program says?  Prefix tn__readback.
 *
 * The text is read as its compiler would (c_text.h) and run over exact values (exact.h), a few slices or groups of each
 * part at a time, the first ones and the last ones among them; the linear program runs the same turns.  What the two
 * leave in the buffers must be the same values, come about by the same steps.  Loops of many turns are
 * cut short in both where a kernel would take too long.
 *
 * Launch facts are compared, too: the extent that the text or the host computes, the threads that the text declares,
 * the parameters' number.
 *
 * Trusted by name are the helper functions; they are tested by values.  Exempt is what tn__readback_exempt lists. */
#ifndef TN_VERIFY_READBACK_H
#define TN_VERIFY_READBACK_H
#include "base/sb.h"
#include "lower/kernel.h"

typedef enum tn__readback_language { TN__READ_C, TN__READ_CUDA, TN__READ_OPENCL } tn__readback_language;

typedef struct tn__readback_subject {
  const tn__kernel *kernel;
  const char *text;          /* of the unit, or from the kernel's functions on */
  tn__readback_language language;
  const int64_t *size;       /* elements of its buffers, by slot */
  const int64_t *value;      /* of its variables */
  bool thorough;             /* every turn, with more data, however long that takes */
} tn__readback_subject;

typedef enum tn__readback_result {
  TN__READ_EQUAL,
  TN__READ_DIFFERS,
  TN__READ_EXEMPT,  /* calls a helper text that is not read, see why */
  TN__READ_TOO_LONG, /* even with its loops cut short */
  TN__READ_RESULTS
} tn__readback_result;

extern const char *const tn__readback_exempt[]; /* the texts' names, NULL at the end */

/* Works in the context's scratch.  What is wrong goes to why. */
tn__readback_result tn__readback(tn_ctx *c, const tn__readback_subject *s, tn__sb *why);
#endif
