/* Safetensors: a JSON header that names slices of the bytes behind it. */
#include "data/outfile.h"
#include "tenet/io.h"
#include "tenet/tensor.h"
#include "tensor/cell.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the file's elements are little-endian, and copied as they are");

/* Headers of the largest models take a few MB; parsing takes a small multiple of that. */
enum { LENGTH_BYTES = 8, MAX_HEADER = 32 << 20, ALIGN = 8 };

static const char metadata_key[] = "__metadata__";

static const char *const dtype_names[TN_DTYPE_COUNT] = {
    [TN_BOOL] = "BOOL", [TN_I8] = "I8",   [TN_I16] = "I16", [TN_I32] = "I32", [TN_I64] = "I64",
    [TN_U8] = "U8",     [TN_U16] = "U16", [TN_U32] = "U32", [TN_U64] = "U64", [TN_F16] = "F16",
    [TN_BF16] = "BF16", [TN_F32] = "F32", [TN_F64] = "F64",
};

/* ---- reading ---- */

typedef struct entry {
  const char *name;
  tn_dtype dtype;
  int rank;
  tn_dim shape[TN_MAX_RANK];
  uint64_t begin, end; /* in the data */
} entry;

struct tn_file {
  tn__object object;
  tn__arena arena;
  int fd;
  const char *path;
  json_t *header; /* owns the strings */
  entry *entry;   /* ascending */
  int n;
  uint64_t data, size; /* where the data begins; its size */
};

static _Noreturn void bad(tn_ctx *c, const tn_file *f, const char *name, const char *what) {
  tn__fail(c, TN_EFORMAT, "%s: tensor '%s': %s", f->path, name, what);
}

static void read_at(tn_ctx *c, const tn_file *f, void *into, uint64_t n, uint64_t at) {
  for (char *p = into; n;) {
    ssize_t k = pread(f->fd, p, n, (off_t)at);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) tn__fail(c, TN_EIO, "%s cannot be read: %s", f->path, strerror(errno));
    if (k == 0) tn__fail(c, TN_EFORMAT, "%s became shorter while it was read", f->path);
    p += k;
    n -= (uint64_t)k;
    at += (uint64_t)k;
  }
}

/* Opens the file, checks that the header is as long as it says, and parses it. */
static void read_header(tn_ctx *c, tn_file *f) {
  struct stat st;
  uint8_t length[LENGTH_BYTES];
  uint64_t n = 0;
  f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0 || fstat(f->fd, &st) != 0) tn__fail(c, TN_EIO, "%s cannot be opened: %s", f->path, strerror(errno));
  if (!S_ISREG(st.st_mode)) tn__fail(c, TN_EIO, "%s is no regular file", f->path);
  uint64_t size = (uint64_t)st.st_size;
  if (size < LENGTH_BYTES) tn__fail(c, TN_EFORMAT, "%s is too short for a safetensors file", f->path);
  read_at(c, f, length, LENGTH_BYTES, 0);
  for (int i = LENGTH_BYTES; i && i--;) n = n << 8 | length[i];
  if (n > size - LENGTH_BYTES)
    tn__fail(c, TN_EFORMAT, "%s claims a header of %llu bytes, but has only %llu", f->path, (unsigned long long)n,
             (unsigned long long)size);
  if (n > MAX_HEADER)
    tn__fail(c, TN_EFORMAT, "%s: a header of %llu bytes is longer than the %d allowed", f->path, (unsigned long long)n,
             MAX_HEADER);
  char *text = tn__alloc(c, n + 1);
  read_at(c, f, text, n, LENGTH_BYTES);
  json_error_t error;
  if (n && text[0] == '{') f->header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  else snprintf(error.text, sizeof error.text, "it does not start with '{'");
  if (!f->header) tn__fail(c, TN_EFORMAT, "%s: the header is not valid: %s", f->path, error.text);
  f->data = LENGTH_BYTES + n;
  f->size = size - f->data;
}

static uint64_t get_uint(tn_ctx *c, const tn_file *f, const char *name, const json_t *v, const char *what) {
  if (!json_is_integer(v) || json_integer_value(v) < 0) bad(c, f, name, what);
  return (uint64_t)json_integer_value(v);
}

static tn_dtype get_dtype(tn_ctx *c, const tn_file *f, const char *name, const json_t *v) {
  const char *s = json_string_value(v);
  if (!s) bad(c, f, name, "no dtype");
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (!strcmp(s, dtype_names[d])) return (tn_dtype)d;
  tn__fail(c, TN_EFORMAT, "%s: tensor '%s': unknown dtype '%.32s'", f->path, name, s);
}

