/* A rule table in memory.  The parsed row is what the engine executes, what the tests evaluate and what the provers
 * print: there is no second form.  The language is described in rules/README.md.  Prefix tn__table_. */
#ifndef TN_REWRITE_TABLE_H
#define TN_REWRITE_TABLE_H
#include "rewrite/rewrite.h"

enum {
  TN__MAX_SLOTS = 12,
  TN__MAX_KIDS = 4,
  TN__MAX_CONDS = 12,
  TN__MAX_CLAUSES = 6,
  TN__MAX_HINTS = 4,
  TN__MAX_TERMS = 24 /* of a sum */
};

/* Forms of a term.  FORM(kind, text, kids) are those spelled (text kid ...); kids 0: spelled otherwise. */
#define TN__FORMS(FORM)                                                                                                \
  FORM(VAR, "", 0)                /* slot */                                                                           \
  FORM(NUM, "", 0)                /* num, inum */                                                                      \
  FORM(OP, "", 0)                 /* what: tn__op; of movements and reductions kid[1] is the argument */               \
  FORM(FN, "", 0)                 /* what: tn__fn; an integer constant */                                              \
  FORM(ARGFN, "", 0)              /* what: tn__argfn; an argument */                                                   \
  FORM(AS, "as", 2)                                                                                                    \
  FORM(SUB, "sub", 2)             /* never in a parsed row: desugared */                                               \
  FORM(SPLIT, "split", 3)                                                                                              \
  FORM(SPLIT_ALL, "split_all", 3)                                                                                      \
  FORM(PARTS, "parts", 4)                                                                                              \
  FORM(PICK, "pick", 3)                                                                                                \
  FORM(CAST_LIKE, "cast_like", 2)
typedef enum tn__form {
#define TN__FORM_ENUM(kind, text, kids) TF_##kind,
  TN__FORMS(TN__FORM_ENUM)
#undef TN__FORM_ENUM
  TF_COUNT
} tn__form;

/* Integer functions: FN(name, text, arguments) */
#define TN__FNS(FN)                                                                                                    \
  FN(ADD, "#add", 2)                                                                                                   \
  FN(SUB, "#sub", 2) FN(MUL, "#mul", 2) FN(NEG, "#neg", 1) FN(MIN, "#min", 2) FN(MAX, "#max", 2) FN(IDIV, "#idiv", 2)  \
      FN(MOD, "#mod", 2) FN(CEILDIV, "#ceildiv", 2) FN(GCD, "#gcd", 2) FN(LO, "#lo", 1) FN(HI, "#hi", 1)
typedef enum tn__fn {
#define TN__FN_ENUM(name, text, n) FN_##name,
  TN__FNS(TN__FN_ENUM)
#undef TN__FN_ENUM
  FN_COUNT
} tn__fn;

/* Argument functions, in argfn.c */
#define TN__ARGFNS(FN)                                                                                                 \
  FN(COMPOSE, "compose", 2) FN(SYMDIFF, "symdiff", 2) FN(PADSUM, "padsum", 2) FN(SHRINKMUL, "shrinkmul", 2)
typedef enum tn__argfn {
#define TN__ARGFN_ENUM(name, text, n) AF_##name,
  TN__ARGFNS(TN__ARGFN_ENUM)
#undef TN__ARGFN_ENUM
  AF_COUNT
} tn__argfn;

/* Conditions.  Comparisons are spelled infix, predicates (text argument ...). */
#define TN__CONDS(COND)                                                                                                \
  COND(LT, "<", 2) COND(LE, "<=", 2) COND(EQ, "=", 2) COND(NE, "!=", 2) COND(GT, ">", 2) COND(GE, ">=", 2)             \
  COND(DIVIDES, "divides", 2) COND(EXACT_CAST, "exact_cast", 2) COND(SAME_SHAPE, "same_shape", 1)                      \
  COND(IDENTITY, "identity", 1) COND(ZEROS, "zeros", 1) COND(EMPTY, "empty", 1) COND(UNDOES, "undoes", 3)              \
  COND(FITS, "fits", 0)                                                                                                \
  COND(WHOLE, "whole", 1) COND(FRACTION, "fraction", 1) /* of gradient rows */
typedef enum tn__cond_kind {
#define TN__COND_ENUM(name, text, n) TC_##name,
  TN__CONDS(TN__COND_ENUM)
#undef TN__COND_ENUM
  TC_COUNT
} tn__cond_kind;

typedef struct tn__term {
  uint8_t form, what, slot, nkid;
  struct tn__term *kid[TN__MAX_KIDS];
  double num;
  bool whole;        /* the number is an integer: inum */
  int64_t inum;
  const char *exact; /* the name of an exact constant */
} tn__term;

