/* Runs what was read from a kernel's text (c_text.h), over exact values, and keeps what it did to memory.  Prefix
 * tn__c_machine_.
 *
 * The threads of a group run one after the other, in an order drawn by a seed, each up to where it has to wait for
 * others; so what they do between two barriers is seen in an order that no one can count on.  What one touches in
 * shared memory, or in a buffer that is written, and another one too, with no barrier between them and one of them
 * writing, is refused; so are threads that never meet, memory outside of its object, arithmetic that C leaves
 * undefined, and values of reduced precision where they would be seen. */
#ifndef TN_VERIFY_C_MACHINE_H
#define TN_VERIFY_C_MACHINE_H
#include "verify/c_text.h"

typedef struct tn__exact_cell { /* of memory: an element that was touched */
  tn__exact val;
  uint32_t object;
  int64_t at; /* bytes */
  uint8_t dtype;
  bool written;
  uint8_t combined;                           /* so by TN__C_ADD_AT, last: by which op, or 0 */
  uint32_t writer, wrote[2], reader, read[2]; /* threads, counted from 1, and barriers that they were behind */
} tn__exact_cell;

/* What a buffer holds, as kernels require it: anything; each of 0, 1, ... once; numbers in ascending order */
enum { TN__HOLDS_ANY, TN__HOLDS_PERMUTED, TN__HOLDS_SORTED };

typedef struct tn__exact_memory {
  tn__arena *arena;
  uint64_t seed;
  uint32_t nbuf;
  const uint8_t *dtype;  /* of buffers; */
  const int64_t *size;   /* elements */
  const uint8_t *holds;  /* TN__HOLDS_... */
  const int64_t *number; /* integers that inputs hold among others */
  uint32_t nnumber;
  tn__map place;
  tn__vec(tn__exact_cell) cell; /* in the order in which they were touched first */
  uint32_t last[16];            /* of objects, by their number's last bits: the cell that was touched last */
} tn__exact_memory;

void tn__exact_memory_open(tn__exact_memory *m, tn__arena *a, uint64_t seed, uint32_t nbuf, const uint8_t *dtype,
                           const int64_t *size, const uint8_t *holds);
void tn__exact_memory_clear(tn__exact_memory *m);
/* The element at byte `at`, as it was given or nobody wrote it, if it is new; buffers: NULL outside of them. */
tn__exact_cell *tn__exact_memory_at(tn__exact_memory *m, uint32_t object, int64_t at, int dtype);

/* Loops of more turns than `cut` may be cut short, to so many at either end */
enum { TN__C_SHORTENED = 3 };

typedef struct tn__c_machine {
  tn_ctx *c;
  tn__arena *a;
  const tn__c_function *f;
  tn__exact_memory *memory;
  const uint8_t *written;    /* by buffer: some part stores to it */
  const int64_t *variable;   /* of C functions: what `var` points to */
  uint32_t nvar;
  int64_t shared[2];         /* bytes of scratch and cells, where the launch says */
  int threads, warp;         /* of a group; threads that meet by themselves */
  bool global_barriers;      /* is a barrier one for global memory, too */
  int64_t cut;               /* loops of more turns are cut short; 0: none is */
  bool begins;               /* the language's kernels have to wait for what came before */
  uint64_t steps, seed;
  tn__sb *why;
  bool too_long;
  tn__exact result;          /* of RETURN */
  /* of the group that runs */
  struct tn__c_thread *thread;
  uint32_t epoch;
} tn__c_machine;

/* Runs a group: arguments by the function's parameters; group and groups: its number, and how many there are.  false:
 * see why, or too_long. */
bool tn__c_machine_run(tn__c_machine *m, const tn__exact *argument, uint64_t group, uint64_t groups);
#endif