static entry read_entry(tn_ctx *c, const tn_file *f, const char *name, json_t *v) {
  const json_t *shape = json_object_get(v, "shape"), *offsets = json_object_get(v, "data_offsets");
  entry e = {.name = name};
  if (json_object_size(v) != 3 || !json_is_array(shape) || json_array_size(offsets) != 2)
    bad(c, f, name, "it must have dtype, shape, two data_offsets, and nothing else");
  e.dtype = get_dtype(c, f, name, json_object_get(v, "dtype"));
  if (json_array_size(shape) > TN_MAX_RANK) bad(c, f, name, "too many axes");
  e.rank = (int)json_array_size(shape);
  uint64_t bytes = tn_dtype_size(e.dtype);
  for (int i = 0; i < e.rank; i++) {
    uint64_t n = get_uint(c, f, name, json_array_get(shape, (size_t)i), "a size is not a natural number");
    e.shape[i] = (tn_dim)n;
    if (__builtin_mul_overflow(bytes, n, &bytes)) bad(c, f, name, "its size overflows");
  }
  e.begin = get_uint(c, f, name, json_array_get(offsets, 0), "an offset is not a natural number");
  e.end = get_uint(c, f, name, json_array_get(offsets, 1), "an offset is not a natural number");
  if (e.begin > e.end || e.end > f->size) bad(c, f, name, "its offsets are outside of the file");
  if (e.end - e.begin != bytes) bad(c, f, name, "its offsets do not fit its shape and dtype");
  return e;
}

static void check_metadata(tn_ctx *c, const tn_file *f, json_t *v) {
  const char *key;
  json_t *value;
  if (!json_is_object(v)) tn__fail(c, TN_EFORMAT, "%s: the metadata is no object", f->path);
  json_object_foreach(v, key, value) {
    if (!json_is_string(value)) tn__fail(c, TN_EFORMAT, "%s: metadata '%s' is no string", f->path, key);
  }
}

static int by_place(const void *x, const void *y) {
  const entry *a = x, *b = y;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1; /* empty ones first */
  return strcmp(a->name, b->name);
}

static void read_entries(tn_ctx *c, tn_file *f) {
  const char *name;
  json_t *v;
  f->entry = tn__arena_alloc(&f->arena, (json_object_size(f->header) + 1) * sizeof *f->entry);
  json_object_foreach(f->header, name, v) {
    if (!strcmp(name, metadata_key)) check_metadata(c, f, v);
    else f->entry[f->n++] = read_entry(c, f, name, v);
  }
  qsort(f->entry, (size_t)f->n, sizeof *f->entry, by_place);
  uint64_t at = 0;
  for (int i = 0; i < f->n; at = f->entry[i++].end)
    if (f->entry[i].begin != at)
      bad(c, f, f->entry[i].name, f->entry[i].begin < at ? "it overlaps another" : "there is a gap before it");
  if (at != f->size)
    tn__fail(c, TN_EFORMAT, "%s: its tensors take %llu bytes, but %llu are there", f->path, (unsigned long long)at,
             (unsigned long long)f->size);
}

typedef struct loading {
  const char *path;
  tn_file *f;
} loading;

static void end(void *file) {
  tn_file *f = file;
  if (f->fd >= 0) close(f->fd);
  json_decref(f->header);
  tn__arena_free(&f->arena);
}

static void do_load(tn_ctx *c, void *arg) {
  loading *k = arg;
  if (!k->path) tn__fail(c, TN_EINVAL, "the path is NULL");
  tn_file *f = k->f = tn__object_new(c, TN__FILE, sizeof *f, end);
  f->fd = -1;
  tn__arena_init(&f->arena, &c->mem);
  f->path = tn__arena_strdup(&f->arena, k->path);
  read_header(c, f);
  read_entries(c, f);
}

tn_file *tn_load_safetensors(tn_ctx *ctx, const char *path) {
  loading k = {.path = path};
  if (!ctx) return NULL;
  if (tn__ctx_run(ctx, "tn_load_safetensors", do_load, &k)) return k.f;
  tn__object_discard(k.f);
  return NULL;
}

static bool is_open(const tn_file *f, const char *api) { return tn__object_use(f, TN__FILE, api) != NULL; }

