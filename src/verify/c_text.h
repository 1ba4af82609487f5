/* Kernels read back from their text: a reader of the C that the printers write, of its C, CUDA and OpenCL kinds.
 * Prefix tn__c_text_.
 *
 * What it knows of the languages is C's own: precedence, promotions and conversions, scopes; and, in a table of its own
 * (c_words.c), what the helper functions mean, by name.  It shares nothing with src/render: what the printer means by a
 * text does not matter here, but what a compiler would take it for.
 *
 * A function becomes instructions over registers; a register holds one value, an array or a union one register for each
 * element.  Pointers are places in objects (below). */
#ifndef TN_VERIFY_C_TEXT_H
#define TN_VERIFY_C_TEXT_H
#include "ir/ctx.h"
#include "verify/exact.h"

typedef enum tn__c_code {
  TN__C_MOVE,    /* dst = a */
  TN__C_ARITH,   /* dst = a op b, of dtype; op: TN__C_ADD ..; n: 1: integers wrap, comparisons give 0 and -1 */
  TN__C_CONVERT, /* dst = (dtype)a, of sdtype */
  TN__C_EVAL,    /* dst = op(a, b, c), as tn__eval; n: 1: right to 2^-16 only */
  TN__C_ROUND,   /* dst = a rounded to dtype; of its bits, op: 1: a needs no rounding; made of bits */
  TN__C_BITS,
  TN__C_OF_BITS,
  TN__C_JUMP, /* to n; unless a; if a */
  TN__C_UNLESS,
  TN__C_IF,
  TN__C_GET_CELL, /* dst = a[b], one of n registers from a on */
  TN__C_SET_CELL, /* a[b] = c */
  TN__C_LOAD,     /* dst = *a */
  TN__C_STORE,    /* *a = c */
  TN__C_PLACE,    /* dst = a + b * n bytes */
  TN__C_WIDE_GET, /* cells from b * its number on of a's n cells of dtype = what stands at c, `op` bytes; or back */
  TN__C_WIDE_PUT,
  TN__C_BARRIER,  /* op: 0: all threads of a block, 1: of a warp; n: also for global memory */
  TN__C_EXCHANGE, /* dst = a of thread b, op: of the thread whose number differs in b; n: the mask */
  TN__C_SKIP,     /* a long loop is cut short: dst its counter, a its end */
  TN__C_SEND,     /* n bytes for a from b if c, else zeros, by TN__C_SENT at the latest */
  TN__C_SENT,
  TN__C_ADD_AT,  /* *a += b, or by n, an op, whichever threads do so at once: integers of dtype `op` */
  TN__C_IN_STEP, /* *a += 1, a u32, and dst = that, by the threads of a warp one after the other, which meet before
                    * and behind it; those have one a whose b agree in the least n bits */
  TN__C_ALIKE,   /* a, and b, are the same for all threads of a block, of which there are n, who meet here */
  TN__C_SAME,    /* a is what b is */
  TN__C_BEGIN,   /* what came before has been done; buffer a may be read */
  TN__C_RENEW,
  TN__C_SOME,  /* a is more than 0: a mask of so many lanes has some */
  TN__C_RETURN /* a, or TN__C_NOTHING */
} tn__c_code;

typedef enum tn__c_op {
  TN__C_ADD, TN__C_SUB, TN__C_MUL, TN__C_DIV, TN__C_REM, TN__C_AND, TN__C_OR, TN__C_XOR,
  TN__C_SHL, TN__C_SHR, TN__C_LT, TN__C_LE, TN__C_EQ, TN__C_NE, TN__C_NEG, TN__C_NOT
} tn__c_op;

enum { TN__C_NOTHING = UINT32_MAX, TN__C_PARAMS = 1024 };

/* Objects that pointers point into: buffers by slot, and these. */
enum { TN__C_SCRATCH = 1 << 16, TN__C_CELLS, TN__C_BUFFERS, TN__C_VARIABLES };

typedef struct tn__c_ins {
  uint8_t code, op, dtype, sdtype;
  uint32_t dst, a, b, c, at; /* at: offset in the text */
  int64_t n;
} tn__c_ins;

typedef struct tn__c_param {
  const char *name;
  uint32_t reg;
  int dtype; /* of pointers: what they point to */
  int stars;
} tn__c_param;

typedef struct tn__c_function {
  const char *name, *text;
  tn__c_param param[TN__C_PARAMS];
  uint32_t nparam;
  tn__c_ins *ins;
  uint32_t n, nreg;
  tn__exact *reg;                   /* at the start */
  uint32_t thread, group, groups;   /* registers of these numbers; TN__C_NOTHING: not asked for */
  uint32_t scratch, cells;          /* places in shared memory that the text declares, */
  int64_t scratch_bytes, cell_bytes; /* and its sizes; -1: the launch's */
  int64_t threads;                  /* of a group, as declared; 0: not */
  bool vectors, turns;              /* it has some; it turns blocks, of as many turns of a loop at once */
} tn__c_function;

/* The function called `name`, in `a`.  NULL: there is none, or it cannot be read, see why. */
tn__c_function *tn__c_text_read(tn_ctx *c, tn__arena *a, const char *text, const char *name, tn__sb *why);
/* So, as if of the blocks of its body only number `stage` stood there.  There must be `stages` of them, between each
 * two of which all threads meet. */
tn__c_function *tn__c_text_read_stage(tn_ctx *c, tn__arena *a, const char *text, const char *name, uint32_t stage,
                                      uint32_t stages, tn__sb *why);
/* The line of the text around an offset, for messages. */
const char *tn__c_text_line(tn__arena *a, const char *text, uint32_t at);

/* ---- c_words.c: types and helper functions by name ---- */

typedef struct tn__c_type {
  uint8_t dtype; /* TN__VOID: also of what has no arithmetic */
  uint8_t stars; /* pointer to pointer ... */
  uint8_t bytes; /* of it, without stars; of a lane */
  uint8_t lanes; /* 0: no vector.  Vectors of bools are 0 and -1 in lanes of i8 */
} tn__c_type;

typedef struct tn__c_call { /* of a helper */
  uint8_t code, op, dtype, sdtype; /* of the instruction; sdtype: of the arguments */
  uint8_t narg, result;
  bool near;
} tn__c_call;

bool tn__c_word_is_type(const char *s, size_t n, tn__c_type *out);
bool tn__c_word_is_qualifier(const char *s, size_t n); /* of no meaning here */
bool tn__c_word_is_call(const char *s, size_t n, tn__c_call *out);
#endif
