/* Safetensors: bit-exact round trips, and every way a header can lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/files.h"
#include "tenet/tenet.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static tn_ctx *ctx;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = "", .quiet = 1});
  return ctx == NULL;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

/* ---- round trips ---- */

static void round_trips_bit_for_bit(void **state) {
  (void)state;
  enum { N = TN_DTYPE_COUNT + 3 };
  static const tn_dim shapes[4][3] = {{2, 3, 5}, {2, 0, 5}, {1, 1, 1}, {30, 1, 1}};
  tn_tensor *t[N];
  const char *names[N];
  char name[N][24];
  uint8_t bytes[N][240];
  size_t size[N];
  tn_scope(ctx) {
    for (int i = 0; i < N; i++) {
      tn_dtype d = i < TN_DTYPE_COUNT ? (tn_dtype)i : TN_F32;
      const tn_dim *shape = shapes[i < TN_DTYPE_COUNT ? 0 : i - TN_DTYPE_COUNT];
      int rank = i == N - 1 ? 0 : 3;
      size[i] = tn_dtype_size(d);
      for (int a = 0; a < rank; a++) size[i] *= (size_t)shape[a];
      for (size_t k = 0; k < size[i]; k++) bytes[i][k] = d == TN_BOOL ? k % 3 == 0 : (uint8_t)(k * 73 + 11 * (size_t)i);
      snprintf(name[i], sizeof name[i], "t\"%d/\xc3\xa9", i);
      names[i] = name[i];
      t[i] = tn_from(ctx, d, shape, rank, bytes[i]);
      assert_non_null(t[i]);
    }
    const tn_meta meta[] = {{"step", "17"}, {"empty", ""}};
    const char *path = test_path("all.safetensors");
    assert_int_equal(tn_save_safetensors(ctx, path, N, names, t, 2, meta), TN_OK);
    tn_file *f = tn_load_safetensors(ctx, path);
    assert_non_null(f);
    assert_int_equal(tn_file_count(f), N);
    assert_string_equal(tn_file_metadata(f, "step"), "17");
    assert_string_equal(tn_file_metadata(f, "empty"), "");
    assert_null(tn_file_metadata(f, "none"));
    assert_null(tn_file_name(f, N));
    for (int i = 0; i < N; i++) {
      uint8_t back[240] = {0};
      tn_tensor *u = tn_file_tensor(f, names[i]);
      assert_non_null(u);
      assert_int_equal(tn_dtype_of(u), tn_dtype_of(t[i]));
      assert_int_equal(tn_rank(u), tn_rank(t[i]));
      for (int a = 0; a < tn_rank(u); a++) assert_int_equal(tn_size(u, a), tn_size(t[i], a));
      assert_int_equal(tn_read(u, back, size[i]), TN_OK);
      assert_memory_equal(back, bytes[i], size[i]);
    }
    tn_file_close(f);
  }
}

static void reads_into_tensors(void **state) {
  (void)state;
  const float one[] = {1, 2, 3};
  float back[3];
  tn_scope(ctx) {
    tn_tensor *t = tn_from(ctx, TN_F32, (tn_dim[]){3}, 1, one), *u = tn_from(ctx, TN_F32, (tn_dim[]){3}, 1, back);
    const char *name = "w", *path = test_path("w");
    assert_int_equal(tn_save_safetensors(ctx, path, 1, &name, &t, 0, NULL), TN_OK);
    tn_file *f = tn_load_safetensors(ctx, path);
    assert_int_equal(tn_file_read(f, "w", u), TN_OK);
    assert_int_equal(tn_read(u, back, sizeof back), TN_OK);
    assert_memory_equal(back, one, sizeof one);
    assert_int_equal(tn_file_read(f, "v", u), TN_EINVAL);
    tn_clear_error(ctx);
    assert_int_equal(tn_file_read(f, "w", tn_from(ctx, TN_F64, (tn_dim[]){3}, 1, (double[3]){0})), TN_EDTYPE);
    tn_clear_error(ctx);
    assert_int_equal(tn_file_read(f, "w", tn_from(ctx, TN_F32, (tn_dim[]){2}, 1, one)), TN_ESHAPE);
    tn_clear_error(ctx);
    tn_file_close(f);
  }
}

/* ---- headers that lie ---- */