void tn_file_close(tn_file *f) {
  tn__object_close_by_caller(f, TN__FILE, "tn_file_close");
}

int tn_file_count(const tn_file *f) { return is_open(f, "tn_file_count") ? f->n : 0; }
const char *tn_file_name(const tn_file *f, int i) {
  return is_open(f, "tn_file_name") && i >= 0 && i < f->n ? f->entry[i].name : NULL;
}

const char *tn_file_metadata(const tn_file *f, const char *key) {
  return is_open(f, "tn_file_metadata") && key
             ? json_string_value(json_object_get(json_object_get(f->header, metadata_key), key))
             : NULL;
}

typedef struct fetching {
  tn_file *f;
  const char *name;
  tn_tensor *into, *made; /* into: NULL for a new one */
} fetching;

static const entry *find(tn_ctx *c, const tn_file *f, const char *name) {
  if (!name) tn__fail(c, TN_EINVAL, "the name is NULL");
  for (int i = 0; i < f->n; i++)
    if (!strcmp(f->entry[i].name, name)) return &f->entry[i];
  tn__fail(c, TN_EINVAL, "%s has no tensor '%s'", f->path, name);
}

static void check_target(tn_ctx *c, const tn_file *f, const entry *e, const tn_tensor *t) {
  tn_dim shape[TN_MAX_RANK];
  const char *fault = tn__cell_fault(c, t);
  if (fault) tn__fail(c, TN_EINVAL, "the tensor for '%s' %s", e->name, fault);
  if (tn_dtype_of(t) != e->dtype)
    tn__fail(c, TN_EDTYPE, "'%s' is %s in %s, and %s here", e->name, tn_dtype_name(e->dtype), f->path,
             tn_dtype_name(tn_dtype_of(t)));
  bool same = tn_rank(t) == e->rank && tn_shape(t, shape) == TN_OK;
  for (int i = 0; same && i < e->rank; i++) same = shape[i] == e->shape[i];
  if (!same) tn__fail(c, TN_ESHAPE, "'%s' has another shape in %s than here", e->name, f->path);
}

static void do_fetch(tn_ctx *c, void *arg) {
  fetching *k = arg;
  const entry *e = find(c, k->f, k->name);
  size_t bytes = (size_t)(e->end - e->begin);
  if (k->into) check_target(c, k->f, e, k->into);
  char *data = tn__alloc(c, bytes + 1);
  read_at(c, k->f, data, bytes, k->f->data + e->begin);
  for (size_t i = 0; e->dtype == TN_BOOL && i < bytes; i++)
    if (data[i] & ~1) bad(c, k->f, e->name, "a bool is neither 0 nor 1");
  if (k->into ? tn_write(k->into, data, bytes) == TN_OK
              : (k->made = tn_from(c, e->dtype, e->shape, e->rank, data)) != NULL)
    return;
  tn__mem_throw(&c->mem, c->failed); /* the error is recorded already */
}

tn_tensor *tn_file_tensor(tn_file *f, const char *name) {
  fetching k = {.f = f, .name = name};
  tn_ctx *c = tn__object_use(f, TN__FILE, "tn_file_tensor");
  return c && tn__ctx_run(c, "tn_file_tensor", do_fetch, &k) ? k.made : NULL;
}

tn_status tn_file_read(tn_file *f, const char *name, tn_tensor *dst) {
  fetching k = {.f = f, .name = name, .into = dst};
  tn_ctx *c = tn__object_use(f, TN__FILE, "tn_file_read");
  if (!c) return TN_EINVAL;
  if (!dst) return tn__refuse(c, "tn_file_read", "the tensor for '%s' is NULL", name ? name : "NULL");
  return tn__ctx_run(c, "tn_file_read", do_fetch, &k) ? TN_OK : c->failed;
}

/* ---- writing ---- */

typedef struct saving {
  const char *path;
  int n, nmeta;
  const char *const *name;
  tn_tensor *const *tensor;
  const tn_meta *meta;
  json_t *header;
  tn__outfile file;
} saving;

static json_t *describe(const tn_tensor *t, uint64_t begin, uint64_t end) {
  tn_dim size[TN_MAX_RANK] = {0};
  json_t *shape = json_array();
  tn_shape(t, size);
  for (int i = 0; i < tn_rank(t); i++) json_array_append_new(shape, json_integer(size[i]));
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtype_names[tn_dtype_of(t)], "shape", shape, "data_offsets",
                   (json_int_t)begin, (json_int_t)end);
}

