/* IDX files: big-endian arrays behind a four-byte magic, often compressed by gzip. */
#include "data/array.h"
#include "data/outfile.h"
#include "tenet/data.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 20, MAX_SIZE_BYTES = 4 * TN_MAX_RANK };

/* The third byte of the magic. */
static const struct { uint8_t code; tn_dtype dtype; } types[] = {
    {0x08, TN_U8}, {0x09, TN_I8}, {0x0B, TN_I16}, {0x0C, TN_I32}, {0x0D, TN_F32}, {0x0E, TN_F64},
};
enum { TYPES = sizeof types / sizeof *types };

/* Big-endian elements to the machine's order, and back. */
static void swap_elements(void *data, size_t bytes, size_t size) {
  char *p = data;
  if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ || size == 1) return;
  for (size_t at = 0; at + size <= bytes; at += size)
    for (size_t i = 0; i < size / 2; i++) {
      char t = p[at + i];
      p[at + i] = p[at + size - 1 - i];
      p[at + size - 1 - i] = t;
    }
}

/* ---- reading ---- */

typedef struct reading {
  const char *path;
  gzFile file;
  char *data; /* grows as the file is read */
  tn_array *out;
} reading;

static _Noreturn void damaged(tn_ctx *c, const reading *r, const char *what) {
  tn__fail(c, TN_EFORMAT, "%s: %s", r->path, what);
}

/* What zlib says, without the path that it puts in front. */
static const char *reason(const reading *r, const char *text) {
  size_t n = strlen(r->path);
  return strncmp(text, r->path, n) || strncmp(text + n, ": ", 2) ? text : text + n + 2;
}

/* Up to n bytes; fewer at the file's end only. */
static size_t read_some(tn_ctx *c, const reading *r, void *into, size_t n) {
  size_t got = 0;
  while (got < n) {
    size_t want = n - got < CHUNK ? n - got : CHUNK;
    int k = gzread(r->file, (char *)into + got, (unsigned)want), why;
    const char *text = gzerror(r->file, &why);
    if (k < 0 || why == Z_BUF_ERROR) { /* Z_BUF_ERROR: the compressed stream stops in the middle */
      if (why == Z_ERRNO) tn__fail(c, TN_EIO, "%s cannot be read: %s", r->path, strerror(errno));
      damaged(c, r, why == Z_BUF_ERROR ? "the compressed data is cut short" : reason(r, text));
    }
    if (k == 0) break;
    got += (size_t)k;
  }
  return got;
}

static void read_header(tn_ctx *c, const reading *r, tn_array *a) {
  uint8_t magic[4], sizes[MAX_SIZE_BYTES];
  if (read_some(c, r, magic, sizeof magic) != sizeof magic || magic[0] || magic[1])
    damaged(c, r, "this is no IDX file");
  int type = 0;
  while (type < TYPES && types[type].code != magic[2]) type++;
  if (type == TYPES) tn__fail(c, TN_EFORMAT, "%s: unknown IDX element type 0x%02x", r->path, magic[2]);
  if (magic[3] > TN_MAX_RANK) tn__fail(c, TN_EFORMAT, "%s: %d axes, of at most %d", r->path, magic[3], TN_MAX_RANK);
  a->dtype = types[type].dtype;
  a->rank = magic[3];
  a->bytes = tn_dtype_size(a->dtype);
  size_t n = 4 * (size_t)a->rank;
  if (read_some(c, r, sizes, n) != n) damaged(c, r, "the header is cut short");
  for (int i = 0; i < a->rank; i++) {
    const uint8_t *s = sizes + 4 * i;
    a->shape[i] = (int64_t)s[0] << 24 | s[1] << 16 | s[2] << 8 | s[3];
    if (__builtin_mul_overflow(a->bytes, (size_t)a->shape[i], &a->bytes))
      damaged(c, r, "the header claims more than memory can hold");
  }
}

/* The header's claim is an upper limit only: memory doubles as data arrives. */
static void read_elements(tn_ctx *c, reading *r, size_t bytes) {
  size_t got = 0, cap = 0;
  while (got < bytes) {
    if (got == cap) {
      cap = cap ? 2 * cap : CHUNK;
      if (cap > bytes) cap = bytes;
      r->data = tn__mem_realloc(&c->mem, r->data, cap);
    }
    size_t k = read_some(c, r, r->data + got, cap - got);
    if (k == 0)
      tn__fail(c, TN_EFORMAT, "%s: cut short: %zu bytes of elements, the header says %zu", r->path, got, bytes);
    got += k;
  }
  char beyond;
  if (read_some(c, r, &beyond, 1)) damaged(c, r, "longer than its header says");
  if (!r->data) r->data = tn__mem_alloc(&c->mem, 1); /* no elements */
}

