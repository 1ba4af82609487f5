/* Windows that overlap, in the registers of a thread: whatever the sizes, the steps, the dtypes and the edges, what is
 * reduced over them is what the graph says, on each kind of GPU, with each number of outputs of a thread; schedules are
 * compared with their graphs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <string.h>

typedef struct side { /* of an image: its length, elements beyond its ends, and windows */
  int size, beyond, window, step, apart;
} side;

typedef struct windows { /* of the lines and columns of x[images,lines,columns] */
  const char *name, *dtype, *of, *by; /* what is made of an element, "mul": with itself; and how that is summed up */
  int images;
  side side[2];
  bool inside; /* what is beyond the ends does not count; else it is nought */
} windows;

static const windows rows[] = {
    {"lines that overlap", "f32", "neg", "rmax", 3, {{14, 0, 3, 1, 1}, {9, 0, 1, 1, 1}}, false},
    {"lines by steps of two", "f16", "abs", "rmax", 2, {{17, 0, 3, 2, 1}, {9, 0, 1, 1, 1}}, false},
    {"both", "f32", "abs", "sum", 2, {{14, 0, 3, 1, 1}, {17, 0, 3, 1, 1}}, false},
    {"beyond the ends", "bf16", "neg", "rmax", 2, {{12, 1, 3, 1, 1}, {20, 0, 2, 2, 1}}, true},
    {"noughts beyond the ends", "f16", "abs", "sum", 2, {{11, 1, 2, 1, 1}, {19, 2, 5, 2, 1}}, false},
    {"steps of two", "f16", "neg", "rmin", 1, {{17, 0, 5, 2, 1}, {32, 0, 7, 1, 1}}, false},
    {"squares", "f32", "mul", "sum", 2, {{10, 1, 3, 1, 1}, {16, 0, 4, 4, 1}}, true},
    {"elements apart", "f64", "neg", "prod", 2, {{17, 0, 3, 2, 2}, {18, 0, 2, 2, 1}}, false},
    {"windows that follow each other", "i32", "neg", "rmax", 1, {{12, 0, 3, 3, 1}, {40, 0, 4, 4, 1}}, false},
    {"bytes", "u8", "not", "rmax", 1, {{9, 0, 2, 1, 1}, {32, 0, 8, 4, 1}}, false},
    {"a length that nothing divides", "f32", "neg", "rmin", 2, {{15, 0, 3, 1, 1}, {16, 0, 2, 1, 1}}, false},
    {"more than there are registers for", "f32", "neg", "rmax", 1, {{19, 0, 8, 1, 1}, {24, 0, 9, 3, 1}}, false},
};

static int padded(const side *s) { return s->size + 2 * s->beyond; }
static int outputs(const side *s) { return (padded(s) - s->apart * (s->window - 1) - 1) / s->step + 1; }

static void text_of(const windows *r, char *out, size_t size) {
  const side *a = &r->side[0], *b = &r->side[1];
  const char *t = r->dtype, *least = !strcmp(r->by, "rmax") ? "-inf" : !strcmp(r->by, "rmin") ? "inf" : "0";
  int c = r->images, h = padded(a), w = padded(b), n = 0, at = 3;
#define PUT(...) n += snprintf(out + n, size - (size_t)n, __VA_ARGS__)
  PUT("%%1 = param %s[%d,%d,%d] %d %d %d {0 0}\n", t, c, a->size, b->size, c, a->size, b->size);
  PUT("%%2 = %s %s[%d,%d,%d] %%1%s\n", r->of, t, c, a->size, b->size, strcmp(r->of, "mul") ? "" : " %1");
  PUT("%%3 = pad %s[%d,%d,%d] %%2 0 0 %d %d %d %d\n", t, c, h, w, a->beyond, a->beyond, b->beyond, b->beyond);
  if (r->inside) {
    PUT("%%4 = const bool {1}\n%%5 = reshape bool[1,1,1] %%4 1 1 1\n");
    PUT("%%6 = expand bool[%d,%d,%d] %%5 %d %d %d\n", c, a->size, b->size, c, a->size, b->size);
    PUT("%%7 = pad bool[%d,%d,%d] %%6 0 0 %d %d %d %d\n", c, h, w, a->beyond, a->beyond, b->beyond, b->beyond);
    PUT("%%8 = const %s {%s}\n%%9 = reshape %s[1,1,1] %%8 1 1 1\n", t, least, t);
    PUT("%%10 = expand %s[%d,%d,%d] %%9 %d %d %d\n", t, c, h, w, c, h, w);
    PUT("%%11 = where %s[%d,%d,%d] %%7 %%3 %%10\n", t, c, h, w);
    at = 11;
  }
  int oh = outputs(a), ow = outputs(b);
  PUT("%%%d = window %s[%d,%d,%d,%d] %%%d {1 %d %d %d}\n", at + 1, t, c, oh, a->window, w, at, a->window, a->step,
      a->apart);
  PUT("%%%d = window %s[%d,%d,%d,%d,%d] %%%d {3 %d %d %d}\n", at + 2, t, c, oh, a->window, ow, b->window, at + 1,
      b->window, b->step, b->apart);
  PUT("%%%d = %s %s[%d,%d,%d] %%%d {2 4}\n", at + 3, r->by, t, c, oh, ow, at + 2);
  PUT("%%%d = sink void %%%d {\"outputs\"}\n", at + 4, at + 3);
#undef PUT
}

