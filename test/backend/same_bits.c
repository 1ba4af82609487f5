/* same_bits COUNT: results of random graphs on the cpu in every mode, a line with a number of all their bits for each.
 * tools/check-levels compares what different compilers, at different levels of the processor, make of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/graph.h"
#include "tenet/tenet.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { UNIT = 8 };

static const struct {
  const char *name;
  tn_mode mode;
} modes[] = {{"default", TN_MODE_DEFAULT}, {"strict", TN_MODE_STRICT}, {"fast", TN_MODE_FAST}};

/* Symbolic sizes have programs, other graphs of the same kernels. */
static uint32_t draw(tn_ctx *c, uint64_t *seed, graph *g, uint64_t *from) {
  uint32_t n = 0;
  while (n < UNIT) {
    graph_dice d = {.state = *seed << 8};
    graph_size size = graph_any_size(&d);
    if (!graph_random(c, &d, &size, &g[n])) abort();
    from[n] = (*seed)++;
    if (g[n].var) graph_free(c, &g[n]);
    else n++;
  }
  return n;
}

static bool print_digests(const char *name, tn_mode mode, uint64_t count) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .mode = mode, .quiet = 1});
  bool good = c != NULL;
  for (uint64_t seed = 0; good && seed < count;) {
    graph g[UNIT], *all[UNIT];
    uint64_t from[UNIT], digest[UNIT];
    uint32_t n = draw(c, &seed, g, from);
    for (uint32_t i = 0; i < n; i++) all[i] = &g[i];
    good = graphs_digest(c, all, n, digest);
    for (uint32_t i = 0; i < n && good; i++)
      printf("%s %" PRIu64 " %016" PRIx64 "\n", name, from[i], digest[i]);
    if (!good) fprintf(stderr, "same_bits: %s, graphs to %" PRIu64 ": %s\n", name, seed, tn_last_error(c)->text);
    for (uint32_t i = 0; i < n; i++) graph_free(c, &g[i]);
  }
  if (c) tn_ctx_close(c);
  return good;
}

int main(int argc, char **argv) {
  uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
  bool good = true;
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) good &= print_digests(modes[m].name, modes[m].mode, count);
  return !good;
}