static void do_read(tn_ctx *c, void *arg) {
  reading *r = arg;
  tn_array a = {0};
  if (!r->path) tn__fail(c, TN_EINVAL, "the path is NULL");
  r->file = gzopen(r->path, "rbe"); /* reads plain files as they are */
  if (!r->file) tn__fail(c, TN_EIO, "%s cannot be opened: %s", r->path, strerror(errno ? errno : ENOMEM));
  gzbuffer(r->file, CHUNK / 4);
  read_header(c, r, &a);
  read_elements(c, r, a.bytes);
  swap_elements(r->data, a.bytes, tn_dtype_size(a.dtype));
  a.data = r->data;
  *r->out = a;
}

tn_status tn_idx_read(tn_ctx *ctx, const char *path, tn_array *out) {
  reading r = {.path = path, .out = out};
  if (!ctx) return TN_EINVAL;
  if (!out) return tn__refuse(ctx, "tn_idx_read", "out is NULL");
  *out = (tn_array){0};
  bool ok = tn__ctx_run(ctx, "tn_idx_read", do_read, &r);
  if (r.file) gzclose(r.file);
  if (ok) return TN_OK;
  tn__mem_free(&ctx->mem, r.data);
  return ctx->failed;
}

void tn_array_free(tn_ctx *ctx, tn_array *array) {
  if (!ctx || !array) return;
  tn__mem_free(&ctx->mem, array->data);
  *array = (tn_array){0};
}

/* ---- writing ---- */

typedef struct writing {
  const char *path;
  const tn_array *array;
  tn__outfile file;
  gzFile zip; /* NULL: plain */
} writing;

static void put(tn_ctx *c, writing *w, const void *data, size_t n) {
  if (!w->zip) {
    tn__outfile_write(c, &w->file, data, n);
    return;
  }
  if (n && gzwrite(w->zip, data, (unsigned)n) != (int)n) tn__outfile_fail(c, &w->file, errno ? errno : EIO);
}

static void put_elements(tn_ctx *c, writing *w, const tn_array *a) {
  size_t size = tn_dtype_size(a->dtype);
  char *chunk = tn__alloc(c, CHUNK);
  for (size_t at = 0; at < a->bytes; at += CHUNK) {
    size_t n = a->bytes - at < CHUNK ? a->bytes - at : CHUNK;
    memcpy(chunk, (const char *)a->data + at, n);
    swap_elements(chunk, n, size);
    put(c, w, chunk, n);
  }
}

static uint8_t type_code(tn_ctx *c, const tn_array *a) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].dtype == a->dtype) return types[i].code;
  tn__fail(c, TN_EDTYPE, "IDX files have no type for %s", tn_dtype_name(a->dtype));
}

static void do_write(tn_ctx *c, void *arg) {
  writing *w = arg;
  const tn_array *a = w->array;
  if (!a) tn__fail(c, TN_EINVAL, "the array is NULL");
  uint8_t head[4 + MAX_SIZE_BYTES] = {0, 0, type_code(c, a), (uint8_t)a->rank};
  tn__array_check(c, a, UINT32_MAX);
  for (int i = 0; i < a->rank; i++)
    for (int b = 0; b < 4; b++) head[4 + 4 * i + b] = (uint8_t)(a->shape[i] >> (24 - 8 * b));
  tn__outfile_open(c, &w->file, w->path);
  size_t n = strlen(w->path);
  if (n > 3 && !strcmp(w->path + n - 3, ".gz")) {
    int fd = fcntl(w->file.fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) tn__outfile_fail(c, &w->file, errno);
    w->zip = gzdopen(fd, "wb9");
    if (!w->zip) {
      close(fd);
      tn__mem_throw(&c->mem, TN_ENOMEM);
    }
  }
  errno = 0;
  put(c, w, head, 4 + 4 * (size_t)a->rank);
  put_elements(c, w, a);
  gzFile zip = w->zip;
  w->zip = NULL;
  if (zip && gzclose(zip) != Z_OK) tn__outfile_fail(c, &w->file, errno ? errno : EIO);
  tn__outfile_commit(c, &w->file);
}

tn_status tn_idx_write(tn_ctx *ctx, const char *path, const tn_array *array) {
  writing w = {.path = path, .array = array, .file = {.fd = -1}};
  if (!ctx) return TN_EINVAL;
  bool ok = tn__ctx_run(ctx, "tn_idx_write", do_write, &w);
  if (w.zip) gzclose(w.zip);
  if (!ok) tn__outfile_discard(ctx, &w.file);
  return ok ? TN_OK : ctx->failed;
}
