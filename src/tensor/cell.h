/* The inside of a handle, scopes, and the front end's one way in.  Prefix tn__cell_, tn__build. */
#ifndef TN_TENSOR_CELL_H
#define TN_TENSOR_CELL_H
#include "ir/build.h"
#include "tenet/tensor.h"
#include <stdatomic.h>

enum { TN__CELL_MAGIC = 0x74656e31, TN__CELL_ENDED = 0x656e6431 };

struct tn_tensor {
  uint32_t magic;         /* TN__CELL_MAGIC, once it has ended TN__CELL_ENDED: tells a handle from a stray pointer */
  uint32_t refs;
  tn_ctx *ctx;
  tn_node *node;          /* the value; counted; rebound by assign and realise */
  tn_tensor *base;        /* slices of a realised tensor: the cell that assigning to the slice rebinds; counted */
  /* with base: the slice as a chain of movements over a PARAM that stands for base's value; counted */
  tn_node *view;
  tn_tensor *prev, *next; /* list of the owning scope */
  struct tn__scope *scope;
  atomic_uint given_back; /* releases asked for by tn_release() and not yet done */
  tn_tensor *queued;      /* next in the queue of such handles; valid while given_back > 0 */
  bool held;              /* its last reference is the recording's */
  bool recorded;          /* made while a program is recorded that has not ended */
};

/* Makes a handle in the innermost scope; throws TN_ENOMEM. */
tn_tensor *tn__cell_new(tn_ctx *c, tn_node *node);
void tn__cell_set(tn_tensor *t, tn_node *node); /* rebinds, counting */
tn_node *tn__cell_view(tn_ctx *c, const tn_tensor *t, tn_node *base); /* with base: the slice of this value of it */
void tn__cells_open(tn_ctx *c);
void tn__cells_close(tn_ctx *c);
void tn__cells_drain(tn_ctx *c); /* handles released by other threads */
/* The context of a handle, ended or not; NULL for NULL and stray pointers. */
tn_ctx *tn__cell_ctx(const tn_tensor *t);
/* The same of a live one.  Of one that has ended NULL, and the error is recorded, naming the public function `api`. */
tn_ctx *tn__cell_use(const tn_tensor *t, const char *api);
/* Why t is no tensor that a call in c can use, to be put behind its name in a message: "has ended: ..."; NULL if it is
 * one. */
const char *tn__cell_fault(const tn_ctx *c, const tn_tensor *t);
void tn__cells_each(tn_ctx *c, void (*fn)(tn_ctx *, tn_tensor *, void *), void *arg); /* every live handle */
/* While a program is recorded, a cell that was assigned outlives its handle: it is the program's state.  On or off; off
 * lets them go. */
void tn__cells_hold(tn_ctx *c, bool on);

/* One call of the front end.  The builder makes a node from nodes; tn__build checks the operands (NULL, stray, mixed
 * contexts), runs it with errors caught, and wraps the result.  `name` is the public function's. */
typedef struct tn__call tn__call;
struct tn__call {
  const char *name;
  tn_node *(*fn)(tn_ctx *c, tn__call *k);
  tn_ctx *ctx;            /* needed only where there is no operand */
  tn_tensor *const *in;
  int nin;
  tn_node *x[4];          /* operands' nodes, the first four, set by tn__build; others through in[i]->node */
  const int64_t *ints;    /* axes, sizes, ... */
  int nints;
  int64_t i[6];           /* small integer parameters */
  double f[4];            /* float parameters */
  const void *p, *data;   /* anything else; an array of the caller's */
  bool view;              /* the result is a movement of in[0] that tn_assign() can write through */
  tn_tensor *out;         /* set by tn__build */
};
tn_tensor *tn__build(tn__call *k);
tn_status tn__do(tn__call *k); /* the same checks, for a builder that acts and returns NULL */
/* One of several results after the other, i[0] says which: those with a place in out, all of them or none.  `data` is
 * where one goes; NULL, for a builder that refuses it, if none has a place. */
enum { TN__RESULTS = 4 }; /* at most */
tn_status tn__do_each(tn__call *k, tn_tensor **const *out, int n);

/* Sizes at the API: plain or symbolic. */
tn_node *tn__dim_in(tn_ctx *c, tn_dim d);        /* throws TN_EINVAL for a value that is neither */
tn_dim tn__dim_out(tn_ctx *c, tn_node *n);       /* plain where constant */
#endif
