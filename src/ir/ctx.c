/* Where errors are recorded and caught, and the context's public queries.  tn_ctx_open() and tn_ctx_close() stand in
 * run/, which knows every part of a context. */
#include "ir/ctx.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ---- */

/* Length of the UTF-8 sequence at s; 0: it is none (shortest forms only, no surrogates). */
static int sequence(const unsigned char *s) {
  static const struct {
    unsigned char from, to, second_from, second_to, length;
  } first[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
               {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
               {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
    if (s[0] < first[i].from || s[0] > first[i].to) continue;
    int n = first[i].length;
    if (n > 1 && (s[1] < first[i].second_from || s[1] > first[i].second_to)) return 0;
    for (int k = 2; k < n; k++)
      if (s[k] < 0x80 || s[k] > 0xbf) return 0;
    return n;
  }
  return 0;
}

/* Names come from callers, and a text may be cut short: what is not UTF-8 becomes '?'. */
static void make_utf8(char *text) {
  for (unsigned char *s = (unsigned char *)text; *s;) {
    int n = sequence(s);
    if (!n) *s = '?';
    s += n ? n : 1;
  }
}

static void record(tn_ctx *c, tn_status status, const char *fmt, va_list ap) {
  c->failed = status;
  if (c->err.status != TN_OK) return; /* the first one is the cause; what follows is its consequence */
  const char *op = c->api ? c->api : "";
  snprintf(c->err_op, sizeof c->err_op, "%s", op);
  int n = snprintf(c->err_text, sizeof c->err_text, "%s%s", op, *op ? ": " : "");
  size_t at = n < 0 ? 0 : (size_t)n;
  if (at < sizeof c->err_text) vsnprintf(c->err_text + at, sizeof c->err_text - at, fmt, ap);
  make_utf8(c->err_text);
  c->err = (tn_error){.status = status, .text = c->err_text, .op = c->err_op};
}

void tn__error(tn_ctx *c, tn_status status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  record(c, status, fmt, ap);
  va_end(ap);
}

const char *tn__error_words(const tn_ctx *c) {
  size_t n = strlen(c->err.op);
  bool said = n && !strncmp(c->err.text, c->err.op, n) && !strncmp(c->err.text + n, ": ", 2);
  return c->err.text + (said ? n + 2 : 0);
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
    tn__intern_sweep(c, 0);
    tn__arena_reset(&c->scratch);
  }
  return ok;
}

tn__work tn__work_begin(tn_ctx *c) {
  return (tn__work){.scratch = tn__arena_mark(&c->scratch), .nodes = tn__intern_nursery(c)};
}

void tn__work_end(tn_ctx *c, tn__work w) {
  tn__intern_sweep(c, w.nodes);
  tn__arena_rewind(&c->scratch, w.scratch);
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

#define STATUS(name, text) {name, #name, text}
static const status_info statuses[] = {
    STATUS(TN_OK, "success"),
    STATUS(TN_EINVAL, "invalid argument"),
    STATUS(TN_ESHAPE, "shapes do not fit"),
    STATUS(TN_EDTYPE, "dtypes do not fit"),
    STATUS(TN_EDEVICE, "devices do not fit, or the device is missing"),
    STATUS(TN_ENOMEM, "out of memory"),
    STATUS(TN_ECOMPILE, "kernel compilation failed"),
    STATUS(TN_EIO, "file input or output failed"),
    STATUS(TN_EFORMAT, "damaged or unsupported file"),
    STATUS(TN_EBOUND, "a symbolic size is out of its bounds or breaks a constraint"),
    STATUS(TN_EGRAD, "not differentiable"),
    STATUS(TN_ESTATE, "not allowed in this state"),
    STATUS(TN_ENOTSUP, "not supported"),
    STATUS(TN_ERUN, "a kernel failed while running"),
};

static const status_info *find_status(tn_status status) {
  static const status_info unknown = {TN_OK, "?", "unknown status"};
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (statuses[i].status == status) return &statuses[i];
  return &unknown;
}

const char *tn_status_name(tn_status status) { return find_status(status)->name; }
const char *tn_status_text(tn_status status) { return find_status(status)->text; }
const char *tn_version(void) { return TENET_VERSION; }
int tn_version_number(void) { return TN_VERSION; }

void tn_ctx_stats_sized(const tn_ctx *ctx, tn_stats *out, size_t size) {
  tn_stats all = {0};
  if (!out) return;
  if (ctx) {
    all = ctx->stats;
    all.heap_bytes = ctx->mem.live;
    all.heap_peak = ctx->mem.peak;
  }
  memset(out, 0, size);
  memcpy(out, &all, size < sizeof all ? size : sizeof all);
}

/* As version 0.1 had it, for those that were compiled for that */
void(tn_ctx_stats)(const tn_ctx *ctx, tn_stats *out) {
  tn_ctx_stats_sized(ctx, out, offsetof(tn_stats, pool_bytes) + sizeof out->pool_bytes);
}

/* ---- strings for callers ---- */

/* Not of the context's heap: the caller may outlive it. */
char *tn__string_out(tn_ctx *c, const char *text) {
  char *s = strdup(text);
  if (!s) tn__fail(c, TN_ENOMEM, "no memory for a text of %zu bytes", strlen(text));
  return s;
}

void tn_string_free(char *string) { free(string); }
