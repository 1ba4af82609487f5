/* The one node type.  Prefix tn__node_; constructors tn__add(), tn__reshape(), ... (build.h).
 *
 * A node is immutable and interned: equal op, dtype, sources, argument and (for GIVEN shapes) dims mean the same
 * pointer. Shape, dtype, device and integer interval are computed when it is made, since its sources already exist.
 *
 * Lifetime.  refs counts the references from other nodes, from handles and from long-lived owners (tn__node_keep/drop).
 * A new node has none: it stands in the context's nursery until the outermost tn__ctx_run() ends, and then goes if
 * nobody took a reference.  So passes make nodes freely and never count; a node whose count falls to zero goes back to
 * the nursery.  All walks, freeing included, are iterative.
 *
 * Order.  `serial` grows with creation; it is the tie-breaker wherever an order must be reproducible: never sort by
 * address. */
#ifndef TN_IR_NODE_H
#define TN_IR_NODE_H
#include "base/mem.h"
#include "ir/dtype.h"

typedef enum tn__op {
#define OP(name, ...) OP_##name,
#include "ir/ops.def"
  OP_COUNT
} tn__op;

typedef enum tn__group { G_LEAF, G_UNARY, G_BINARY, G_TERNARY, G_CAST, G_REDUCE, G_MOVE, G_MIX, G_KERNEL } tn__group;
enum { PH_T = 1, PH_K = 2, PH_L = 4, PH_S = 8, PH_P = 16 };
enum {
  PH_TK = PH_T | PH_K,
  PH_TS = PH_T | PH_S,
  PH_TKL = PH_T | PH_K | PH_L,
  PH_TKLS = 15,
  PH_KL = PH_K | PH_L,
  PH_KS = PH_K | PH_S,
  PH_KLS = PH_K | PH_L | PH_S
};
typedef enum tn__arg { ARG_NONE, ARG_BITS, ARG_INTS, ARG_NAME } tn__arg;
typedef enum tn__rounding { RN_EXACT, RN_ROUNDED, RN_LIBRARY } tn__rounding;
enum tn__library { LB_C, LB_CUDA, LB_OPENCL };
typedef enum tn__response { RS_JUMPS, RS_CONTINUOUS, RS_STABLE } tn__response; /* each promises more */

/* A row of ops.def, whose head says what the columns mean. */
typedef struct tn__op_info {
  const char *name, *text; /* "ADD", "add" */
  uint8_t group, arg, phases, dtype_rule, shape_rule;
  uint8_t nint;              /* integers in the argument; 0: none, or as many as the shape rule says */
  uint8_t cost, rounding, response;
  double library[3];         /* by tn__library */
  uint8_t combine;           /* the op over a row's elements; 0: it does not reduce */
  uint32_t min_src, max_src;
  uint8_t comm, assoc, idem; /* masks of tn__class */
} tn__op_info;
extern const tn__op_info tn__ops[OP_COUNT];
int tn__op_parse(const char *text, size_t n); /* -1 if unknown */
/* Is op's response to an operand STABLE, as far as the op that this comes of tells?  log1p's is, of no negative one. */
bool tn__is_stable(int op, int of);
/* May the operands of a scalar function (WHERE's two values) be of the dtype? */
bool tn__op_takes(int op, int dtype);

typedef struct tn_node tn_node;
struct tn_node {
  uint8_t op, dtype, rank;
  int8_t device;         /* index in the context's device list; -1: any */
  uint32_t nsrc, nint;   /* sources; integers in the argument */
  uint32_t refs;
  bool in_nursery;
  bool loaded;           /* an index that is made of more than sizes and counters: of what memory holds */
  uint64_t hash, serial;
  int64_t lo, hi;        /* integer scalars and tensors: every element lies in lo..hi; else the dtype's full range */
  tn_node **src;         /* nsrc */
  tn_node **dim;         /* rank dims: index scalars */
  const int64_t *ints;   /* nint */
  const char *name;      /* NAME arguments, else NULL */
  tn_node *next;         /* in the list of dead storages */
};

/* Of index arithmetic: may a sum or product be beyond 64 bits, for all that the bounds of its sources say?  Rows take
 * indices for integers without bounds, while a machine's wrap.  Of sizes and counters that makes no difference: they
 * count elements of memory.  Of what is loaded it does, and what may have wrapped is taken as it is. */
