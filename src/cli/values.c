#include "cli/values.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tn_tensor *refuse(const char *text, const char *why) {
  fprintf(stderr, "tenet: %s: %s; values are f32[2,3]=1,2,3,4,5,6, or one number for all, or a file.npy\n", text, why);
  return NULL;
}

/* ---- numbers ---- */

static tn_dtype dtype_of(const char *name, size_t n) {
  int dtype = 0;
  while (dtype < TN_DTYPE_COUNT &&
         (strlen(tn_dtype_name((tn_dtype)dtype)) != n || memcmp(tn_dtype_name((tn_dtype)dtype), name, n)))
    dtype++;
  return (tn_dtype)dtype;
}

/* "[2,3]"; where it ends, NULL if it is none */
static const char *read_shape(const char *s, tn_dim *shape, int *rank) {
  *rank = 0;
  if (*s != '[') return s;
  do {
    char *end;
    if (*rank == TN_MAX_RANK) return NULL;
    shape[*rank] = strtoll(s + 1, &end, 10);
    if (end == s + 1 || shape[(*rank)++] < 0) return NULL;
    s = end;
  } while (*s == ',');
  return *s == ']' ? s + 1 : NULL;
}

typedef union cell {
  double number;
  int64_t integer;
  uint64_t natural;
} cell;

static const char *const truths[] = {"false", "true"};

static bool is_whole(tn_dtype dtype) { /* beyond 2^53 these are no doubles */
  return dtype != TN_F16 && dtype != TN_BF16 && dtype != TN_F32 && dtype != TN_F64;
}
static bool is_signed(tn_dtype dtype) {
  return dtype == TN_I8 || dtype == TN_I16 || dtype == TN_I32 || dtype == TN_I64;
}

/* Of whole numbers but u64 */
static int64_t most(tn_dtype dtype) {
  size_t bits = 8 * tn_dtype_size(dtype) - is_signed(dtype);
  return dtype == TN_BOOL ? 1 : (int64_t)(((uint64_t)1 << bits) - 1);
}
static int64_t least(tn_dtype dtype) { return is_signed(dtype) ? -most(dtype) - 1 : 0; }

/* Where the number ends; NULL: it is none, or has not the dtype's range. */
static const char *read_cell(const char *s, tn_dtype dtype, cell *out) {
  bool whole = is_whole(dtype), natural = dtype == TN_U64;
  char *end;
  for (int truth = 0; truth < 2 && dtype == TN_BOOL; truth++) { /* as they are printed */
    size_t n = strlen(truths[truth]);
    out->integer = truth;
    if (!strncmp(s, truths[truth], n)) return s + n;
  }
  errno = 0;
  if (!whole) out->number = strtod(s, &end);
  else if (natural) out->natural = strtoull(s, &end, 10);
  else out->integer = strtoll(s, &end, 10);
  bool negative = natural && s[strspn(s, " ")] == '-';
  bool fits = natural || !whole || (out->integer >= least(dtype) && out->integer <= most(dtype));
  return end == s || negative || !fits || (whole && errno == ERANGE) ? NULL : end;
}

