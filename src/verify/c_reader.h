/* The reader's inside: what its files share.  Prefix tn__c_. */
#ifndef TN_VERIFY_C_READER_H
#define TN_VERIFY_C_READER_H
#include "verify/c_text.h"

enum { W_END, W_NAME, W_NUMBER, W_SIGN };

typedef struct tn__c_token {
  uint32_t at, n;
  uint8_t kind;
} word;

typedef struct tn__c_symbol {
  const char *name;
  size_t n;
  tn__c_type type;  /* of the elements of an array */
  uint32_t reg, count; /* count: registers of an array or union; 0: a plain variable */
  uint32_t each;    /* a union: bytes of its wide view's elements; 0: no union */
  bool shared;      /* an array that is a place in shared memory */
} symbol;

typedef struct tn__c_reader {
  tn_ctx *c;
  tn__arena *a;
  const char *text;
  tn__sb *why;
  tn__c_function *f;
  tn__vec(word) word;
  uint32_t at;
  tn__vec(tn__c_ins) ins;
  tn__vec(tn__exact) reg;
  tn__vec(symbol) symbol;
  tn__vec(uint32_t) leave, again; /* jumps out of the loop, and to its next turn */
  uint32_t counter, limit;        /* of the last comparison counter < limit, of a loop's counter */
  int loops;
  bool vectors;                   /* there are some, declared or in expressions alone */
} reader;

/* A value on its way: in a register; or what can be assigned to. */
typedef enum where { IN_REG, VARIABLE, CELL, WIDE_CELL, MEMORY } where;
typedef struct tn__c_ex {
  tn__c_type type;
  where where;
  uint32_t reg;          /* register, first cell, or pointer */
  uint32_t index, count; /* cells */
} ex;

static inline ex in_reg(tn__c_type type, uint32_t reg) { return (ex){.type = type, .where = IN_REG, .reg = reg}; }

static inline tn__c_type plain(int dtype) {
  return (tn__c_type){.dtype = (uint8_t)dtype, .bytes = (uint8_t)tn__size_of(dtype)};
}

_Noreturn void tn__c_refuse(reader *r, const char *what);
uint32_t tn__c_constant(reader *r, tn__exact v); /* a register that holds it */
uint32_t tn__c_cells(reader *r, int64_t n);      /* the first of n */
uint32_t tn__c_put(reader *r, tn__c_ins i);      /* an instruction; its number */
uint32_t tn__c_value(reader *r, ex *x);          /* x in a register, or as many as it has lanes */
uint32_t tn__c_converted(reader *r, ex x, tn__c_type to);
uint32_t tn__c_arguments(reader *r, ex *arg, uint32_t most);

/* c_vector.c: values of many lanes */
ex tn__c_spread(reader *r, ex x, tn__c_type to); /* a number in each lane */
ex tn__c_lanes_arithmetic(reader *r, int op, ex x, ex y);
ex tn__c_lanes_cast(reader *r, ex x, tn__c_type to);
void tn__c_lanes_move(reader *r, uint32_t to, ex x);
bool tn__c_lanes_call(reader *r, const char *name, size_t n, ex *out); /* false: no helper of vectors */
#endif
