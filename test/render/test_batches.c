/* Loops of a group's threads whose loads come first, several turns at a time (render/groups.c): what the text means is
 * read back and compared with the program, whatever the number of turns; and results are what plain loops give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
  const char *name, *dtype, *of[4]; /* what is made of an element, one after the other */
  int type, rows, blocks, size, columns, beyond; /* blocks of so many make a row, but for elements beyond its end */
  bool batched;
} shape;

static const shape shapes[] = {
    {"gates, whole batches", "f32", {"neg"}, TN_F32, 5, 3, 32768, 1, 200, true},
    {"gates, turns that are no whole batch", "f32", {"neg"}, TN_F32, 5, 3, 20480, 1, 200, true},
    {"gates, two turns", "f64", {"neg"}, TN_F64, 5, 3, 4096, 1, 100, true},
    {"gates of bf16", "bf16", {"neg"}, TN_BF16, 3, 3, 24576, 1, 8000, true},
    {"no gates, little done", "f32", {"neg"}, TN_F32, 13, 1, 16384, 1, 0, false},
    {"no gates, much done", "f32", {"sqrt", "exp"}, TN_F32, 13, 1, 16384, 1, 0, true},
    {"rows of no packs", "f32", {"neg"}, TN_F32, 3, 1, 20003, 1, 0, false},
};

/* y[i, b, k] = the largest over j of what is made of x[i, b size + j, k] */
static void body_of(const shape *s, char *text, size_t room) {
  long long row = (long long)(s->blocks * s->size - s->beyond) * s->columns, all = s->rows * row,
            out = (long long)s->rows * s->blocks * s->columns;
  int n = 0, at = 16;
#define PUT(...) n += snprintf(text + n, room - (size_t)n, __VA_ARGS__)
  PUT("%%1 = param %s[%lld] %lld {0 -1}\n%%2 = range index %d {loop 0 output}\n", s->dtype, out, out, s->rows);
  PUT("%%3 = range index %d {loop 1 output}\n%%4 = range index %d {loop 2 output}\n", s->blocks, s->columns);
  PUT("%%5 = range index %d {reduce 3 reduction}\n%%6 = mul index %%3 %d\n", s->size, s->size);
  PUT("%%7 = add index %%6 %%5\n%%8 = lt bool %%7 %d\n", s->blocks * s->size - s->beyond);
  PUT("%%9 = mul index %%2 %lld\n%%10 = mul index %%7 %d\n%%11 = add index %%9 %%10\n", row, s->columns);
  PUT("%%12 = add index %%11 %%4\n%%13 = param %s[%lld] %lld {1 -1}\n", s->dtype, all, all);
  PUT("%%14 = load %s %%13 %%12%s\n%%15 = const %s {1}\n", s->dtype, s->beyond ? " %8" : "", s->dtype);
  PUT("%%16 = where %s %%8 %%14 %%15\n", s->dtype);
  for (int i = 0; i < 4 && s->of[i]; i++, at++) PUT("%%%d = %s %s %%%d\n", at + 1, s->of[i], s->dtype, at);
  PUT("%%%d = reduce %s %%%d %%5 {max 1}\n%%%d = mul index %%2 %d\n", at + 1, s->dtype, at, at + 2, s->blocks);
  PUT("%%%d = add index %%%d %%3\n%%%d = mul index %%%d %d\n", at + 3, at + 2, at + 4, at + 3, s->columns);
  PUT("%%%d = add index %%%d %%4\n%%%d = store void %%1 %%%d %%%d %%2 %%3 %%4\n", at + 5, at + 4, at + 6, at + 5,
      at + 1);
  PUT("%%%d = sink void %%%d {\"kernel\"}\n", at + 7, at + 6);
#undef PUT
  assert_true(n > 0 && (size_t)n < room);
}

/* Whole numbers, the largest of a row anywhere in it */
static tn_tensor *numbers(tn_ctx *c, const shape *s) {
  long long all = (long long)s->rows * (s->blocks * s->size - s->beyond) * s->columns;
  tn_tensor *x = tn_mod_scalar(tn_mul_scalar(tn_arange(c, TN_I64, 0, (double)all, 1), 7919), 8191);
  return tn_cast(tn_where_scalar(tn_ge_scalar(x, 8185), tn_sub_scalar(x, 8180), 1), (tn_dtype)s->type);
}

static void *results(const char *device, const shape *s, size_t *bytes) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  char text[2000];
  void *got = NULL;
  assert_non_null(c);
  body_of(s, text, sizeof text);
  tn_scope(c) {
    tn_tensor *in[] = {NULL, numbers(c, s)}, *out[1];
    if (tn_run_text(c, text, 2, in, 1, out) != 1)
      fail_msg("%s, %s: %s\n%s", s->name, device, tn_last_error(c)->text, text);
    *bytes = tn_nbytes(out[0]);
    got = malloc(*bytes);
    assert_non_null(got);
    assert_int_equal(tn_read(out[0], got, *bytes), TN_OK);
  }
  char *all = tn_explain_text_string(c, text), *source = all ? strstr(all, "\n# source") : NULL;
  assert_non_null(source);
  if (!strcmp(device, "ref:sm_90") && !strstr(source, "#pragma unroll 1\n") == s->batched)
    fail_msg("%s: %s", s->name, strstr(source, "__global__"));
  tn_string_free(all);
  tn_ctx_close(c);
  return got;
}

static void as_plain_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    size_t size, bytes;
    void *want = results("ref", &shapes[i], &size), *got = results("ref:sm_90", &shapes[i], &bytes);
    assert_int_equal(size, bytes);
    if (memcmp(got, want, size)) fail_msg("%s: other bits", shapes[i].name);
    free(got);
    free(want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