static tn_tensor *read_numbers(tn_ctx *ctx, const char *text) {
  tn_dim shape[TN_MAX_RANK];
  int rank;
  tn_dtype dtype = dtype_of(text, strcspn(text, "[="));
  const char *s = dtype < TN_DTYPE_COUNT ? read_shape(text + strcspn(text, "[="), shape, &rank) : NULL;
  if (!s || *s != '=') return refuse(text, "no dtype and shape");
  bool some = s[1] != 0, empty = false, over = false;
  tn_dim count = 1;
  for (int i = 0; i < rank; i++) empty |= shape[i] == 0, over |= __builtin_mul_overflow(count, shape[i], &count);
  size_t room = strlen(s), n = 0;
  cell *v = malloc(room * sizeof *v);
  if (!v) return refuse(text, "out of memory");
  while (some && (n == 0 || *s == ',')) {
    const char *end = read_cell(s + 1, dtype, &v[n]);
    some = end != NULL;
    if (some) s = end, n++;
  }
  bool good = n ? some && !*s : empty && !s[1];
  static const tn_dim ones[TN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  tn_dtype as = !is_whole(dtype) ? TN_F64 : dtype == TN_U64 ? TN_U64 : TN_I64;
  bool fits = n <= 1 || (!over && (tn_dim)n == count);
  tn_tensor *t = NULL, *flat = good && fits ? tn_from(ctx, as, (tn_dim[]){(tn_dim)n}, 1, v) : NULL;
  if (!good) refuse(text, "no numbers of that dtype");
  else if (!fits) refuse(text, "not as many numbers as the shape has elements");
  else if (!flat) t = NULL; /* the context says why */
  else if (n == 1) t = tn_expand(tn_reshape(flat, ones, rank), shape, rank);
  else t = tn_reshape(flat, shape, rank);
  free(v);
  return tn_cast(t, dtype);
}

/* ---- .npy: NumPy's format, versions 1 to 3, plain dtypes in little-endian row-major order ---- */

static const struct {
  const char *descr;
  tn_dtype dtype;
} descrs[] = {{"|b1", TN_BOOL}, {"|i1", TN_I8},  {"<i2", TN_I16}, {"<i4", TN_I32}, {"<i8", TN_I64}, {"|u1", TN_U8},
              {"<u2", TN_U16},  {"<u4", TN_U32}, {"<u8", TN_U64}, {"<f2", TN_F16}, {"<f4", TN_F32}, {"<f8", TN_F64}};

/* What stands behind the key in the header's Python dictionary */
static const char *behind(const char *header, const char *key) {
  const char *s = strstr(header, key);
  return s ? s + strlen(key) + strspn(s + strlen(key), "': ") : "";
}

static tn_tensor *read_npy(tn_ctx *ctx, const char *path, const unsigned char *data, size_t n) {
  tn_dim shape[TN_MAX_RANK];
  int rank = 0;
  char header[4096];
  size_t start = data[6] == 1 ? 10 : 12, length = data[8] | (size_t)data[9] << 8;
  if (start == 12) length |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
  if (length >= sizeof header || start + length > n) return refuse(path, "a damaged header");
  memcpy(header, data + start, length);
  header[length] = 0;
  size_t kind = 0, kinds = sizeof descrs / sizeof *descrs, bytes;
  while (kind < kinds && strncmp(behind(header, "descr"), descrs[kind].descr, 3)) kind++;
  if (kind == kinds) return refuse(path, "a dtype that is not known here");
  if (strncmp(behind(header, "fortran_order"), "False", 5)) return refuse(path, "not in row-major order");
  const char *s = behind(header, "shape");
  if (*s != '(') return refuse(path, "a damaged header");
  for (s++; *s >= '0' && *s <= '9' && rank < TN_MAX_RANK; s += strspn(s, ", ")) {
    char *end;
    shape[rank++] = strtoll(s, &end, 10);
    s = end;
  }
  bytes = tn_dtype_size(descrs[kind].dtype);
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(bytes, (size_t)shape[i], &bytes)) return refuse(path, "too large a shape");
  if (*s != ')' || bytes != n - start - length) return refuse(path, "not as long as its shape says");
  return tn_from(ctx, descrs[kind].dtype, shape, rank, data + start + length);
}

tn_tensor *tn__value_read(tn_ctx *ctx, const char *text) {
  size_t length = strlen(text), n = 0, room = 1 << 16;
  if (length < 4 || strcmp(text + length - 4, ".npy")) return read_numbers(ctx, text);
  FILE *f = fopen(text, "rb");
  if (!f) return refuse(text, "it cannot be read");
  unsigned char *data = malloc(room);
  for (size_t got; data && (got = fread(data + n, 1, room - n, f)) > 0;) {
    n += got;
    if (n < room) continue;
    unsigned char *more = realloc(data, room *= 2);
    if (!more) free(data);
    data = more;
  }
  fclose(f);
  bool is_npy = data && n >= 12 && !memcmp(data, "\x93NUMPY", 6) && data[6] >= 1 && data[6] <= 3;
  tn_tensor *t = is_npy ? read_npy(ctx, text, data, n) : refuse(text, "no NumPy file");
  free(data);
  return t;
}
