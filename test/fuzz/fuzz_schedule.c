/* Schedules: the bytes choose a tensor graph and a mode; what the interpreter makes of its optimised kernels is what
 * evaluating the graph node by node gives.  The interpreter checks every access to memory. */
#include "device/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <stdlib.h>

static void close_all(void);
static tn_ctx *contexts[4];

/* Contexts live as long as the process: their caches of schedules are part of what is tested. */
static tn_ctx *context(uint32_t which) {
  if (contexts[which]) return contexts[which];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref",
                                        .mode = which & 1 ? TN_MODE_STRICT : TN_MODE_DEFAULT,
                                        .cache_dir = "",
                                        .threads = 1,
                                        .quiet = 1});
  if (!c) abort();
  tn__device_get(c, 0)->target.interprets = which >> 1 & 1;
  if (!contexts[0] && !contexts[1] && !contexts[2] && !contexts[3]) atexit(close_all);
  return contexts[which] = c;
}

static void close_all(void) {
  for (int i = 0; i < 4; i++) tn_ctx_close(contexts[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  graph_size limits = {.nodes = 24, .outputs = 4, .longest = 100, .elements = 1000};
  graph_dice d = {.at = data, .end = data + size, .state = size};
  tn_ctx *c = context(graph_roll(&d, 4));
  if (graph_roll(&d, 3) == 0) limits.symbolic = 13;
  if (!graph_try(c, &d, &limits, "fuzz_schedule")) abort();
  return 0;
}