/* A file of this header and n bytes of data. */
static const char *make_file(const char *json, size_t n) {
  size_t len = strlen(json);
  char *file = calloc(1, 8 + len + n);
  for (int i = 0; i < 8; i++) file[i] = (char)(len >> 8 * i);
  memcpy(file + 8, json, len);
  const char *path = test_write_file("made", file, 8 + len + n);
  free(file);
  return path;
}

static void refuse(const char *path, tn_status status, const char *words) {
  tn_stats s;
  tn_ctx_stats(ctx, &s);
  size_t before = s.heap_bytes;
  tn_clear_error(ctx);
  assert_null(tn_load_safetensors(ctx, path));
  assert_int_equal(tn_last_error(ctx)->status, status);
  if (!strstr(tn_last_error(ctx)->text, words)) fail_msg("'%s' does not say '%s'", tn_last_error(ctx)->text, words);
  tn_ctx_stats(ctx, &s);
  assert_int_equal(s.heap_bytes, before);
  if (test_mentions(tn_last_error(ctx)->text, path) != 1)
    fail_msg("'%s' does not name the path once", tn_last_error(ctx)->text);
  tn_clear_error(ctx);
}

static void accepts_the_edges(void **state) {
  (void)state;
  static const struct { const char *json; size_t n; int count;
  } good[] = {
      {"{}", 0, 0},
      {"{}   ", 0, 0},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, 1},
      {"{\"a\":{\"shape\":[],\"data_offsets\":[0,8],\"dtype\":\"F64\"},\"__metadata__\":{}}", 8, 1},
      {"{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]},\"a\":{\"dtype\":\"I16\",\"shape\":[1],\"data_"
       "offsets\":[0,2]}}",
       3, 2},
      {"{\"e\":{\"dtype\":\"U8\",\"shape\":[0,9],\"data_offsets\":[2,2]},\"a\":{\"dtype\":\"I16\",\"shape\":[1],\"data_"
       "offsets\":[0,2]}}",
       2, 2},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    tn_file *f = tn_load_safetensors(ctx, make_file(good[i].json, good[i].n));
    if (!f) fail_msg("%s: %s", good[i].json, tn_last_error(ctx)->text);
    assert_int_equal(tn_file_count(f), good[i].count);
    tn_file_close(f);
  }
}

#define ONE(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define PART(name, from, to, size)                                                                                     \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" size "],\"data_offsets\":[" from "," to "]}"

