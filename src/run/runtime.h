/* Running: compiled schedules, their cache, realise and replay.  Prefix tn__plan_, tn__run_. */
#ifndef TN_RUN_RUNTIME_H
#define TN_RUN_RUNTIME_H
#include "schedule/schedule.h"
#include "tenet/program.h"
#include "tensor/cell.h"

/* A compiled schedule.  What depends on symbolic sizes is worked out when they are bound, and kept until they change:
 * running again with the same sizes computes and allocates nothing. */
typedef struct tn__plan tn__plan;

/* Graphs that were compiled lately, their literals left out, and how often each was. */
enum { TN__FORMS = 64, TN__TOO_OFTEN = 8 };
struct tn__forms {
  uint64_t form[TN__FORMS];
  int times[TN__FORMS];
  uint32_t n, next;
  bool told;
};

/* Calls of libraries under TENET_VERIFY: elements of the result were as they should be; could not be told; the call was
 * recorded, and had been looked at when it first ran. */
enum { CALLS_RIGHT, CALLS_UNTOLD, CALLS_RECORDED, CALLS };

struct tn__runtime {
  tn__plan *plans;          /* most recently used first */
  int nplans;
  tn_program *programs;     /* all of the context's */
  tn_program *recording;    /* the one being recorded, NULL */
  uint64_t changes;         /* how often a program came to read storages, or was closed */
  struct tn__forms forms;
  int64_t next_placeholder; /* slots of program inputs while they are recorded */
  uint32_t verified[3];     /* schedules compared with their graphs, by verdict, */
  uint32_t twins;           /* of them so many by a smaller twin */
  double spent[2];          /* seconds, under TENET_VERIFY: compiling, and comparing */
  struct tn__received *received; /* the run that is being checked against its schedule, NULL: received.c */
  struct tn__bound_log *bound;  /* runs are noted, NULL: bound_check.h */
  uint32_t stores[3];       /* by turns that may run at once: all, by form, by trying (verify/writers.h) */
  uint32_t accesses[2];     /* loads and stores; those that no interval shows to stay within their buffers */
  uint32_t texts[4];        /* of kernels, read back, by result (verify/readback.h) */
  uint32_t unread;          /* kernels without a text in a language that is read */
  uint32_t calls[CALLS];    /* of libraries, as they ran: received.c */
};

enum { TN__PLACEHOLDER = 1 << 24 }; /* PARAM slots from here on stand for program inputs */

/* Numbers the storages and placeholders below `roots` as PARAMs 0.. in order of first visit; *in receives them.  The
 * result, a SINK, is the cache key: graphs that differ only in their data have the same one.  Throws TN_EDEVICE for
 * roots on different devices. */
tn_node *tn__plan_key(tn_ctx *c, tn_node *const *roots, uint32_t n, tn__nodes *in);
/* So, where the first `views` outputs need not be stored if they can be seen in what is (schedule/views.c). */
tn_node *tn__plan_key_seen(tn_ctx *c, tn_node *const *roots, uint32_t n, uint32_t views, tn__nodes *in);
/* From the cache, or compiled now.  Throws. */
tn__plan *tn__plan_get(tn_ctx *c, tn_node *key);
void tn__plan_pin(tn__plan *p, int by); /* a pinned plan is not evicted */
void tn__plan_free(tn_ctx *c, tn__plan *p);
tn__plan *tn__plan_next(const tn__plan *p);

tn__device *tn__plan_device(const tn__plan *p); /* where it runs: its inputs must be there */
/* The symbolic sizes a plan needs: VAR nodes, in the order of the values given to tn__plan_bind. */
uint32_t tn__plan_vars(const tn__plan *p, tn_node *const **var);
/* Works out all sizes for these values; nothing if they are the ones bound already.  Throws. */
void tn__plan_bind(tn_ctx *c, tn__plan *p, const int64_t *value);
int64_t tn__plan_value(const tn__plan *p, uint32_t var); /* that it is bound to */
/* The inputs that a gradient of output i would reach. */
uint32_t tn__plan_sources(tn__plan *p, uint32_t i, const uint32_t **input);
size_t tn__plan_out_bytes(const tn__plan *p, uint32_t i);
/* Makes *b (NULL, or one that is given up) the buffer of output i: of its own, or that part of an input which it is.
 * Throws. */
void tn__plan_output(const tn__plan *p, uint32_t i, tn__buffer *const *in, tn__buffer **b);
/* The output in whose memory output i stands, or is seen: only for it there is a buffer.  And what output i then is, a
 * movement of what stands in that buffer; only if tn__plan_is_moved(). */
uint32_t tn__plan_lead(const tn__plan *p, uint32_t i);
bool tn__plan_is_moved(const tn__plan *p, uint32_t i);
tn_node *tn__plan_seen(tn_ctx *c, const tn__plan *p, uint32_t i, tn__buffer *b);
void tn__plan_gather(tn_ctx *c, const tn__plan *p, uint32_t i, const tn__buffer *b, void *out); /* so, to the host */
/* Runs the bound plan: in[i] holds PARAM i, out[i] receives output i. */
tn_status tn__plan_run(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out);
/* So, for what is run again and again with the same few buffers: a device that can records the work and submits it at
 * once. */
tn_status tn__plan_replay(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out);

void tn__plan_info(const tn__plan *p, tn_program_info *out);
/* Graph, schedule, kernels as text. */
void tn__plan_print(tn_ctx *c, const tn__plan *p, tn__sb *out);
void tn__kernels_print(tn_ctx *c, const tn__device *d, tn__kernel *const *kernel, uint32_t n, tn__sb *out);

/* A caller's options of `size` bytes as those of this version.  False, with the reason on stderr: they cannot be. */
bool tn__options_take(const tn_options *opt, size_t size, tn_options *out);
/* Adds the GPUs' devices if they are not there yet.  Throws. */
void tn__open_gpus(tn_ctx *c);
/* The index of a device by name, a GPU's too.  Throws TN_EDEVICE with the names there are. */
int tn__find_device(tn_ctx *c, const char *name);

/* Makes the values of these cells STORAGEs, and those of all that was assigned; or theirs alone.  Throws. */
void tn__run_realize(tn_ctx *c, tn_tensor *const *t, int n);
void tn__run_realize_alone(tn_ctx *c, tn_tensor *const *t, int n);
void tn__run_close(tn_ctx *c);
void tn__validate_close(tn_ctx *c); /* validate.c: tells how many schedules were compared */
#endif
