/* Where errors are recorded and caught, and the context's public queries.  tn_ctx_open() and tn_ctx_close() stand in
 * run/, which knows every part of a context. */
#include "ir/ctx.h"
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

static void record(tn_ctx *c, tn_status status, const char *fmt, va_list ap) {
  c->failed = status;
  if (c->err.status != TN_OK) return; /* the first one is the cause; what follows is its consequence */
  const char *op = c->api ? c->api : "";
  snprintf(c->err_op, sizeof c->err_op, "%s", op);
  int n = snprintf(c->err_text, sizeof c->err_text, "%s%s", op, *op ? ": " : "");
  size_t at = n < 0 ? 0 : (size_t)n;
  if (at < sizeof c->err_text) vsnprintf(c->err_text + at, sizeof c->err_text - at, fmt, ap);
  c->err = (tn_error){.status = status, .text = c->err_text, .op = c->err_op};
}

void tn__error(tn_ctx *c, tn_status status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  record(c, status, fmt, ap);
  va_end(ap);
}

void tn__fail(tn_ctx *c, tn_status status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  record(c, status, fmt, ap);
  va_end(ap);
  tn__mem_throw(&c->mem, status);
}

tn_status tn__refuse(tn_ctx *c, const char *api, const char *fmt, ...) {
  const char *running = c->api;
  va_list ap;
  va_start(ap, fmt);
  if (c->depth == 0) c->api = api;
  record(c, TN_EINVAL, fmt, ap);
  c->api = running;
  va_end(ap);
  return TN_EINVAL;
}

typedef struct call {
  tn_ctx *ctx;
  void (*fn)(tn_ctx *, void *);
  void *arg;
} call;

static void invoke(void *p) {
  const call *k = p;
  k->fn(k->ctx, k->arg);
}

bool tn__ctx_run(tn_ctx *c, const char *api, void (*fn)(tn_ctx *, void *), void *arg) {
  call k = {c, fn, arg};
  tn_status status = TN_OK;
  if (c->depth == 0) c->api = api; /* messages name what the caller called, not what that is made of */
  c->depth++;
  bool ok = tn__mem_try(&c->mem, invoke, &k, &status);
  c->depth--;
  if (!ok) tn__error(c, status, "%s", tn_status_text(status)); /* thrown without words: out of memory */
  if (c->depth == 0) {
    c->api = NULL;
    tn__intern_sweep(c);
    tn__arena_reset(&c->scratch);
  }
  return ok;
}

const tn_error *tn_last_error(const tn_ctx *ctx) {
  static const tn_error no_context = {TN_EINVAL, "there is no context", ""}, none = {TN_OK, "", ""};
  if (!ctx) return &no_context;
  return ctx->err.status == TN_OK ? &none : &ctx->err;
}

void tn_clear_error(tn_ctx *ctx) {
  if (!ctx) return;
  ctx->err = (tn_error){TN_OK, "", ""};
  ctx->failed = TN_OK;
}

/* ---- statuses, version, counters ---- */

typedef struct status_info {
  tn_status status;
  const char *name, *text;
} status_info;

static const status_info *find_status(tn_status status) {
  static const status_info unknown = {TN_OK, "?", "unknown status"};
  static const status_info list[] = {
#define STATUS_INFO(name, value, text) {TN_##name, "TN_" #name, text},
      TN_STATUS_MAP(STATUS_INFO)
#undef STATUS_INFO
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].status == status) return &list[i];
  return &unknown;
}

const char *tn_status_name(tn_status status) { return find_status(status)->name; }
const char *tn_status_text(tn_status status) { return find_status(status)->text; }
const char *tn_version(void) { return TENET_VERSION; }

void tn_ctx_stats(const tn_ctx *ctx, tn_stats *out) {
  if (!out) return;
  memset(out, 0, sizeof *out);
  if (!ctx) return;
  *out = ctx->stats;
  out->heap_bytes = ctx->mem.live;
  out->heap_peak = ctx->mem.peak;
}