typedef struct tn__cond {
  tn__cond_kind kind;
  const tn__term *arg[3];
} tn__cond;

/* Where a gradient row holds: n conditions, of cond[] from `first` on.  kink: the function has two one-sided slopes
 * there, and the row gives a value between them.  bare: it has none, and nothing is said of the row. */
typedef struct tn__clause {
  bool kink, bare;
  uint32_t first, n;
} tn__clause;

/* For the provers: the row follows by this other row at these values of its variables, in the order in which it names
 * them. */
typedef struct tn__hint {
  const char *rule;
  const tn__term *arg[TN__MAX_SLOTS];
  uint32_t n;
} tn__hint;

typedef enum tn__verdict { TV_RULE, TV_GRAD, TV_ZERO, TV_FORBIDDEN } tn__verdict;

typedef struct tn__rule {
  const char *name; /* of gradient rows: "sin.x" */
  const char *text; /* the row as written, in the table's text */
  uint32_t len;
  int line;
  tn_mode mode;     /* TN_MODE_STRICT: holds always */
  tn__verdict verdict;
  tn__term *lhs, *rhs;
  const char *why;  /* of TV_FORBIDDEN */
  int op;           /* the root's */
  uint32_t src;     /* of gradient rows: which source */
  tn__cond cond[TN__MAX_CONDS];
  tn__hint hint[TN__MAX_HINTS];
  uint32_t nhint;
  const char *proof;               /* Coq's, where its automation fails; else NULL */
  bool fits;                       /* has the condition (fits), which is about the right side: template.c looks */
  uint32_t ncond, nassume, nslot;  /* cond[0..ncond-1] are checked; the nassume after them only said */
  tn__clause clause[TN__MAX_CLAUSES]; /* of gradient rows; none without `kink`: it holds everywhere */
  uint32_t nclause;
  const char *slot[TN__MAX_SLOTS]; /* names */
  uint8_t cls[TN__MAX_SLOTS];      /* dtype classes allowed (a mask of tn__class, or TN__ONLY_INDEX); 0: any */
  bool is_const[TN__MAX_SLOTS], is_arg[TN__MAX_SLOTS];
  uint64_t hits;
} tn__rule;
enum { TN__ONLY_INDEX = 8 };
/* Slots of a gradient row. */
enum { GRAD_X, GRAD_Y, GRAD_Z, GRAD_OUT, GRAD_G };

struct tn__ruleset {
  const char *name, *text;
  tn__rule *rule;
  uint32_t n;
  const tn__rule *defined[OP_COUNT]; /* where an op is a function over the reals, as clauses; NULL: everywhere */
  uint32_t first[OP_COUNT + 1]; /* rows by root op: by_op[first[op] .. first[op + 1] - 1], in table order */
  uint32_t *by_op;
  tn__ruleset *next;
};

/* Parses into `a`; throws TN_EFORMAT with table name and line. */
tn__ruleset *tn__table_parse(tn_ctx *c, tn__arena *a, const char *name, const char *text);
/* The value of (fn a b) over the integers; false: overflow or division by 0, or FN_LO and FN_HI, which need a node. */
bool tn__table_fn(tn__fn fn, int64_t a, int64_t b, int64_t *out);
bool tn__table_class_ok(uint8_t cls, int dtype);
/* The bit pattern of a number in a dtype; false if the dtype does not hold just this number: then it stands for nothing
 * there, for the matcher and for the provers.  -1 is all ones in bool and in unsigned dtypes; exact constants round. */
bool tn__table_bits(const tn__term *num, int dtype, uint64_t *bits);
/* Every value of dtype a is one of dtype b, and both are integers, or both floats, or a is bool.  Integers do not go to
 * floats here: from there a cast saturates where it wraps from an integer. */
bool tn__table_exact_cast(int a, int b);
/* Conditions whose variables are of dtype index, by what they say. */
static inline bool tn__table_about_index(const tn__cond *d) {
  return d->kind == TC_DIVIDES || (d->kind <= TC_GE && d->arg[0]->form != TF_NUM && d->arg[1]->form != TF_NUM);
}
/* Ops that give another value where an operand has wrapped; sums and products of wrapped numbers only wrap likewise. */
static inline bool tn__table_exact_op(int op) {
  return op == OP_IDIV || op == OP_MOD || op == OP_MIN || op == OP_MAX || (op >= OP_LT && op <= OP_NE);
}
extern const char *const tn__form_names[TF_COUNT], *const tn__fn_names[FN_COUNT], *const tn__argfn_names[AF_COUNT],
    *const tn__cond_names[TC_COUNT];
extern const uint8_t tn__fn_args[FN_COUNT], tn__cond_args[TC_COUNT];
#endif
