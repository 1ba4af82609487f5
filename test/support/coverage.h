/* What random graphs have reached: ops by dtype in graphs, ops in kernels, the optimiser's steps (the notes in kernels'
 * head comments), library calls.  Counts of this process, as lines "kind name count" that tools/fuzz-graphs
 * adds up. */
#ifndef TEST_SUPPORT_COVERAGE_H
#define TEST_SUPPORT_COVERAGE_H
#include "device/device.h"
#include "lower/lower.h"
#include "support/graph.h"
#include <stdio.h>

void coverage_count(const char *kind, const char *name, uint64_t by);
uint64_t coverage_of(const char *kind, const char *name);
void coverage_graph(tn_ctx *c, const graph *g);
/* What the device compiles and calls from now on; one device at a time, the context closed before the next. */
void coverage_watch(tn__device *d);
/* A graph on a device whose usual variant is v: does it agree, validated, and is this step taken?  Else why says so. */
bool coverage_takes(const char *device, const tn__variant *v, const char *step, const char *text, bool plain, char *why,
                    size_t size);
void coverage_print(FILE *f);
/* Ops of the tensor phase that no graph has had, as lines; how many. */
uint32_t coverage_missing_ops(FILE *f);
#endif
