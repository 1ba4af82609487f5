/* IDX files: what is read, what is refused, and that memory follows the file and not its header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/files.h"
#include "tenet/tenet.h"
#include <sys/resource.h>
#include <signal.h>

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

static size_t heap(void) {
  tn_stats s;
  tn_ctx_stats(ctx, &s);
  return s.heap_bytes;
}

/* Reads; on an error the message must hold `words`, the array be empty and nothing be leaked. */
static void refuse(const char *path, tn_status status, const char *words) {
  tn_array a = {.rank = 7};
  size_t before = heap();
  tn_clear_error(ctx);
  assert_int_equal(tn_idx_read(ctx, path, &a), status);
  if (!strstr(tn_last_error(ctx)->text, words)) fail_msg("'%s' does not say '%s'", tn_last_error(ctx)->text, words);
  if (test_mentions(tn_last_error(ctx)->text, path) != (path != NULL))
    fail_msg("'%s' does not name the path once", tn_last_error(ctx)->text);
  assert_null(a.data);
  assert_int_equal(a.bytes, 0);
  assert_int_equal(heap(), before);
  tn_clear_error(ctx);
}

static void refuse_bytes(const void *data, size_t n, const char *words) {
  refuse(test_write_file("bad", data, n), TN_EFORMAT, words);
}

static void reads_big_endian(void **state) {
  (void)state;
  static const uint8_t file[] = {0, 0, 0x0B, 2,    0,    0,    0,    2, 0,    0,    0, 3,
                                 0, 1, 0xff, 0xfe, 0x12, 0x34, 0x80, 0, 0x7f, 0xff, 0, 0};
  static const int16_t want[] = {1, -2, 0x1234, INT16_MIN, INT16_MAX, 0};
  tn_array a;
  assert_int_equal(tn_idx_read(ctx, test_write_file("i16", file, sizeof file), &a), TN_OK);
  assert_int_equal(a.dtype, TN_I16);
  assert_int_equal(a.rank, 2);
  assert_int_equal(a.shape[0], 2);
  assert_int_equal(a.shape[1], 3);
  assert_int_equal(a.bytes, sizeof want);
  assert_memory_equal(a.data, want, sizeof want);
  tn_array_free(ctx, &a);
  assert_null(a.data);
}

/* Every type, plain and compressed, several ranks and chunk borders. */
static void round_trips(void **state) {
  (void)state;
  static const tn_dtype types[] = {TN_U8, TN_I8, TN_I16, TN_I32, TN_F32, TN_F64};
  static const int64_t shapes[][4] = {{0}, {1, 5}, {2, 3, 7}, {1, 0}, {3, 2, 0, 4}, {1, 200000}};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int zip = 0; zip < 2; zip++) {
        tn_array a = {.dtype = types[t], .rank = (int)shapes[s][0], .bytes = tn_dtype_size(types[t])}, b;
        for (int i = 0; i < a.rank; i++) a.bytes *= (size_t)(a.shape[i] = shapes[s][i + 1]);
        uint8_t *data = a.data = malloc(a.bytes + 1);
        for (size_t i = 0; i < a.bytes; i++) data[i] = (uint8_t)(i * 167 + i / 251);
        const char *path = test_path(zip ? "round.gz" : "round");
        assert_int_equal(tn_idx_write(ctx, path, &a), TN_OK);
        assert_int_equal(tn_idx_read(ctx, path, &b), TN_OK);
        assert_int_equal(b.dtype, a.dtype);
        assert_int_equal(b.rank, a.rank);
        assert_memory_equal(b.shape, a.shape, sizeof *a.shape * (size_t)a.rank);
        assert_int_equal(b.bytes, a.bytes);
        assert_memory_equal(b.data, a.data, a.bytes);
        tn_array_free(ctx, &b);
        free(data);
      }
}

