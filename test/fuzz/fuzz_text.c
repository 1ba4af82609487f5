/* Kernels and programs written by hand: the bytes draw one, damage it, and run it on the interpreter, as it is and as
 * two kinds of GPU, and compiled for the processor once in a while.  They agree, or say why they do not run it. */
#include "support/hand.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>

enum { CONTEXTS = 4, CPU_EVERY = 64 };

static tn_ctx *context[CONTEXTS];

static void close_all(void) {
  for (int i = 0; i < CONTEXTS; i++) tn_ctx_close(context[i]);
}

static void open_all(void) {
  static const char *const device[CONTEXTS] = {"ref", "ref:sm_90", "ref:opencl", "cpu"};
  for (int i = 0; i < CONTEXTS; i++)
    if (!(context[i] = hand_open(device[i], !i, ""))) abort();
  atexit(close_all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  graph_dice d = {.at = data, .end = data + size, .state = size};
  hand_tally tally = {0};
  char why[1000] = "";
  if (!context[0]) open_all();
  char *drawn = hand_draw(context[graph_roll(&d, 3)], &d);
  if (!drawn) return 0;
  char *text = hand_damage(&d, drawn);
  int n = graph_roll(&d, CPU_EVERY) ? CONTEXTS - 1 : CONTEXTS;
  if (!hand_agree(context, n, &d, text, &tally, why, sizeof why)) {
    fprintf(stderr, "fuzz_text: %s\n%s", why, text);
    abort();
  }
  free(text);
  free(drawn);
  return 0;
}
