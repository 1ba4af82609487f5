/* What counts as a rule, as statements for provers; the provers, run as programs; their verdicts.  Prefix tn__prove_.
 *
 * Nothing here is needed to compute: `tenet prove` and `tenet export` use it, and solvers that are not installed are
 * said to be missing. The rows printed are those that the engine executes (rewrite/table.h); docs/trust.md says what
 * one has to believe besides. */
#ifndef TN_PROVE_PROVE_H
#define TN_PROVE_PROVE_H
#include "ir/ctx.h"
#include "rewrite/table.h"

/* Classes, weakest last: what a rule is when all its claims hold. */
#define TN__KINDS(KIND)                                                                                                \
  KIND(SUPPORT, "support")     /* not about the rule's truth: its conditions can be met */                             \
  KIND(PROVED, "PROVED")       /* integers, truth values, movement: for all values that the conditions allow */        \
  KIND(GRADIENT, "GRADIENT") KIND(ADJOINT, "ADJOINT")                                                                  \
  KIND(EXACT, "EXACT")         /* floats, bit for bit, all NaNs counted as one */                                      \
  KIND(EXACT_IF, "EXACT-IF")   /* so, under conditions that the engine checks */                                       \
  KIND(REAL_ONLY, "REAL-ONLY") /* over the reals, and a float counterexample is known */
typedef enum tn__kind {
#define TN__KIND_ENUM(name, text) TK_##name,
  TN__KINDS(TN__KIND_ENUM)
#undef TN__KIND_ENUM
  TK_COUNT
} tn__kind;
extern const char *const tn__kind_names[TK_COUNT];

typedef enum tn__tool {
  TT_SMT,
  TT_SMT_FLOAT /* asks cvc5 first */,
  TT_COQ,
  TT_HERE /* decided by Tenet itself */
} tn__tool;
typedef enum tn__outcome { TO_NONE, TO_HOLDS, TO_FAILS, TO_UNKNOWN, TO_NO_TOOL } tn__outcome;

/* A Coq file: written by hand (proofs/coq), or generated, its theorems being claims. */
typedef struct tn__theory {
  const char *name, *header;
  bool generated;
  tn__sb theorems; /* with their proofs; none where all claims are theorems written by hand */
} tn__theory;

/* One statement about one rule, for one tool. */
typedef struct tn__claim {
  const char *rule, *part; /* "simplify.add_zero", "f32" */
  tn__kind kind;
  tn__tool tool;
  bool sat;         /* SMT: a model is wanted, not that there is none */
  const char *text; /* the query, or the theorem with its proof */
  const char *name; /* of the theorem */
  const char *statement; /* of the theorem, as the row says it; NULL: a theory written by hand says it */
  tn__theory *file;
  tn__outcome outcome;
  bool cached;
  const char *by;   /* "z3", "cvc5", "coq", "exhaustion" */
  int64_t ms;
  const char *witness; /* a model, what the prover said, or the axioms used */
  /* TT_HERE, and not decided yet: tn__prove_run() asks, with `of`; it says what it went through, or throws. */
  const char *(*decide)(tn_ctx *c, const void *of);
  const void *of;
} tn__claim;

typedef struct tn__proofs {
  tn_ctx *c;
  tn__arena *a;
  const char *only; /* the one rule asked for, or NULL */
  const char *provers; /* those that there are, with their versions; NULL before they are asked */
  tn__vec(tn__claim) claims;
  tn__vec(tn__theory *) theories; /* in order of dependence, generated ones last */
} tn__proofs;

/* ---- what exporters call ---- */
void tn__prove_smt(tn__proofs *p, const char *rule, const char *part, tn__kind kind, tn__tool tool, bool sat,
                   const char *query);
/* A generated file; `header` holds its Require lines. */
tn__theory *tn__prove_file(tn__proofs *p, const char *name, const char *header);
void tn__prove_coq(tn__proofs *p, const char *rule, const char *part, tn__kind kind, tn__theory *file, const char *name,
                   const char *statement, const char *proof);
/* A theorem of a theory that is written by hand. */
void tn__prove_theorem(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *theory,
                       const char *name);
/* What Tenet has decided itself: by exhaustion or evaluation. */
void tn__prove_held(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *by, bool holds,
                    const char *witness);
void tn__prove_later(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *by,
                     const char *(*decide)(tn_ctx *c, const void *of), const void *of);
bool tn__prove_wants(const tn__proofs *p, const char *rule);