static void refuses_damage(void **state) {
  (void)state;
  static const uint8_t good[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3};
  uint8_t bad[16] = {0};
  tn_array a;
  assert_int_equal(tn_idx_read(ctx, test_write_file("good", good, sizeof good), &a), TN_OK);
  tn_array_free(ctx, &a);
  refuse_bytes(good, 0, "no IDX file");
  refuse_bytes(good, 3, "no IDX file");
  refuse_bytes(good, 7, "header is cut short");
  refuse_bytes(good, sizeof good - 1, "cut short");
  memcpy(bad, good, sizeof good);
  refuse_bytes(bad, sizeof good + 1, "longer than");
  bad[0] = 1;
  refuse_bytes(bad, sizeof good, "no IDX file");
  bad[0] = 0, bad[2] = 0x0A;
  refuse_bytes(bad, sizeof good, "element type 0x0a");
  bad[2] = 8, bad[3] = TN_MAX_RANK + 1;
  refuse_bytes(bad, sizeof good, "axes");
  refuse(test_path("absent"), TN_EIO, "No such file");
  refuse(test_path(""), TN_EIO, "Is a directory");
  refuse(NULL, TN_EINVAL, "NULL");
}

/* A header that promises petabytes: an error, without memory for more than what is there. */
static void header_is_not_believed(void **state) {
  (void)state;
  uint8_t lie[16] = {0, 0, 8, 2, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 1};
  uint8_t overflow[20] = {0, 0, 0x0E, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  tn_stats s;
  tn_ctx_stats(ctx, &s);
  size_t peak = s.heap_peak;
  refuse_bytes(lie, sizeof lie, "cut short");
  refuse_bytes(overflow, sizeof overflow, "more than memory");
  tn_ctx_stats(ctx, &s);
  assert_true(s.heap_peak < peak + (4 << 20));
}

static void refuses_damaged_gzip(void **state) {
  (void)state;
  uint8_t data[5000];
  size_t n = 0;
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * i >> 3);
  const tn_array a = {.dtype = TN_U8, .rank = 1, .shape = {sizeof data}, .data = data, .bytes = sizeof data};
  const char *path = test_path("z.gz");
  assert_int_equal(tn_idx_write(ctx, path, &a), TN_OK);
  char *file = test_read_file(path, &n);
  refuse(test_write_file("cut.gz", file, n / 2), TN_EFORMAT, "cut short");
  refuse(test_write_file("cut.gz", file, n - 4), TN_EFORMAT, "cut short");
  file[n / 2] ^= 0x55;
  refuse(test_write_file("bent.gz", file, n), TN_EFORMAT, "incorrect");
  free(file);
}

static void writing_fails_cleanly(void **state) {
  (void)state;
  uint8_t data[100000] = {1};
  tn_array a = {.dtype = TN_U8, .rank = 1, .shape = {3}, .data = data, .bytes = 3};
  const char *path = test_path("kept");
  assert_int_equal(tn_idx_write(ctx, path, &a), TN_OK);
  assert_int_equal(tn_idx_write(ctx, test_path("no/such/folder"), &a), TN_EIO);
  tn_clear_error(ctx);
  a.dtype = TN_I64;
  assert_int_equal(tn_idx_write(ctx, path, &a), TN_EDTYPE);
  tn_clear_error(ctx);
  a.dtype = TN_U8, a.bytes = 4;
  assert_int_equal(tn_idx_write(ctx, path, &a), TN_EINVAL);
  tn_clear_error(ctx);
  /* the disk is full after some bytes: the old file stays, and nothing is left beside it */
  struct rlimit old, small = {.rlim_cur = 5000};
  getrlimit(RLIMIT_FSIZE, &old);
  small.rlim_max = old.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  a.shape[0] = sizeof data, a.bytes = sizeof data;
  tn_status status = tn_idx_write(ctx, path, &a);
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(status, TN_EIO);
  tn_clear_error(ctx);
  tn_array b;
  assert_int_equal(tn_idx_read(ctx, path, &b), TN_OK);
  assert_int_equal(b.bytes, 3);
  tn_array_free(ctx, &b);
  char command[256];
  snprintf(command, sizeof command, "test -z \"$(ls '%s' | grep 'kept\\.')\"", test_path(""));
  assert_int_equal(system(command), 0);
}

/* ---- batches ---- */