static void put_string(tn_ctx *c, json_t *object, const char *key, json_t *value, const char *what) {
  if (!key || !*key || !value || json_object_get(object, key) || json_object_set(object, key, value) != 0) {
    json_decref(value);
    tn__fail(c, TN_EINVAL, "%s '%s' is empty, there twice, or not UTF-8", what, key ? key : "NULL");
  }
  json_decref(value);
}

/* Wide elements first, so that all are aligned when the data is mapped into memory. */
static void file_order(const saving *s, int *order) {
  int n = 0;
  for (size_t size = 8; size; size /= 2)
    for (int i = 0; i < s->n; i++)
      if (tn_dtype_size(tn_dtype_of(s->tensor[i])) == size) order[n++] = i;
}

static void make_header(tn_ctx *c, saving *s, const int *order) {
  uint64_t at = 0;
  s->header = json_object();
  if (!s->header) tn__mem_throw(&c->mem, TN_ENOMEM);
  if (s->nmeta) {
    json_t *meta = json_object();
    if (json_object_set_new(s->header, metadata_key, meta) != 0) tn__mem_throw(&c->mem, TN_ENOMEM);
    for (int i = 0; i < s->nmeta; i++) {
      const char *value = s->meta[i].value;
      put_string(c, meta, s->meta[i].key, value ? json_string(value) : NULL, "metadata");
    }
  }
  for (int i = 0; i < s->n; i++) {
    const char *name = s->name[order[i]];
    const tn_tensor *t = s->tensor[order[i]];
    uint64_t end = at + tn_nbytes(t);
    if (name && !strcmp(name, metadata_key)) tn__fail(c, TN_EINVAL, "a tensor cannot be named '%s'", name);
    put_string(c, s->header, name, describe(t, at, end), "the name");
    at = end;
  }
}

static void write_header(tn_ctx *c, saving *s) {
  size_t n = json_dumpb(s->header, NULL, 0, JSON_COMPACT), padded = (n + ALIGN - 1) / ALIGN * ALIGN;
  char *text = tn__alloc(c, LENGTH_BYTES + padded);
  for (int i = 0; i < LENGTH_BYTES; i++) text[i] = (char)((uint64_t)padded >> 8 * i);
  json_dumpb(s->header, text + LENGTH_BYTES, n, JSON_COMPACT);
  memset(text + LENGTH_BYTES + n, ' ', padded - n);
  tn__outfile_write(c, &s->file, text, LENGTH_BYTES + padded);
}

static void do_save(tn_ctx *c, void *arg) {
  saving *s = arg;
  size_t largest = 0;
  if (s->n < 0 || s->nmeta < 0 || (s->n && (!s->name || !s->tensor)) || (s->nmeta && !s->meta))
    tn__fail(c, TN_EINVAL, "a list is NULL");
  tn_status status = s->n ? tn_realize(s->tensor, s->n) : TN_OK;
  if (status != TN_OK) tn__fail(c, status, "no tensor to write");
  int *order = tn__alloc(c, ((size_t)s->n + 1) * sizeof *order);
  file_order(s, order);
  for (int i = 0; i < s->n; i++)
    if (tn_nbytes(s->tensor[i]) > largest) largest = tn_nbytes(s->tensor[i]);
  make_header(c, s, order);
  tn__outfile_open(c, &s->file, s->path);
  write_header(c, s);
  char *data = tn__alloc(c, largest + 1);
  for (int i = 0; i < s->n; i++) {
    tn_tensor *t = s->tensor[order[i]];
    if (tn_read(t, data, tn_nbytes(t)) != TN_OK) tn__mem_throw(&c->mem, c->failed); /* the error is recorded already */
    tn__outfile_write(c, &s->file, data, tn_nbytes(t));
  }
  tn__outfile_commit(c, &s->file);
}

tn_status tn_save_safetensors(tn_ctx *ctx, const char *path, int n, const char *const *names, tn_tensor *const *tensors,
                              int nmeta, const tn_meta *meta) {
  saving s = {.path = path, .n = n, .nmeta = nmeta, .name = names, .tensor = tensors, .meta = meta, .file = {.fd = -1}};
  if (!ctx) return TN_EINVAL;
  bool ok = tn__ctx_run(ctx, "tn_save_safetensors", do_save, &s);
  json_decref(s.header);
  if (!ok) tn__outfile_discard(ctx, &s.file);
  return ok ? TN_OK : ctx->failed;
}