static inline bool tn__may_wrap(const tn_node *n) {
  bool ring = n->op == OP_ADD || n->op == OP_MUL || n->op == OP_NEG;
  return ring && n->dtype == TN__INDEX && n->loaded && n->lo == INT64_MIN && n->hi == INT64_MAX;
}

/* A RANGE says of itself, in ints: how its loop runs (axis), which loop of its kernel body it is (a number that is
 * unique there, from 0 on, and carries no meaning but an order that is the same in every run), and what the loop is for
 * (role). */
enum { RANGE_AXIS, RANGE_ID, RANGE_ROLE, RANGE_INTS };
/* Turns of AX_LOOP, AX_GLOBAL, AX_UPCAST and AX_UNROLL store to places of their own, and may run in any order or at
 * once, but those of an AX_UNROLL that a value runs along, which are one thread's, in order; those of AX_REDUCE make
 * one value, for which partial ones may be combined; those of AX_ORDER may meet at one place of memory, and run one
 * after the other, in order, by one thread. */
enum { AX_GLOBAL, AX_LOOP, AX_REDUCE, AX_UNROLL, AX_UPCAST, AX_ORDER, AX_COUNT };
extern const char *const tn__axis_names[AX_COUNT];

/* A loop that stands inside of its closer's outputs' loops, with others of its kind as the closer lists them */
static inline bool tn__is_inner(const tn_node *range) {
  return range->ints[RANGE_AXIS] == AX_REDUCE || range->ints[RANGE_AXIS] == AX_ORDER;
}

#define TN__ROLES(X)                                                                                                   \
  X(OUTPUT, "output")        /* the elements of what is stored */                                                      \
  X(REDUCTION, "reduction")  /* what is summed up, or whatever a REDUCE does */                                        \
  X(UPDATE, "update")        /* what is added to a buffer, place by place */                                           \
  X(ROW, "row")              /* as OUTPUT; other stores of the kernel are sums over it, by loops of their own: */      \
  X(ROW_SUM, "row_sum")      /* those, in the rows' order */                                                           \
  X(ROW_LOOP, "row_loop")    /* the rows that a group goes through, for both */                                        \
  X(BLOCK, "block")          /* the blocks of a split reduction */                                                     \
  X(BLOCK_SUM, "block_sum")  /* the same, where they are added up */                                                   \
  X(APART, "apart")          /* a store's own copy of a loop of others */                                              \
  X(KEPT, "kept")            /* a row that is kept in scratch memory */                                                \
  X(AHEAD, "ahead")          /* a row that is sent for */                                                              \
  X(HELD, "held")            /* sums of columns that are kept beside a loop over rows */                               \
  X(COLUMN, "column")        /* parts of a column that is reduced by several threads */                                \
  X(TILE_THREAD, "tile_thread") /* of a product by tiles: its threads, */                                              \
  X(TILE_DIGIT, "tile_digit")   /* the digits of an element's place in its tile, */                                    \
  X(TILE_LINE, "tile_line")     /* rows and columns, */                                                                \
  X(TILE_STEP, "tile_step")     /* steps, and steps of several */                                                      \
  X(ALONE, "alone")          /* whose turns store to shared memory, each thread to what is its own in all */           \
  X(MARK, "mark")            /* a stand-in within one pass; none is left after it */

typedef enum tn__role {
#define X(name, text) ROLE_##name,
  TN__ROLES(X)
#undef X
  ROLE_COUNT
} tn__role;
extern const char *const tn__role_names[ROLE_COUNT];

/* What a REQUIRE says of a buffer: whoever runs the kernel sees to it, and what checks the kernel relies on it. 
 * The schedule says PERMUTED of what it knows from the graph: there memory is looked at only where schedules are
 * validated. */
#define TN__REQUIREMENTS(X)                                                                                            \
  X(DISTINCT, "distinct") /* no two elements are equal */                                                              \
  X(SORTED, "sorted")     /* none is less than the one before it */                                                    \
  X(IN, "in")             /* sources {buffer, lo, hi}: lo <= each < hi */                                              \
  X(PERMUTED, "permuted") /* each of 0, 1, ... stands once: of buffers that the same schedule computed */

