/* Values on a command line: numbers with their dtype and shape, NumPy files; whatever else is said to be neither. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cli/values.h"
#include "support/files.h"
#include "tenet/tenet.h"

static tn_ctx *c;

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  freopen("/dev/null", "w", stderr); /* what is refused, and why */
  return c ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  test_remove_files();
  return 0;
}

static void check(const char *text, const char *printed) {
  tn_tensor *t = tn__value_read(c, text);
  char *got = t ? tn_print_string(t) : NULL;
  if (!printed != !got || (got && strcmp(got, printed)))
    fail_msg("%s gives %s, not %s", text, got ? got : "nothing", printed ? printed : "nothing");
  tn_string_free(got);
  tn_clear_error(c);
}

static void numbers(void **state) {
  (void)state;
  check("f32=1.5", "1.5 : f32\n");
  check("f32[2,3]=1,2,3,4,5,6", "[[1, 2, 3],\n [4, 5, 6]] : f32[2,3]\n");
  check("i32[2]=-7", "[-7, -7] : i32[2]\n");
  check("bool[3]=1,0,1", "[true, false, true] : bool[3]\n");
  check("f64[3]=inf,-inf,nan", "[inf, -inf, nan] : f64[3]\n");
  check("u8[0]=1", "[] : u8[0]\n");
  check("u32[0,8]=", "[] : u32[0,8]\n");
  check("u64=18446744073709551615", "18446744073709551615 : u64\n");
  check("i64[2]=9007199254740993,-9223372036854775808", "[9007199254740993, -9223372036854775808] : i64[2]\n");
  check("bool[2]=true,false", "[true, false] : bool[2]\n"); /* as it is printed */
  check("i8[2]=127,-128", "[127, -128] : i8[2]\n");
  check("u8=255", "255 : u8\n");
  check("i32[2]=2147483647,-2147483648", "[2147483647, -2147483648] : i32[2]\n");
  check("u32=4294967295", "4294967295 : u32\n");
  const char *const beyond[] = {"i8[2]=300,1", "i8=128",        "i8=-129",       "u8=256",  "u8=-1",
                                "u16=65536",   "i16=-32769",    "i32=2147483648", "bool=2", "bool=-1",
                                "u32=-1",      "u32=4294967296", "bool=tru",       "bool=truefalse"};
  for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) check(beyond[i], NULL);
  check("f32[3]=0,1", NULL);
  check("f32[2]=0,1,2", NULL);
  check("f32=0,1", NULL);
  check("f32[4611686018427387904,4]=0,1", NULL);
  const char *const bad[] = {"",          "=",         "f32",      "f32=",     "f32[2]=1,2,3", "f32[2=1",
                             "f32[]=1",   "f32[-1]=1", "f32[2]=1,", "f32[2]=1,x", "g32=1",      "nowhere.npy",
                             "f32[2] =1", "i32=1.5",   "u64=-1",   "i64=9223372036854775808",
                             "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]=1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) check(bad[i], NULL);
}

static size_t make_npy(char *out, const char *dict, const void *data, size_t bytes) {
  size_t n = strlen(dict);
  memcpy(out, "\x93NUMPY\1\0", 8);
  out[8] = (char)n;
  out[9] = 0;
  memcpy(out + 10, dict, n);
  memcpy(out + 10 + n, data, bytes);
  return 10 + n + bytes;
}

#define DICT(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }\n"

static void files(void **state) {
  const float f[] = {1, 2, 3, 4};
  const int64_t i[] = {-5, 6};
  const struct {
    const char *dict, *printed;
    const void *data;
    size_t bytes;
  } rows[] = {
      {DICT("<f4", "False", "(2, 2)"), "[[1, 2],\n [3, 4]] : f32[2,2]\n", f, 16},
      {DICT("<f4", "False", "(4,)"), "[1, 2, 3, 4] : f32[4]\n", f, 16},
      {DICT("<i8", "False", "()"), "-5 : i64\n", i, 8},
      {DICT("|b1", "False", "(1,)"), "[true] : bool[1]\n", "\1", 1},
      {DICT("<f4", "True", "(2, 2)"), NULL, f, 16},
      {DICT(">f4", "False", "(4,)"), NULL, f, 16},
      {DICT("<c8", "False", "(2,)"), NULL, f, 16},
      {DICT("<f4", "False", "(5,)"), NULL, f, 16},
      {DICT("<f4", "False", "(3,)"), NULL, f, 16},
      {DICT("<f4", "False", "(4611686018427387904, 4)"), NULL, f, 16},
      {"{}\n", NULL, f, 16},
  };
  char data[1000];
  (void)state;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    check(test_write_file("x.npy", data, make_npy(data, rows[r].dict, rows[r].data, rows[r].bytes)), rows[r].printed);
  size_t n = make_npy(data, rows[0].dict, f, sizeof f);
  for (size_t k = 0; k < n; k++) check(test_write_file("x.npy", data, k), NULL); /* cut short anywhere */
  unsigned seed = 3;
  for (int round = 0; round < 500; round++) { /* a byte changed: a value or none, never a crash */
    char changed[1000];
    memcpy(changed, data, n);
    seed = seed * 1103515245u + 12345u;
    changed[seed / 65536u % n] = (char)(seed >> 8);
    tn__value_read(c, test_write_file("x.npy", changed, n));
    tn_clear_error(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(files)};
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
