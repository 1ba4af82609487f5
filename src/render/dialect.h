/* What differs between C-like languages.  Prefix tn__dialect_.
 *
 * Spellings are templates: $0 $1 $2 operands, $t the type of the result's value, $u an unsigned type in which its
 * arithmetic wraps, $n the name of the operands' dtype ("f32").  An op with an empty cell is a call tn_<op>_<dtype>($0,
 * ...) of the language's helper texts.  f16 and bf16 live in f32 values: their ops are those of f32 and the result is
 * rounded.
 *
 * Index values whose interval fits 32 bits are of the kind TN__INDEX32, where the language has a type for it. */
#ifndef TN_RENDER_DIALECT_H
#define TN_RENDER_DIALECT_H
#include "render/render.h"

enum { SP_BOOL, SP_INT, SP_INDEX, SP_F32, SP_F64, SP_COUNT }; /* columns of `op`, by the operands' kind */

enum { TN__INDEX32 = TN__DTYPE_ALL, TN__KINDS }; /* kinds of values: the dtypes, and one more */

/* Kernels for work groups.  Templates: $k the kernel's name, $g threads of a group, $i a slot or number, $j a
 * parameter's position, $t an element's type, $b bytes. */
typedef struct tn__group_words {
  const char *kernel;                    /* up to the first parameter */
  const char *buffer[2];                 /* parameter: read only, written */
  const char *place[2];                  /* declares b$i from that, NULL: it is b$i itself */
  const char *variable;                  /* parameter n$i */
  const char *begin, *renew;             /* in front of everything; for each buffer b$i behind it; NULL: nothing */
  const char *last;                      /* the rest of the parameters, with a comma in front */
  const char *thread, *group, *groups;   /* number in the group; of the group; number of groups */
  const char *scratch, *cells;           /* declare shared memory of $b bytes; NULL: parameters */
  const char *global, *shared;           /* in front of types pointed to */
  const char *barrier[2];                /* all threads of a group meet: more than a warp, at most a warp */
  bool meets_again;                      /* ... once more behind loops in which they meet */
  /* $0 of the thread whose number differs in bit $1, in the mask $2; NULL: only through shared memory */
  const char *swap;
  const char *take;                      /* $0 of thread $1, likewise */
  const char *wide[5];                   /* types of 1, 2, 4, 8 and 16 bytes */
  /* $b bytes for $0 from $1 if $2, else zeros, while the thread goes on; what it copied is there; NULL: not so */
  const char *copy, *copied;
  const char *from; /* a pointer to element $0 + $1, that compilers do not see through; NULL: not so */
  /* adds $1 to $0, of type $t, whoever else does so at once; by bytes: of 4, of 8; NULL: not so */
  const char *add[2];
  const char *greatest[2]; /* so the greatest of $0 and $1, */
  const char *bits[2];     /* and the bits of both */
  const char *add_shared; /* so where a group shares memory, of 4 bytes */
  /* $0, a u32 there, once threads in step have counted at it up to this one; of these, those count at one place whose
   * numbers $1 agree in their least $b bits; NULL: not so */
  const char *count_in_step;
  /* stores at $0 what $1 gives for each of $n places, and adds what $3 gives for each of $b turns and what $2 fetches
   * for it, in order, in blocks of $g threads, $w of which have a row's columns (tn__owns_places), and the text that
   * this needs; NULL: as loops */
  const char *own_places, *turns;
  const char *tiles;                     /* the text that products by tiles need; NULL: they are printed as loops */
  const char *unroll;                    /* in front of a loop */
  const char *divisor;                   /* type of what many f32 are divided by; NULL: divisions are not prepared */
  const char *prepare[2], *divide[2];    /* it, from $0, or a number; and $0 by it: correctly rounded, right to 2^-16 */
} tn__group_words;

struct tn__dialect {
  const char *name;
  const char *const *head;               /* helper texts in front of the kernels, NULL at the end */
  const char *value[TN__KINDS];          /* type of a value; NULL: the language has none */
  const char *cell[TN__KINDS];           /* type of an element in memory */
  const char *wrap[TN__KINDS];           /* $u */
  const char *load[TN__KINDS];           /* $0: an element; empty: itself */
  const char *store[TN__KINDS];          /* $0: a value; empty: itself */
  const char *round[TN__KINDS];          /* $0: an f32; empty: not rounded */
  const char *to_bits[TN__KINDS];        /* $0: a value -> the unsigned integer of its width; empty: a cast does */
  const char *of_bits[TN__KINDS];
  const char *op[OP_COUNT][SP_COUNT];
  /* by op: a shorter f32 function, right to 2^-16 (lower/near.c says where); NULL: the language has none */
  const char *const *approximate;
  const char *quotient; /* of f16, that is right once it is rounded; NULL: as of f32 */
  const char *over_root; /* $0 / $1 of f32, where tn__is_over_root holds; NULL: as others */
  const char *mod_nonneg, *idiv_nonneg;  /* index division where dividend and divisor are known not to be negative */
  const char *infinity;                  /* of f32; it is one of f64, too */
  const char *function[2];               /* a part's function of slices: what stands before and after its name */
  const char *extent[2];                 /* the function that computes the extent of a part's global range */
  const tn__group_words *group;          /* NULL: parts are functions of slices */
};

/* A literal of the dtype: exact, floats in hexadecimal, NaN by its bits. */
void tn__render_constant(tn__sb *out, const tn__dialect *d, int dtype, uint64_t bits);
#endif
