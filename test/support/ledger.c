#include "support/ledger.h"
#include "support/programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct guise {
  const char *device;
  tn_mode mode;
  bool library;
  const char *text;
} guises[] = {{"ref", TN_MODE_DEFAULT, false, "ref"},
              {"ref:cpu", TN_MODE_DEFAULT, true, "cpu, library"},
              {"ref:cpu", TN_MODE_STRICT, false, "cpu, strict"},
              {"ref:cpu", TN_MODE_FAST, false, "cpu, fast"},
              {"ref:opencl", TN_MODE_DEFAULT, false, "opencl"},
              {"ref:sm_90", TN_MODE_DEFAULT, false, "sm_90"},
              {"ref:sm_80", TN_MODE_FAST, true, "sm_80, fast, library"},
              {"ref:sm_80", TN_MODE_STRICT, false, "sm_80, strict"}};
enum { GUISES = sizeof guises / sizeof *guises, VECTOR_BYTES = 64 };

/* A context of its own for each, so that none hangs on what was before it. */
static void add_line(const struct guise *g, int at, void (*take)(void *to, const ledger_line *line), void *to) {
  ledger_line l = {0};
  char why[512];
  graph random;
  tn_ctx *c = tn_ctx_open(&(tn_options){
      .device = g->device, .mode = g->mode, .quiet = 1, .verify = "0", .cache_dir = "", .threads = 2});
  if (!c) {
    snprintf(l.name, sizeof l.name, "%s", g->text);
    snprintf(l.error, sizeof l.error, "%s cannot be opened", g->device);
    take(to, &l);
    return;
  }
  tn__device *d = tn__device_get(c, tn__device_find(c, g->device));
  c->vector_bytes = VECTOR_BYTES;
  cost_watch(d, g->library);
  if (at < program_count) {
    snprintf(l.name, sizeof l.name, "%s: %s", g->text, program_list[at].name);
    program_run(c, &program_list[at], NULL);
  } else {
    snprintf(l.name, sizeof l.name, "%s: graph %d", g->text, at - program_count);
    if (program_random(c, (uint64_t)(at - program_count), &random)) {
      graph_run(c, &random, why, sizeof why);
      graph_free(c, &random);
    }
  }
  if (tn_last_error(c)->status != TN_OK) snprintf(l.error, sizeof l.error, "%s", tn_last_error(c)->text);
  for (char *s = l.error; *s; s++)
    if (*s == '\n' || *s == '|') *s = ' ';
  l.cost = cost_taken();
  tn_ctx_close(c);
  take(to, &l);
}

void ledger_make(bool random, void (*take)(void *to, const ledger_line *line), void *to) {
  for (int g = 0; g < GUISES; g++)
    for (int i = 0; i < program_count + (random ? PROGRAM_GRAPHS : 0); i++) add_line(&guises[g], i, take, to);
}

void ledger_print(const ledger_line *l, char *out, size_t size) {
  int n = snprintf(out, size, "%s|", l->name);
  for (int f = 0; f < COST_FIGURES && n >= 0 && (size_t)n < size; f++)
    n += snprintf(out + n, size - (size_t)n, "%s%.0f", f ? " " : "", l->cost.of[f]);
}

bool ledger_read(const char *text, ledger_line *out) {
  const char *at = strchr(text, '|');
  *out = (ledger_line){0};
  if (!at || (size_t)(at - text) >= sizeof out->name) return false;
  memcpy(out->name, text, (size_t)(at - text));
  for (int f = 0; f < COST_FIGURES; f++) {
    char *end;
    out->cost.of[f] = strtod(at + 1, &end);
    if (end == at + 1) return false;
    at = end;
  }
  return *at == '\n' || !*at;
}
