/* A compiled schedule from inside: what the files share that compile, tune, bind, validate, run and record.  Each uses
 * what stands above it here, and schedule_cache.c puts them in a line.  Prefix tn__plan_. */
#ifndef TN_RUN_PLAN_H
#define TN_RUN_PLAN_H
#include "ir/constraint.h"
#include "lower/lower.h"
#include "run/order.h"
#include "run/runtime.h"

typedef struct tn__step { /* an item, at the bound sizes */
  int kernel;         /* index in the code, -1: a library call */
  void **ptr;         /* by slot */
  size_t *bytes;
  int64_t *var;       /* values of the kernel's symbolic sizes */
  int *buf;           /* schedule buffer of each slot; -1 - i: own scratch i */
  uint32_t nbuf;
  tn__product product;
  int64_t a_off, b_off; /* elements */
  tn__conv_call conv;
  int64_t conv_off[3];
} tn__step;

/* The plan's work as the device recorded it, for these buffers and sizes. */
typedef struct tn__record {
  uint64_t *key;
  tn__recording *work;
  uint64_t runs, last; /* runs seen, 0: a free slot; when last used */
} tn__record;

/* Inputs that a gradient of an output would reach. */
typedef struct tn__sources {
  const uint32_t *input;
  uint32_t n;
} tn__sources;

struct tn__plan {
  tn__plan *next;
  tn__arena arena;
  int pins;
  tn_node *key;
  tn__nodes kept;             /* every node the plan refers to */
  tn__schedule *s;
  tn__map choices;            /* body -> its tn__choice, once it is chosen; bodies are those of s */
  tn__device *dev;
  tn__code *code;
  tn__kernel **kernel;
  uint32_t nkernels, nout;
  tn__view *view;             /* by output; NULL: no graph was scheduled */
  int *out_buf;               /* by output: the schedule buffer that it stands in, or is seen in; -1 if none */
  tn__vec(const char *) fired; /* names of the rules over the reals that simplified the graph */
  tn__nodes var;
  int64_t *value;             /* bound to var */
  tn__constraint_list needs;  /* of them */
  bool bound;
  bool exponentials;          /* some of its sums are joined by exp(x + y) = exp(x) exp(y): so it is of real numbers */
  bool by_hand;               /* its kernels were written by a user: what is wrong with them is no fault of Tenet's */
  tn__sources *sources;       /* by output; NULL until it is first realised */
  tn__step *step;
  tn__nodes scratch;          /* sizes (elements) of kernels' own buffers */
  tn__vec(uint8_t) scratch_dtype;
  /* of schedule buffers, then of scratch; offsets are those of temporaries in the arena buffer */
  size_t *bytes, *offset;
  int *first, *last;          /* items in which each lives */
  tn__buffer *temp;           /* the arena buffer */
  size_t temp_sum, temp_size;
  tn__record *record;         /* RECORDINGS of them; NULL until it is first replayed */
  uint64_t *now;              /* the key of this run */
  uint64_t clock;
  struct tn__made_of *made_of; /* of recordings, under TENET_VERIFY: received.c */
};

/* ---- compile.c: from a graph to kernels.  All of it may throw. ---- */

tn__plan *tn__plan_new(tn_ctx *c, tn_node *key); /* empty, to be freed */
void tn__plan_schedule(tn_ctx *c, tn__plan *p);  /* simplified and cut into items, p->s */
bool tn__plan_calls(const tn__plan *p, uint32_t item); /* Does the device have a library for the item? */
/* Kernels of all items, each by its variant; variant, or one of them, NULL: as usual. */
void tn__plan_lower(tn_ctx *c, tn__plan *p, const tn__variant *const *variant);
void tn__plan_compile(tn__plan *p);              /* what the device makes of them */
/* literals.c: says once, of a graph compiled again and again with other literals in it, that it is */
void tn__plan_note_literals(tn_ctx *c, tn_node *key);
/* A plan of this item only, lowered, over inputs, one for each of the schedule's buffers.  *out is set first. */
void tn__plan_trial(tn_ctx *c, const tn__plan *p, uint32_t item, const tn__variant *variant, tn__plan **out);

/* ---- tune.c: which variants were measured to be best, now or before, by item; NULL: all as usual ---- */

const tn__variant *const *tn__tune(tn_ctx *c, const tn__plan *p);

/* ---- bind.c: at the values of the symbolic sizes ---- */

void tn__plan_measure(tn_ctx *c, tn__plan *p); /* sizes and places of all buffers */
void tn__plan_bind_call(tn_ctx *c, tn__plan *p, uint32_t i); /* item i's, of a library */
bool tn__plan_in_arena(const tn__plan *p, uint32_t buf);

/* ---- execute.c: where a step's buffer stands; and all steps ---- */

/* Of all buffers: those of the schedule, and behind them scratch. */
static inline uint32_t tn__plan_number(const tn__plan *p, int buf) {
  return buf < 0 ? p->s->bufs.n + (uint32_t)(-1 - buf) : (uint32_t)buf;
}
void *tn__plan_pointer(const tn__plan *p, int buf, tn__buffer *const *in, tn__buffer *const *out);
/* order: while a device records, which items wait for which; else NULL. */
tn_status tn__plan_run_items(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out,
                             const tn__order_item *order);

/* ---- record.c ---- */

void tn__plan_forget(tn__plan *p); /* all recordings */
/* Runs the bound plan, by a recording where the device records. */
tn_status tn__plan_submit(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out);

/* outputs.c: which outputs are seen in others' memory, and how, as comments of a text */
void tn__plan_print_seen(tn_ctx *c, const tn__plan *p, tn__sb *out);

/* validate.c: compares the schedule with its graph (TENET_VERIFY).  Throws TN_ECOMPILE where they differ. */
void tn__plan_validate(tn_ctx *c, tn__plan *p);
/* read_texts.c: reads the printed kernels back, and counts them by result (verify/readback.h).  Throws TN_ECOMPILE
 * where one is not its program.  Returns how many have no text in a language that is read. */
uint32_t tn__plan_read_texts(tn_ctx *c, tn__plan *p, uint32_t *count);
#endif