static void refuses_lies(void **state) {
  (void)state;
  static const struct { const char *json; size_t n; const char *words; } bad[] = {
      {"", 0, "not valid"},
      {" {}", 0, "start with"},
      {"[]", 0, "start with"},
      {"{", 0, "not valid"},
      {"{} x", 0, "not valid"},
      {"{\"a\":\"\xff\"}", 0, "not valid"},
      {"{\"a\":1}", 0, "must have dtype"},
      {"{\"a\":{}}", 0, "must have dtype"},
      {"{" PART("a", "0", "1", "1") "," PART("a", "1", "2", "1") "}", 2, "duplicate"},
      {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "duplicate"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1, "nothing else"},
      {ONE("F8_E4M3", "[1]", "[0,1]"), 1, "unknown dtype"},
      {ONE("u8", "[1]", "[0,1]"), 1, "unknown dtype"},
      {ONE("U8", "[-1]", "[0,1]"), 1, "natural"},
      {ONE("U8", "[1.0]", "[0,1]"), 1, "natural"},
      {ONE("U8", "3", "[0,1]"), 1, "must have"},
      {ONE("U8", "[1]", "[0,1,2]"), 1, "must have"},
      {ONE("U8", "[1]", "[-1,0]"), 1, "natural"},
      {ONE("U8", "[1]", "[1,0]"), 1, "outside"},
      {ONE("U8", "[2]", "[0,2]"), 1, "outside"},
      {ONE("U8", "[1099511627776]", "[0,1099511627776]"), 1, "outside"},
      {ONE("U8", "[2]", "[0,1]"), 1, "do not fit"},
      {ONE("F32", "[1]", "[0,1]"), 1, "do not fit"},
      {ONE("F64", "[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
      {ONE("U8", "[99999999999999999999]", "[0,1]"), 1, "not valid"},
      {ONE("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "too many axes"},
      {ONE("U8", "[1]", "[0,1]"), 2, "bytes, but"},
      {ONE("U8", "[1]", "[1,2]"), 2, "gap"},
      {"{" PART("a", "0", "2", "2") "," PART("b", "1", "3", "2") "}", 3, "overlaps"},
      {"{" PART("a", "0", "1", "1") "," PART("b", "2", "3", "1") "}", 3, "gap"},
      {"{\"__metadata__\":[]}", 0, "metadata"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "no string"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    refuse(make_file(bad[i].json, bad[i].n), TN_EFORMAT, bad[i].words);
}

static void refuses_nesting_and_length(void **state) {
  (void)state;
  enum { DEEP = 100000 };
  char *json = malloc(2 * DEEP + 16);
  strcpy(json, "{\"a\":");
  memset(json + 5, '[', DEEP);
  memset(json + 5 + DEEP, ']', DEEP);
  strcpy(json + 5 + 2 * DEEP, "}");
  refuse(make_file(json, 0), TN_EFORMAT, "not valid");
  free(json);
  const uint8_t huge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'}, big[16] = {0, 0, 0, 0, 1},
                longer[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
  refuse(test_write_file("huge", huge, sizeof huge), TN_EFORMAT, "claims");
  refuse(test_write_file("big", big, sizeof big), TN_EFORMAT, "claims");
  refuse(test_write_file("longer", longer, sizeof longer), TN_EFORMAT, "claims");
  refuse(test_write_file("short", huge, 7), TN_EFORMAT, "too short");
  refuse(test_path("absent"), TN_EIO, "No such file");
  refuse(test_path(""), TN_EIO, "no regular file");
}

static void bools_are_checked(void **state) {
  (void)state;
  const char *json = ONE("BOOL", "[2]", "[0,2]");
  char *file = calloc(1, 8 + strlen(json) + 2);
  file[0] = (char)strlen(json);
  memcpy(file + 8, json, strlen(json));
  file[8 + strlen(json) + 1] = 2;
  tn_file *f = tn_load_safetensors(ctx, test_write_file("bool", file, 8 + strlen(json) + 2));
  free(file);
  assert_non_null(f);
  assert_null(tn_file_tensor(f, "a"));
  assert_int_equal(tn_last_error(ctx)->status, TN_EFORMAT);
  tn_clear_error(ctx);
  tn_file_close(f);
}

/* ---- writing ---- */

static void refuses_bad_names(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *t[] = {tn_scalar(ctx, TN_F32, 1), tn_scalar(ctx, TN_F32, 2)};
    static const char *const bad[][2] = {{"a", "a"}, {"a", ""}, {"a", NULL}, {"a", "__metadata__"}, {"a", "\xff"}};
    const char *path = test_path("names");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      assert_int_equal(tn_save_safetensors(ctx, path, 2, bad[i], t, 0, NULL), TN_EINVAL);
      tn_clear_error(ctx);
    }
    const tn_meta twice[] = {{"k", "1"}, {"k", "2"}};
    assert_int_equal(tn_save_safetensors(ctx, path, 1, bad[0], t, 2, twice), TN_EINVAL);
    tn_clear_error(ctx);
    assert_int_not_equal(access(path, F_OK), 0);
  }
}

static void pipes_are_not_replaced(void **state) {
  (void)state;
  struct stat now;
  const char *name = "x", *path = test_path("pipe");
  assert_int_equal(mkfifo(path, 0600), 0);
  tn_scope(ctx) {
    tn_tensor *x = tn_scalar(ctx, TN_F32, 1);
    assert_int_equal(tn_save_safetensors(ctx, path, 1, &name, &x, 0, NULL), TN_EIO);
    assert_non_null(strstr(tn_last_error(ctx)->text, "no regular file"));
    tn_clear_error(ctx);
  }
  assert_int_equal(stat(path, &now), 0);
  assert_true(S_ISFIFO(now.st_mode));
}

static unsigned mode_of(const char *path) {
  struct stat st;
  assert_int_equal(lstat(path, &st), 0);
  return st.st_mode;
}

/* A link stays a link, and a file's permissions are the next one's, too. */
static void links_and_modes_stay(void **state) {
  (void)state;
  tn_tensor *x = tn_zeros(ctx, TN_F32, NULL, 0);
  const char *name = "x";
  char file[200], link[200], nowhere[200];
  snprintf(file, sizeof file, "%s", test_path("private"));
  snprintf(link, sizeof link, "%s", test_path("latest"));
  snprintf(nowhere, sizeof nowhere, "%s", test_path("nowhere"));
  mode_t mask = umask(027);
  assert_int_equal(tn_save_safetensors(ctx, file, 1, &name, &x, 0, NULL), TN_OK);
  assert_int_equal(umask(mask), 027);
  assert_int_equal(mode_of(file) & 0777, 0640);
  assert_int_equal(chmod(file, 0600), 0);
  assert_int_equal(symlink("private", link), 0); /* from its own folder */
  assert_int_equal(tn_save_safetensors(ctx, link, 0, NULL, NULL, 0, NULL), TN_OK);
  assert_true(S_ISLNK(mode_of(link)));
  assert_true(S_ISREG(mode_of(file)));
  assert_int_equal(mode_of(file) & 0777, 0600);
  tn_file *f = tn_load_safetensors(ctx, file);
  assert_non_null(f);
  assert_int_equal(tn_file_count(f), 0); /* the second one */
  tn_file_close(f);
  assert_int_equal(symlink("missing", nowhere), 0);
  assert_int_equal(tn_save_safetensors(ctx, nowhere, 1, &name, &x, 0, NULL), TN_EIO);
  assert_non_null(strstr(tn_last_error(ctx)->text, "it is a link that leads nowhere"));
  assert_int_equal(test_mentions(tn_last_error(ctx)->text, nowhere), 1);
  tn_clear_error(ctx);
}

/* As long as file names may be; nothing else is left in the folder. */
static void long_names(void **state) {
  (void)state;
  tn_tensor *x = tn_zeros(ctx, TN_F32, NULL, 0);
  char path[700], longest[256];
  const char *name = "x";
  memset(longest, 'n', 255);
  longest[255] = 0;
  snprintf(path, sizeof path, "%s", test_path(""));
  size_t folder = strlen(path);
  snprintf(path + folder, sizeof path - folder, "%s", longest);
  for (int i = 0; i < 2; i++) assert_int_equal(tn_save_safetensors(ctx, path, 1, &name, &x, 0, NULL), TN_OK);
  tn_file *f = tn_load_safetensors(ctx, path);
  assert_int_equal(tn_file_count(f), 1);
  tn_file_close(f);
  assert_int_equal(unlink(path), 0);
}

static void full_disk_keeps_the_old_file(void **state) {
  (void)state;
  size_t n = 0, m = 0;
  static const float zeros[10000];
  tn_scope(ctx) {
    tn_tensor *small = tn_scalar(ctx, TN_F32, 1), *large = tn_from(ctx, TN_F32, (tn_dim[]){10000}, 1, zeros);
    const char *name = "x", *path = test_path("full");
    assert_int_equal(tn_save_safetensors(ctx, path, 1, &name, &small, 0, NULL), TN_OK);
    char *before = test_read_file(path, &n);
    struct rlimit old, limit = {.rlim_cur = 5000};
    getrlimit(RLIMIT_FSIZE, &old);
    limit.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    tn_status status = tn_save_safetensors(ctx, path, 1, &name, &large, 0, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, TN_EIO);
    tn_clear_error(ctx);
    char *after = test_read_file(path, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    assert_int_equal(tn_save_safetensors(ctx, test_path("no/folder"), 1, &name, &small, 0, NULL), TN_EIO);
    tn_clear_error(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips_bit_for_bit),
      cmocka_unit_test(reads_into_tensors),
      cmocka_unit_test(accepts_the_edges),
      cmocka_unit_test(refuses_lies),
      cmocka_unit_test(refuses_nesting_and_length),
      cmocka_unit_test(bools_are_checked),
      cmocka_unit_test(refuses_bad_names),
      cmocka_unit_test(links_and_modes_stay),
      cmocka_unit_test(long_names),
      cmocka_unit_test(full_disk_keeps_the_old_file),
      cmocka_unit_test(pipes_are_not_replaced),
  };
  int failed = cmocka_run_group_tests(tests, open_ctx, close_ctx);
  test_remove_files();
  return failed;
}