/* ---- exporters ---- */
void tn__export_rows(tn__proofs *p);   /* rows.c: index, simplify, float, and the claims of ops.def */
void tn__export_intervals(tn__proofs *p); /* interval.c: the rows of ir/intervals.def */
void tn__export_elements(tn__proofs *p); /* elements.c: of those, what they say of whole-tensor ops */
void tn__export_normal(tn__proofs *p); /* normal.c: the normal form of ir/index.c */
void tn__export_coq(tn__proofs *p);    /* coq.c: those of them that Coq proves, too; after tn__export_rows */
void tn__export_movement(tn__proofs *p); /* movement.c */
void tn__export_gradient(tn__proofs *p); /* gradient.c */
void tn__export_adjoint(tn__proofs *p);  /* adjoint.c */
void tn__export_complete(tn__proofs *p); /* complete.c: that no row was left out; after all others */

/* A row TENSOR of ir/intervals.def, its theorem, and what proves it. */
typedef struct tn__element_row {
  int op;
  const char *element, *lower, *upper;
} tn__element_row;
extern const tn__element_row tn__element_rows[];
extern const size_t tn__element_row_count;
const char *tn__element_statement(tn__arena *a, const tn__element_row *r);
const char *tn__element_tactic(const tn__element_row *r); /* after intros */

/* ---- all of it ---- */
/* Collects every claim (of one rule, if `only`); in c->scratch. */
tn__proofs *tn__prove_collect(tn_ctx *c, const char *only);
/* of the texts of the four tables and of the interval rules: of all that the engine executes */
uint64_t tn__prove_table_hash(tn_ctx *c);
uint64_t tn__interval_table_hash(uint64_t seed); /* interval.c: of the formulas, as they are compiled and printed */
/* The text of a generated Coq file, with the tables' hash. */
const char *tn__prove_file_text(tn__proofs *p, const tn__theory *t);
/* The file that is compiled after it: there, where no proof has been, every theorem is given the statement that the row
 * makes, and Coq prints what all of them stand on. */
const char *tn__prove_stated_text(tn__proofs *p, const tn__theory *t);
/* assumptions.c: reads what Coq says of that file, all of it; the names of the axioms used, or in *fault what is not
 * allowed. */
const char *tn__prove_assumptions(tn__arena *a, const char *said, const char **fault);
extern const char tn__prove_axiom_checks[]; /* Coq: that names that are printed there are those of the library */
/* script.c: what is wrong with the proof text of a row; NULL: nothing. */
const char *tn__prove_script_fault(const char *text);

/* jobs.c: runs the provers; verdicts are kept in the cache by the hash of the tools' versions and the statement. */
typedef struct tn__prove_how {
  const char *dir;  /* where Coq files are written and compiled */
  tn__cache *cache; /* verdicts */
  int jobs;         /* programs at once */
} tn__prove_how;
void tn__prove_run(tn__proofs *p, const tn__prove_how *how);

/* ---- terms as SMT sees them: their dtypes (typing.c), and what is asked (smt.c) ---- */

/* The dtypes of a row's terms: classes of terms that share one, and what each admits. */
enum { TN__MAX_TYPED = 96 };
typedef struct tn__typing {
  const tn__term *term[TN__MAX_TYPED];
  uint8_t of[TN__MAX_TYPED], slot[TN__MAX_SLOTS];
  uint32_t n, classes;
  uint8_t up[TN__MAX_TYPED];       /* union-find */
  uint32_t admits[TN__MAX_TYPED];  /* bit per dtype; of roots */
  uint8_t dtype[TN__MAX_TYPED];    /* the assignment: of roots */
} tn__typing;
bool tn__typing_infer(const tn__rule *r, tn__typing *t); /* false: movement, or no types fit */
/* The first assignment, then the next; false at the end.  Conditions about dtypes hold in those given. */
bool tn__typing_first(const tn__rule *r, tn__typing *t);
bool tn__typing_next(const tn__rule *r, tn__typing *t);
int tn__typing_of(const tn__typing *t, const tn__term *term);
const char *tn__typing_name(const tn__typing *t, tn__arena *a); /* "f32", "i8,f16" */

/* smt.c: the query that a row's statement is true, or (sat) that its conditions can be met. */
const char *tn__smt_query(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, const tn__typing *t,
                          bool conditions_only);
/* That what divisions, comparisons, min and max take on the right side has 64 bits if all that they take on the left
 * has; NULL where they take nothing but numbers.  checked: the engine looks (the row says (fits)). */
const char *tn__smt_width_query(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, const tn__typing *t,
                                bool checked);
/* An op on operands of dtype `from`: what defines it, and the call.  Conversions go to `to`.  Only where the op means
 * something there. */
bool tn__smt_means(int op, int dtype);
void tn__smt_call(tn__proofs *p, tn__sb *definitions, tn__sb *call, int op, int from, int to, const char *arguments);
void tn__smt_sort(tn__sb *b, int dtype);

#endif
