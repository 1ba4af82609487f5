/* What compiled programs cost, counted and not timed, so that it is the same on every machine: a compiler that fuses
 * less, masks what it need not mask or takes smaller vectors gives the right values, and no check objects.  Prefix
 * cost_.
 *
 * Symbolic sizes count as the largest, and bounds that depend on other loops, too.  What a loop over lanes computes
 * counts once for each vector of 64 bytes; on devices with work groups once for each thread. */
#ifndef TEST_SUPPORT_COST_H
#define TEST_SUPPORT_COST_H
#include "device/device.h"
#include "render/render.h"

typedef enum cost_figure {
  COST_KERNELS,   /* compiled */
  COST_LAUNCHES,  /* of kernels, also by replays */
  COST_SUBMITTED, /* what the device is asked for: launches, calls, and replays of recordings at once */
  COST_RECORDED,  /* recordings made, */
  COST_WAITS,     /* and in them, how often one item waits for another */
  COST_CALLS,     /* of libraries, so, */
  COST_CALLED,    /* and the multiplications in them */
  COST_WORK,      /* of all threads: instructions, by the price of their op, and turns of loops */
  COST_PATH,      /* so, of one thread, where as many groups or slices as there are processors run side by side */
  COST_READ,      /* bytes of buffers */
  COST_WRITTEN,
  COST_LOCAL,     /* bytes of scratch memory, of all kernels */
  COST_BARRIERS,  /* of all groups */
  COST_LINES,     /* of all text that is compiled, ir/math.inc as one, math_f64.inc too: an op more moves no figure */
  COST_TEXT,      /* words and operators of the kernels' text, a helper's call as some, by their loops' turns */
  COST_MEMORY,    /* bytes of buffers that there were at once */
  COST_FIGURES
} cost_figure;

typedef struct cost {
  double of[COST_FIGURES];
} cost;

extern const char *const cost_name[COST_FIGURES];

/* One launch of it: COST_WORK to COST_BARRIERS are added. */
void cost_of_kernel(const tn__target *t, const tn__kernel *k, cost *sum);
/* The same of its text: that of the unit that it stands in. */
double cost_of_text(tn_ctx *c, const char *unit, const tn__kernel *k);
/* COST_LINES of a unit. */
double cost_lines(const char *unit);

/* The device prints what it compiles, calls libraries of products and convolutions if `library`, and runs nothing; what
 * it is asked for is counted, which cost_taken() gives and forgets.  One device at a time, the context closed before
 * the next. */
void cost_watch(tn__device *d, bool library);
cost cost_taken(void);
#endif
