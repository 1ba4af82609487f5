/* From a tensor graph to kernels: range assignment.  Prefix tn__schedule_.
 *
 * Needs a simplified tensor graph whose storages are numbered PARAMs, under a SINK of outputs.  Gives items in an order
 * that respects their dependences, each one kernel body (kernel phase) or one library call, over numbered buffers. */
#ifndef TN_SCHEDULE_SCHEDULE_H
#define TN_SCHEDULE_SCHEDULE_H
#include "device/device.h"
#include "ir/build.h"

/* A reduction over as many elements is worth being shared out where the outputs leave the threads without work
 * (lower/optimise.c): until then it stays in one kernel with what reads it. */
enum { TN__SPLIT_WORK = 1 << 17 };

/* An output holds all the memory that it is a part of, for as long as it is there.  So it stands in an input's only if
 * it is not much less than that: what shares an input is together at least this part of it
 * (what several have in common counts for each). */
enum { TN__LEAST_PART = 8 };

typedef enum tn__buf_kind { BUF_INPUT, BUF_OUTPUT, BUF_TEMP } tn__buf_kind;

typedef struct tn__buf {
  tn__buf_kind kind;
  int slot;        /* PARAM slot of an input; position in the SINK of an output */
  int dtype;
  tn_node *size;   /* elements, an index expression over VARs */
  /* An output that stands in an input's memory, buffer `of`, from element `from` on: no item writes it (shared.c). */
  bool shared;
  int of;
  int64_t from;
} tn__buf;

/* C[b] = A[b] B[b]: the library's matrix product.  Strides are in elements; each is an index expression. */
typedef struct tn__gemm {
  int dtype;
  tn_node *batch, *m, *n, *k;
  struct tn__gemm_operand {
    tn_node *base; /* what stands in memory, contiguous */
    int buf;
    tn_node *offset, *batch_stride, *ld;
    bool trans;
  } a, b;
  int c; /* buffer: [batch, m, n], contiguous */
  int row; /* buffer: [n], added to each row; -1: none */
  tn__after after;
} tn__gemm;

/* A convolution (device.h), by the library as a rule.  Sizes are index expressions. */
typedef struct tn__conv {
  tn__conv_kind kind;
  int dtype;
  bool channels_last;
  bool own; /* by a kernel of products by tiles, not by the library */
  tn_node *size[CONV_DIMS];
  int64_t stride[2], pad[2], dilation[2];
  struct tn__conv_operand {
    tn_node *node;          /* in the graph */
    int8_t axis[4];         /* its axes for the operand's dimensions; -1: none, size 1 */
    tn_node *base, *offset; /* what stands in memory, and where in it the operand begins */
    int buf;
  } operand[3];
} tn__conv;

typedef struct tn__item {
  tn_node *body;          /* SINK of STOREs; PARAM slot i stands for buffer buf[i]; for a library call its reference */
  int *buf;
  uint32_t nbuf;
  uint32_t nout;          /* buf[0..nout-1] are written, the rest is read */
  bool span;              /* it writes one buffer, a span of it, and shares no element with other spans */
  const tn__gemm *gemm;   /* not NULL: a library call */
  const tn__conv *conv;   /* so */
} tn__item;

typedef struct tn__schedule {
  tn__vec(tn__buf) bufs;
  tn__vec(tn__item) items;
  tn_node *text;          /* the schedule as nodes, for dumps */
  uint64_t looked;        /* nodes and kernels that searches for dependences came by */
} tn__schedule;

/* The schedule is in `a`.  turned: copies (CONTIG) that are made by kernels of their own, and lie in memory as their
 * axes say, not as what they are made of does; NULL: there are none. */
tn__schedule *tn__schedule_make(tn_ctx *c, tn__arena *a, tn_node *sink, tn__device *dev, const tn__nodes *turned);
/* prune.c: the same graph, but nothing is computed from tensors without elements. */
tn_node *tn__schedule_prune(tn_ctx *c, tn_node *sink);
bool tn__without_elements(const tn_node *n);
/* views.c: outputs that are movements of what is stored in any case, or of less: they are seen in it. */
typedef struct tn__view {
  uint32_t lead;  /* the output whose memory it is seen in, or it itself */
  tn_node *moved; /* that, over PARAM 0, which is what stands there; NULL: it is what stands there */
  int64_t from;   /* the same in elements: of the first one, and along each axis */
  int64_t *step;
} tn__view;
/* So many of a graph's outputs, the first, may be: its SINK says so, who makes it. */
static inline uint32_t tn__views_of(const tn_node *sink) {
  return sink->nint && sink->ints[0] > 0 && sink->ints[0] <= sink->nsrc ? (uint32_t)sink->ints[0] : 0;
}
/* Of a pruned graph what has to be stored, where the first `views` outputs may be seen in others' memory: *view[i] says
 * how output i is, and source k is what the memory of output *slot[k] holds.  *view is in `a`. */
tn_node *tn__schedule_views(tn_ctx *c, tn__arena *a, tn_node *sink, uint32_t views, tn__view **view, uint32_t **slot);
/* either.c: ... without a choice between two ways to compute the same: the quick one, unless less has to be stored with
 * what the other one is made of. */
tn_node *tn__schedule_either(tn_ctx *c, tn_node *sink);
/* moments.c: a pruned graph, and the same again, where sums of squares about means of rows that no group keeps read
 * these once. */
tn_node *tn__schedule_moments(tn_ctx *c, tn_node *sink, const tn__target *t);
/* exponentials.c: so where sums of exponentials about the greatest element of such rows do. */
tn_node *tn__schedule_exponentials(tn_ctx *c, tn_node *sink, const tn__target *t);
/* shared_sums.c: a pruned graph, and the same again, where sums over and across rows that no group keeps are made of
 * sums that one reading finds, as far as that is possible with the rows' means. */
tn_node *tn__schedule_shared_sums(tn_ctx *c, tn_node *sink, const tn__target *t);
/* turned.c: the same graph again, where operands that lie across what is reduced are copied, by `copies`; the graph
 * itself where there are none. */
tn_node *tn__schedule_turned(tn_ctx *c, tn_node *sink, const tn__target *t, tn__nodes *copies);
/* scatter.c: a pruned graph, and the same again, where what is scattered is added up by many threads, on devices that
 * have them. */
tn_node *tn__schedule_scatters(tn_ctx *c, tn_node *sink, const tn__target *t);
/* On devices of groups permutations that nothing is sent by are what they are made of: where elements are only looked
 * up by them they need not be known as such, and so need not be stored (place.c). */
tn_node *tn__schedule_orders(tn_ctx *c, tn_node *sink, const tn__target *t);
/* touched.c: ... and what is computed of few sums and many others that stay as they are is computed everywhere at once,
 * of what was there before, and stored once more where sums go. */
tn_node *tn__schedule_touched(tn_ctx *c, tn_node *sink, const tn__target *t);
#endif