typedef enum tn__requirement {
#define X(name, text) REQ_##name,
  TN__REQUIREMENTS(X)
#undef X
  REQ_COUNT
} tn__requirement;
extern const char *const tn__requirement_names[REQ_COUNT];

static inline bool tn__is_const(const tn_node *n) { return n->op == OP_CONST; }
/* The first letter of the name of a variable that is no size: no identifier has it. */
enum { TN__STAND_IN = '#' };
static inline bool tn__is_stand_in(const tn_node *n) { return n->op == OP_VAR && *n->name == TN__STAND_IN; }
static inline bool tn__is_elementwise(const tn_node *n) {
  return tn__ops[n->op].group >= G_UNARY && tn__ops[n->op].group <= G_CAST;
}
/* Integer constants (index, ints, bool): the value; floats: see eval.h */
static inline bool tn__const_int(const tn_node *n, int64_t *v) {
  if (n->op != OP_CONST || tn__dtypes[n->dtype].cls == TN__C_FLOAT) return false;
  *v = n->ints[0];
  return true;
}
static inline bool tn__is_int_const(const tn_node *n, int64_t v) {
  int64_t w;
  return tn__const_int(n, &w) && w == v;
}

/* SCATTER and STOREADD add floats of f32 also to two other kinds of dtypes.  To whole numbers of 64 bits: each becomes
 * one first, as by a CAST.  So are sums kept in fixed point, whose digits nobody looks at (schedule/fixed.c), and to
 * validation they are sums of floats.  And to half floats: what stands there becomes f32, the sum is rounded once. */
static inline bool tn__is_counted(int to, int value) { return to == TN_I64 && value == TN_F32; }
static inline bool tn__is_added_wide(int to, int value) { return (to == TN_F16 || to == TN_BF16) && value == TN_F32; }
static inline bool tn__is_addable(int to, int value) {
  return to == value || tn__is_counted(to, value) || tn__is_added_wide(to, value);
}

/* By what SCATTER and STOREADD combine values with what stands there: sums, what is greatest, or the bits of both.
 * Of integers all are the same in any order. */
static inline int tn__combines_by(const tn_node *n) {
  return n->nint ? (int)n->ints[0] : OP_ADD;
}
/* What is wrong with how they do; NULL: nothing */
const char *tn__combining_fault(const int64_t *ints, uint32_t nint, int to, int value);

/* Where a LOAD, a STORE or a STOREADD is done, if it has a gate: elsewhere memory stays untouched, and a load gives 0.
 * NULL: everywhere */
static inline tn_node *tn__gate_of(const tn_node *access) {
  uint32_t at = access->op == OP_LOAD ? 2 : 3;
  return access->nsrc > at && access->src[at]->op != OP_RANGE ? access->src[at] : NULL;
}

typedef struct tn_ctx tn_ctx;

/* What makes a node.  Fields not needed stay zero. */
typedef struct tn__make {
  tn__op op;
  int dtype;             /* needed where the DTYPE column says GIVEN; ignored elsewhere */
  tn_node *const *src;
  uint32_t nsrc;
  const int64_t *ints;
  uint32_t nint;
  const char *name;
  int device;            /* STORAGE, PARAM, BUFFER only */
} tn__make;

/* Interns.  Checks source count, dtype rule and shape rule; a breach throws with a message that names the op and
 * shapes. Constant sources of scalar ops are not folded here: rewriting does that. */
tn_node *tn__node_make(tn_ctx *c, const tn__make *m);
tn_node *tn__node_with(tn_ctx *c, tn_node *n, tn_node *const *src); /* the same node over other sources (equal count) */
tn_node *tn__node_keep(tn_node *n);         /* +1; returns n; NULL allowed */
void tn__node_drop(tn_ctx *c, tn_node *n);  /* -1; NULL allowed; never throws */

void tn__check_name(tn_ctx *c, const char *name); /* of a size: throws unless it is an identifier */

/* "f32[64,B]" in a, for messages */
const char *tn__node_type(const tn_node *n, tn__arena *a);

/* Sources before users, each once, from roots.  Iterative. */
typedef tn__vec(tn_node *) tn__nodes;
void tn__topo(tn__arena *a, tn_node *const *roots, uint32_t n, tn__nodes *out);
#endif