static void batches_cover_each_row_once(void **state) {
  (void)state;
  enum { ROWS = 23, BATCH = 5 };
  int32_t key[ROWS];
  double pair[ROWS][2];
  for (int i = 0; i < ROWS; i++) key[i] = i, pair[i][0] = i, pair[i][1] = -i;
  const tn_array arrays[] = {{.dtype = TN_I32, .rank = 1, .shape = {ROWS}, .data = key, .bytes = sizeof key},
                             {.dtype = TN_F64, .rank = 2, .shape = {ROWS, 2}, .data = pair, .bytes = sizeof pair}};
  tn_batches *b = tn_batches_open(ctx, 2, arrays, BATCH, true, 42);
  int32_t order[3][ROWS];
  assert_non_null(b);
  assert_int_equal(tn_batches_count(b), 5);
  for (int epoch = 0; epoch < 3; epoch++) { /* epochs 0, 1, and 0 again */
    int seen[ROWS] = {0}, at = 0;
    tn_batches_start(b, (uint64_t)epoch % 2, 0);
    for (int64_t n; (n = tn_batches_next(b)) > 0;) {
      assert_int_equal(n, at + BATCH <= ROWS ? BATCH : ROWS - at);
      const int32_t *k = tn_batches_rows(b, 0);
      const double(*p)[2] = tn_batches_rows(b, 1);
      for (int i = 0; i < n; i++) {
        assert_true(p[i][0] == k[i] && p[i][1] == -k[i]);
        seen[order[epoch][at++] = k[i]]++;
      }
    }
    for (int i = 0; i < ROWS; i++) assert_int_equal(seen[i], 1);
  }
  assert_memory_equal(order[0], order[2], sizeof order[0]);
  assert_memory_not_equal(order[0], order[1], sizeof order[0]);
  tn_batches_start(b, 1, 2); /* goes on where an interrupted epoch stopped */
  assert_int_equal(tn_batches_next(b), BATCH);
  assert_memory_equal(tn_batches_rows(b, 0), order[1] + 2 * BATCH, BATCH * sizeof(int32_t));
  tn_batches_start(b, 1, 5);
  assert_int_equal(tn_batches_next(b), 0);
  assert_null(tn_batches_rows(b, 2));
  tn_batches_close(b);
}

static void batches_refuse_nonsense(void **state) {
  (void)state;
  uint8_t x[6] = {0};
  tn_array arrays[] = {{.dtype = TN_U8, .rank = 1, .shape = {6}, .data = x, .bytes = 6},
                       {.dtype = TN_U8, .rank = 1, .shape = {5}, .data = x, .bytes = 5}};
  assert_null(tn_batches_open(ctx, 2, arrays, 2, true, 0));
  assert_int_equal(tn_last_error(ctx)->status, TN_ESHAPE);
  tn_clear_error(ctx);
  assert_null(tn_batches_open(ctx, 1, arrays, 0, true, 0));
  assert_int_equal(tn_last_error(ctx)->status, TN_EINVAL);
  tn_clear_error(ctx);
  static const tn_array wrong[] = {{.dtype = TN_U8, .rank = 1, .shape = {INT64_MAX}, .bytes = 6},
                                   {.dtype = TN_U8, .rank = 1, .shape = {6}, .bytes = 6},
                                   {.dtype = TN_U8, .rank = 2, .shape = {-1, -6}, .bytes = 6},
                                   {.dtype = TN_F32, .rank = 2, .shape = {6, INT64_MAX / 2}, .bytes = 6},
                                   {.dtype = TN_U8, .rank = 1, .shape = {6}, .bytes = 12},
                                   {.dtype = TN_U8, .rank = 99, .shape = {6}, .bytes = 6}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tn_array a = wrong[i];
    a.data = i == 1 ? NULL : x; /* NULL, but six bytes of it */
    assert_null(tn_batches_open(ctx, 1, &a, 2, true, 0));
    assert_int_equal(tn_last_error(ctx)->status, TN_EINVAL);
    tn_clear_error(ctx);
  }
  arrays[0].shape[0] = 0, arrays[0].bytes = 0; /* no rows: no batches */
  tn_batches *b = tn_batches_open(ctx, 1, arrays, 3, true, 0);
  assert_non_null(b);
  assert_int_equal(tn_batches_next(b), 0);
  tn_batches_close(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_big_endian),
      cmocka_unit_test(round_trips),
      cmocka_unit_test(refuses_damage),
      cmocka_unit_test(header_is_not_believed),
      cmocka_unit_test(refuses_damaged_gzip),
      cmocka_unit_test(writing_fails_cleanly),
      cmocka_unit_test(batches_cover_each_row_once),
      cmocka_unit_test(batches_refuse_nonsense),
  };
  int failed = cmocka_run_group_tests(tests, open_ctx, close_ctx);
  test_remove_files();
  return failed;
}
