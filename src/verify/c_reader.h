/* The reader's inside: what its files share.  c_lexer.c makes words of the text; c_text.c reads declarations,
 * statements and functions, c_expression.c what stands in them; c_values.c and c_vector.c give the instructions, of
 * numbers and of vectors.  What words mean is c_words.c's.  Prefix tn__c_. */
#ifndef TN_VERIFY_C_READER_H
#define TN_VERIFY_C_READER_H
#include "verify/c_text.h"
#include <string.h>

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

typedef struct tn__c_lambda { /* auto name = [&](type turn, type value, ...) { ... }; */
  uint32_t name, parameters; /* words */
  tn__c_type type;           /* of the first parameter */
} lambda;

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
  tn__vec(lambda) lambda;
  tn__vec(uint32_t) leave, again; /* jumps out of the loop, and to its next turn */
  uint32_t counter, limit;        /* of the last comparison counter < limit, of a loop's counter */
  uint32_t depth; /* of blocks */
  uint32_t stage, stages; /* which block of the function's, of how many, is read; stages 0: all, of any number */
  uint32_t passed;        /* blocks of the function's that the reader has come by */
  int loops;
  bool vectors;                   /* there are some, declared or in expressions alone */
  bool turns;                     /* blocks are turned: as many turns of a loop at once */
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

/* ---- c_lexer.c: words ---- */

_Noreturn void tn__c_refuse(reader *r, const char *what);
void tn__c_split(reader *r, const char *from, const char *to);
bool tn__c_take_qualifier(reader *r);
bool tn__c_take_type(reader *r, tn__c_type *out); /* a type, if one begins here: its name and stars */

static inline const char *spelled(const reader *r) { return r->text + r->word.v[r->at].at; }

static inline bool is_named(const reader *r, uint32_t at, const char *name) {
  const word *w = &r->word.v[at];
  return w->n == strlen(name) && !memcmp(r->text + w->at, name, w->n);
}

static inline bool is_at(const reader *r, const char *sign) { return is_named(r, r->at, sign); }

static inline bool take(reader *r, const char *sign) {
  if (!is_at(r, sign)) return false;
  r->at++;
  return true;
}

static inline void need(reader *r, const char *sign) {
  if (take(r, sign)) return;
  tn__sb_printf(r->why, "no %s ", sign);
  tn__c_refuse(r, "where it should be");
}

/* ---- c_values.c: instructions, values and arithmetic ---- */

uint32_t tn__c_constant(reader *r, tn__exact v); /* a register that holds it */
uint32_t tn__c_cells(reader *r, int64_t n);      /* the first of n */
uint32_t tn__c_put(reader *r, tn__c_ins i);      /* an instruction; its number */
uint32_t tn__c_value(reader *r, ex *x);          /* x in a register, or as many as it has lanes */
uint32_t tn__c_converted(reader *r, ex x, tn__c_type to);
uint32_t tn__c_truth(reader *r, ex x);
int tn__c_promoted(int dtype);
int tn__c_common_dtype(int x, int y); /* by the usual arithmetic conversions */
ex tn__c_arithmetic(reader *r, int op, ex x, ex y);
void tn__c_assign(reader *r, ex to, uint32_t reg);
void tn__c_assign_wide(reader *r, ex to, ex from); /* between a union's wide view and memory */

static inline uint32_t new_reg(reader *r) {
  tn__vec_push(r->a, &r->reg, ((tn__exact){0}));
  return r->reg.n - 1;
}

static inline uint32_t put_jump(reader *r, tn__c_code code, uint32_t a) {
  return tn__c_put(r, (tn__c_ins){.code = (uint8_t)code, .a = a});
}

static inline void land(reader *r, uint32_t jump) { r->ins.v[jump].n = r->ins.n; }

/* ---- c_expression.c ---- */

ex tn__c_expression(reader *r);
uint32_t tn__c_arguments(reader *r, ex *arg, uint32_t most); /* in brackets */

/* ---- c_vector.c: values of many lanes ---- */

ex tn__c_spread(reader *r, ex x, tn__c_type to); /* a number in each lane */
ex tn__c_lanes_arithmetic(reader *r, int op, ex x, ex y);
ex tn__c_lanes_cast(reader *r, ex x, tn__c_type to);
void tn__c_lanes_move(reader *r, uint32_t to, ex x);
bool tn__c_lanes_call(reader *r, const char *name, size_t n, ex *out); /* false: no helper of vectors */
#endif
