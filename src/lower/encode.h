/* Linear kernels as compact instructions over registers: what interprets them (backend/ref, verify) runs.  Prefix
 * tn__encode.
 *
 * A register holds one scalar; an accumulator of n lanes is n registers in a row.  Constants stand in their registers
 * from the start, size variables are written there at each launch. */
#ifndef TN_LOWER_ENCODE_H
#define TN_LOWER_ENCODE_H
#include "lower/kernel.h"

typedef enum tn__icode {
  TN__I_EVAL,
  TN__I_RANGE,
  TN__I_END,
  TN__I_ACC,
  TN__I_SETACC,
  TN__I_GETACC,
  TN__I_FOLDACC,
  TN__I_LOAD,
  TN__I_STORE,
  TN__I_STOREADD,
  TN__I_BARRIER
} tn__icode;

enum { TN__NO_REG = UINT32_MAX };

typedef struct tn__ins {
  uint8_t code, op, dtype,
      sdtype; /* op of RANGE, END: its axis type, of STOREADD: what combines; sdtype of STORE, STOREADD: of the value */
  uint32_t dst;    /* result; RANGE, END: the counter; SETACC, GETACC, FOLDACC: the first cell */
  uint32_t src[3]; /* operands; LOAD, STORE: index, gate, value */
  uint32_t lane, lanes, each; /* accumulators: the counter of lanes, all cells, cells of a lane */
  uint32_t span;   /* LOAD, STORE: number of the memory block: buffers by slot, then locals */
  uint32_t jump;   /* RANGE: behind the end; END: the first instruction of the body */
} tn__ins;

typedef struct tn__code_part {
  tn__ins *ins;
  uint64_t *reg;     /* at the start, */
  uint8_t *dtype;    /* and of which dtype the constants among them are */
  uint32_t *var_reg; /* TN__NO_REG: the part does not use the variable */
  uint32_t n, nreg;
} tn__code_part;

typedef struct tn__encoded { /* one kernel */
  const char *name;
  tn__code_part part[TN__MAX_PARTS];
  uint32_t nparts;
} tn__encoded;

/* Throws TN_ERUN for what is no linear program.  Everything is allocated in `keep`. */
void tn__encode(tn_ctx *c, tn__arena *keep, const tn__kernel *k, tn__encoded *out);
#endif
