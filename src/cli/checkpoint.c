/* Saving and resuming a training run. */
#include "cli/checkpoint.h"
#include "ir/ctx.h"
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, TEXT = 24 };

static const char state_prefix[] = "optim.";

/* The numbers of a run, by name. */
static const struct { const char *key; size_t offset;
} fields[] = {
    {"epochs", offsetof(tn__run, epochs)}, {"batch", offsetof(tn__run, batch)}, {"seed", offsetof(tn__run, seed)},
    {"rows", offsetof(tn__run, rows)},     {"total", offsetof(tn__run, total)}, {"epoch", offsetof(tn__run, epoch)},
    {"step", offsetof(tn__run, step)},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int64_t *field(tn__run *run, int i) { return (int64_t *)(void *)((char *)run + fields[i].offset); }

bool tn__checkpoint_save(tn_ctx *ctx, const char *path, const tn__run *run, tn_params *params, tn_optim *opt) {
  tn_params *state = tn_optim_state(opt);
  tn__run copy = *run;
  const char *name[2 * MOST];
  tn_tensor *tensor[2 * MOST];
  char state_name[MOST][96], text[FIELDS + 2][TEXT];
  tn_meta meta[FIELDS + 3] = {{"model", run->model}};
  int n = tn_params_count(params), m = tn_params_count(state);
  if (n > MOST || m > MOST) return false;
  for (int i = 0; i < n; i++) {
    name[i] = tn_params_names(params)[i];
    tensor[i] = tn_params_tensors(params)[i];
  }
  for (int i = 0; i < m; i++) {
    snprintf(state_name[i], sizeof state_name[i], "%s%s", state_prefix, tn_params_names(state)[i]);
    name[n + i] = state_name[i];
    tensor[n + i] = tn_params_tensors(state)[i];
  }
  uint64_t rng[2];
  tn_rng_get_state(ctx, &rng[0], &rng[1]);
  for (int i = 0; i < FIELDS; i++) {
    snprintf(text[i], TEXT, "%" PRId64, *field(&copy, i));
    meta[1 + i] = (tn_meta){fields[i].key, text[i]};
  }
  for (int i = 0; i < 2; i++) {
    snprintf(text[FIELDS + i], TEXT, "%" PRIu64, rng[i]);
    meta[1 + FIELDS + i] = (tn_meta){i ? "rng_calls" : "rng_seed", text[FIELDS + i]};
  }
  return tn_save_safetensors(ctx, path, n + m, name, tensor, FIELDS + 3, meta) == TN_OK;
}

static bool read_number(const tn_file *f, const char *key, bool is_signed, uint64_t *out) {
  const char *s = tn_file_metadata(f, key);
  char *end;
  if (!s || !*s) return false;
  errno = 0;
  *out = is_signed ? (uint64_t)strtoll(s, &end, 10) : strtoull(s, &end, 10);
  return !*end && !errno;
}

tn_file *tn__checkpoint_open(tn_ctx *ctx, const char *path, tn__run *run) {
  tn_file *f = tn_load_safetensors(ctx, path);
  const char *model = tn_file_metadata(f, "model");
  bool ok = f && model && strlen(model) < sizeof run->model;
  if (ok) strcpy(run->model, model);
  for (int i = 0; ok && i < FIELDS; i++) {
    uint64_t v;
    ok = read_number(f, fields[i].key, true, &v);
    if (ok) *field(run, i) = (int64_t)v;
  }
  if (ok) ok = run->batch > 0 && run->rows > 0 && run->step >= 0 && run->total >= run->step && run->epoch >= 0;
  if (ok) return f;
  if (f) tn__error(ctx, TN_EFORMAT, "%s is no checkpoint of a training run", path);
  tn_file_close(f);
  return NULL;
}

static bool restore_list(tn_file *f, const char *prefix, tn_params *list) {
  char name[96];
  for (int i = 0; i < tn_params_count(list); i++) {
    snprintf(name, sizeof name, "%s%s", prefix, tn_params_names(list)[i]);
    if (tn_file_read(f, name, tn_params_tensors(list)[i]) != TN_OK) return false;
  }
  return true;
}

bool tn__checkpoint_restore(tn_ctx *ctx, tn_file *f, tn_params *params, tn_optim *opt) {
  uint64_t seed, calls;
  if (!restore_list(f, "", params) || !restore_list(f, state_prefix, tn_optim_state(opt))) return false;
  if (read_number(f, "rng_seed", false, &seed) && read_number(f, "rng_calls", false, &calls))
    return tn_rng_set_state(ctx, seed, calls) == TN_OK;
  tn__error(ctx, TN_EFORMAT, "the checkpoint lacks the random generator's state");
  return false;
}