static void try(const char *device, const tn__variant *v, const windows *r, const char *step, bool plain) {
  char why[512], text[2048];
  text_of(r, text, sizeof text);
  if (!coverage_takes(device, v, step, text, plain, why, sizeof why))
    fail_msg("%s, %s, %s: %s\n%s", r->name, v->name, device, why, text);
}

/* How many outputs a thread has, where windows along lines overlap: the most, up to the variant's, of which there is a
 * whole number */
static bool has_several(const windows *r, int most) {
  int n = outputs(&r->side[0]);
  while (most > 1 && n % most) most--;
  return most > 1 && r->side[0].step % r->side[0].apart == 0 && r->side[0].step < r->side[0].apart * r->side[0].window;
}

static void all_windows(void **state) {
  static const char *const devices[] = {"ref:sm_80", "ref:sm_90", "ref:opencl"};
  int seen = 0;
  (void)state;
  for (uint32_t n = 0; tn__variant_at(n); n++) {
    const tn__variant *v = tn__variant_at(n);
    if (v->windows < 2) continue;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      if (has_several(&rows[i], v->windows))
        try(devices[(n + i) % 3], v, &rows[i], rows[i].side[1].window == 1 ? "windows" : "outputs", i % 2);
    seen++;
  }
  assert_int_equal(seen, 4);
}

/* Neighbours in memory, of which there are enough for packs: what their windows share; lines of whole packs, and one at
 * whose end there is no memory for a pack */
static void neighbours(void **state) {
  static const windows images[] = {
      {"neighbours", "f32", "neg", "rmax", 1, {{262, 0, 1, 1, 1}, {262, 0, 5, 1, 1}}, false},
      {"steps", "f16", "neg", "rmax", 1, {{131, 0, 1, 1, 1}, {1024, 0, 2, 2, 1}}, false},
      {"an odd line", "f32", "neg", "rmax", 1, {{1, 0, 1, 1, 1}, {17, 0, 3, 2, 1}}, false},
  };
  static const char *const step[] = {"windows", "windows", "threads"};
  (void)state;
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    try("ref:sm_90", tn__variant_find("windows"), &images[i], step[i], i % 2);
}

/* What is loaded under gates, beyond the ends, is so far from one place; where all of it is there, or in a language
 * whose compilers are not known to need that, places are what they are (render/groups.c). */
static void from_one_place(void **state) {
  static const windows images[] = {
      {"beyond", "f16", "neg", "rmax", 64, {{4, 1, 3, 3, 1}, {100, 1, 5, 5, 1}}, true},
      {"within", "f16", "neg", "rmax", 64, {{6, 0, 3, 3, 1}, {102, 0, 5, 5, 1}}, true},
  };
  (void)state;
  for (int i = 0; i < 2; i++)
    for (int d = 0; d < 2; d++) {
      const char *device = d ? "ref:opencl" : "ref:sm_90";
      char text[2048];
      text_of(&images[i], text, sizeof text);
      tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
      assert_non_null(c);
      char *all = tn_explain_text_string(c, text), *source = all ? strstr(all, "\n# source") : NULL;
      if (!source) fail_msg("%s: %s", device, tn_last_error(c)->text);
      if (!strstr(source, " = tn_from(b") != (i || d)) fail_msg("%s, %s:\n%s", images[i].name, device, source);
      tn_string_free(all);
      tn_ctx_close(c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_windows), cmocka_unit_test(neighbours),
                                     cmocka_unit_test(from_one_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
