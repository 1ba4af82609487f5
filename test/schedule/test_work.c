/* What kernels compute grows as the graph does: no reduction is repeated for each of its readers.  Counted, not timed
 * (support/work.h); the fuzzer asks the same of every graph that it draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/text.h"
#include "support/pipeline.h"
#include "support/work.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* times what the graph asks for; sizes are such that a reduction repeated for each reader is more */
static const double MOST = 20;

typedef struct shape {
  int64_t rows, columns;
} shape;

typedef struct row {
  const char *name, *text; /* R and C are sizes, RC all elements */
  shape size[5];
} row;

#define ROW_SOFTMAX \
  "%1 = param f32[R,C] R C {0 0}\n%2 = rmax f32[R] %1 {1}\n%3 = reshape f32[R,1] %2 R 1\n" \
  "%4 = expand f32[R,C] %3 R C\n" \
  "%5 = neg f32[R,C] %4\n%6 = add f32[R,C] %1 %5\n%7 = exp f32[R,C] %6\n%8 = sum f32[R] %7 {1}\n" \
  "%9 = reshape f32[R,1] %8 R 1\n%10 = expand f32[R,C] %9 R C\n%11 = div f32[R,C] %7 %10\n"
#define PRODUCT(dtype) \
  "%1 = param " dtype "[R,C] R C {0 0}\n%2 = param " dtype "[R,C] R C {1 0}\n" \
  "%3 = contract " dtype "[R,R] %1 %2 {0 1 1 1}\n%4 = const " dtype " {0}\n%5 = reshape " dtype "[1,1] %4 1 1\n" \
  "%6 = expand " dtype "[R,R] %5 R R\n%7 = max " dtype "[R,R] %3 %6\n"

static const row rows[] = {
    {"softmax",
     ROW_SOFTMAX "%12 = sink void %11 {\"outputs\"}\n",
     {{1, 16384}, {1, 600000}, {20, 100000}, {200, 5000}, {3000, 40}}},
    {"the sum of softmax",
     ROW_SOFTMAX "%12 = sum f32 %11 {0 1}\n%13 = sink void %12 {\"outputs\"}\n",
     {{1, 16384}, {1, 600000}, {20, 100000}, {200, 5000}, {3000, 40}}},
    {"the sum of each softmax",
     ROW_SOFTMAX "%12 = sum f32[R] %11 {1}\n%13 = sink void %12 {\"outputs\"}\n",
     {{1, 16384}, {7, 30000}, {20, 100000}, {200, 5000}, {3000, 40}}},
    {"sums of softmax over rows",
     ROW_SOFTMAX "%12 = sum f32[C] %11 {0}\n%13 = sink void %12 {\"outputs\"}\n",
     {{1, 16384}, {7, 30000}, {20, 100000}, {200, 5000}, {3000, 40}}},
    {"two products, cut off at 0 in between",
     PRODUCT("bf16") "%8 = param bf16[C,R] C R {2 0}\n%9 = contract bf16[R,C] %7 %8 {0 1 1 1}\n"
                     "%10 = sink void %9 {\"outputs\"}\n",
     {{130, 128}, {64, 64}, {20, 300}, {300, 20}}},
    {"two products, a choice in between",
     PRODUCT("bf16") "%8 = le bool[R,R] %3 %6\n%9 = where bf16[R,R] %8 %6 %3\n%10 = param bf16[C,R] C R {2 0}\n"
                     "%11 = contract bf16[R,C] %9 %10 {0 1 1 1}\n%12 = sink void %11 {\"outputs\"}\n",
     {{130, 128}, {64, 64}, {20, 300}, {300, 20}}},
    {"a product that is stored, too",
     PRODUCT("f32") "%8 = param f32[R,R] R R {2 0}\n%9 = contract f32[R,R] %7 %8 {0 1 1 1}\n"
                    "%10 = min f32[R,R] %9 %7\n%11 = sink void %10 %7 {\"outputs\"}\n",
     {{130, 128}, {64, 64}, {20, 300}, {300, 20}}},
    {"windows side by side, put together again",
     "%1 = param f32[R,C] R C {0 0}\n%2 = exp f32[R,C] %1\n%3 = fold f32[RC] %2 RC {0 C C 1}\n"
     "%4 = sink void %3 {\"outputs\"}\n",
     {{64, 64}, {20, 3000}, {3000, 20}}},
    {"few windows with gaps",
     "%1 = param f32[R,C] R C {0 0}\n%2 = exp f32[R,C] %1\n%3 = fold f32[RC] %2 RC {0 C 1 R}\n"
     "%4 = sink void %3 {\"outputs\"}\n",
     {{64, 64}, {20, 3000}, {3000, 20}}},
    {"softmax of a product",
     PRODUCT("f32") "%8 = rmax f32[R] %7 {1}\n%9 = reshape f32[R,1] %8 R 1\n%10 = expand f32[R,R] %9 R R\n"
                    "%11 = neg f32[R,R] %10\n%12 = add f32[R,R] %7 %11\n%13 = exp f32[R,R] %12\n"
                    "%14 = sum f32[R] %13 {1}\n%15 = reshape f32[R,1] %14 R 1\n%16 = expand f32[R,R] %15 R R\n"
                    "%17 = div f32[R,R] %13 %16\n%18 = sink void %17 {\"outputs\"}\n",
     {{128, 96}, {64, 64}, {20, 300}, {300, 20}}},
};

/* The text with its sizes */
static void put_sizes(const char *text, shape size, char *out) {
  for (const char *at = text; *at; at++) {
    bool is_size = (*at == 'R' || *at == 'C') && at > text && strchr("[, ", at[-1]), is_all = is_size && at[1] == 'C';
    long long number = is_all ? size.rows * size.columns : *at == 'R' ? size.rows : size.columns;
    if (is_size) out += sprintf(out, "%lld", number);
    else *out++ = *at;
    at += is_all;
  }
  *out = 0;
}

typedef struct job {
  const char *text;
  double times; /* what the kernels do, by what the graph asks for */
} job;

static void compile(tn_ctx *c, void *arg) {
  job *j = arg;
  tn__device *d = tn__device_get(c, 0);
  pipeline p = {.c = c, .dev = d, .key = tn__parse(c, j->text)};
  double work = 0;
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  pipeline_lower(&p);
  for (uint32_t i = 0; i < p.s->items.n; i++) work += work_of_kernel(p.kernel[i]);
  j->times = work / work_of_graph(c, p.key);
}

static double times(const row *r, shape size, const char *device, tn_mode mode) {
  char *text = malloc(8 * strlen(r->text));
  put_sizes(r->text, size, text);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .quiet = 1, .no_library = 1});
  job j = {.text = text};
  assert_non_null(c);
  if (!tn__ctx_run(c, "work", compile, &j)) fail_msg("%s on %s: %s", r->name, device, tn_last_error(c)->text);
  tn_ctx_close(c);
  free(text);
  return j.times;
}

static void all_rows(void **s) {
  static const char *const device[] = {"ref", "ref:cpu", "ref:sm_80", "ref:sm_90", "ref:opencl"};
  int bad = 0;
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t d = 0; d < sizeof device / sizeof *device; d++)
      for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++)
        for (int k = 0; k < 5 && rows[i].size[k].rows; k++) {
          double v = times(&rows[i], rows[i].size[k], device[d], (tn_mode)mode);
          if (v <= MOST) continue;
          print_error("%s, %lld x %lld, %s, mode %d: %.0f times what the graph asks for\n", rows[i].name,
                      (long long)rows[i].size[k].rows, (long long)rows[i].size[k].columns, device[d], mode, v);
          bad++;
        }
  assert_int_equal(bad, 0);
}

/* What is dear and wanted in several windows is computed once and stored, where it stays in caches; f64 is dearer. */
static void windows_share(void **s) {
  static const row window = {
      "windows of a dear function",
      "%1 = param f64[R,C] R C {0 0}\n%2 = tanh f64[R,C] %1\n%3 = tanh f64[R,C] %2\n"
      "%4 = window f64[R,999,3] %3 {1 3 1 1}\n%5 = sink void %4 {\"outputs\"}\n",
      {{0}}};
  (void)s;
  double v = times(&window, (shape){100, 1001}, "ref:cpu", TN_MODE_DEFAULT);
  if (v > 1.8) fail_msg("what windows share is computed again: %.2f times what the graph asks for", v);
}

/* ---- products by tiles ------------------------------------------------------------------------------------------- */

/* Tiles compute what is outside of the edges, too: no more than they save.  A fetch of an element counts as many
 * multiply-adds as the device does meanwhile.  Twice, for an element of a tensor core's tile is cheaper than that, but
 * is taken for no less than half of it (device/target.h). */
static const double MOST_OF_PLAIN = 2;

typedef struct drawn {
  int64_t batch, size[3]; /* of a product */
  int64_t images, channels, side, filters, window, pad; /* of a convolution, if there are images */
  bool tf32;
  int units; /* 0: the device's own */
  const char *dtype;
} drawn;

static void put_drawn(const drawn *s, char *out, size_t size) {
  long long b = s->batch, m = s->size[0], n = s->size[1], k = s->size[2], i = s->images, c = s->channels, h = s->side,
            f = s->filters, w = s->window, pad = s->pad, q = h + 2 * pad, o = q - w + 1;
  const char *t = s->dtype;
  if (!i) {
    snprintf(out, size,
             "%%1 = param %s[%lld,%lld,%lld] %lld %lld %lld {0 0}\n"
             "%%2 = param %s[%lld,%lld,%lld] %lld %lld %lld {1 0}\n"
             "%%3 = contract %s[%lld,%lld,%lld] %%1 %%2 {1 1 1 1}\n%%4 = sink void %%3 {\"outputs\"}\n",
             t, b, m, k, b, m, k, t, b, n, k, b, n, k, t, b, m, n);
    return;
  }
  snprintf(out, size,
           "%%1 = param %s[%lld,%lld,%lld,%lld] %lld %lld %lld %lld {0 0}\n"
           "%%2 = pad %s[%lld,%lld,%lld,%lld] %%1 0 0 0 0 %lld %lld %lld %lld\n"
           "%%3 = window %s[%lld,%lld,%lld,%lld,%lld] %%2 {2 %lld 1 1}\n"
           "%%4 = window %s[%lld,%lld,%lld,%lld,%lld,%lld] %%3 {4 %lld 1 1}\n"
           "%%5 = permute %s[%lld,%lld,%lld,%lld,%lld,%lld] %%4 {0 2 4 1 3 5}\n"
           "%%6 = param %s[%lld,%lld,%lld,%lld] %lld %lld %lld %lld {1 0}\n"
           "%%7 = contract %s[%lld,%lld,%lld,%lld] %%5 %%6 {0 3 1 3}\n%%8 = sink void %%7 {\"outputs\"}\n",
           t, i, c, h, h, i, c, h, h, t, i, c, q, q, pad, pad, pad, pad, t, i, c, o, w, q, w, t, i, c, o, w, o, w, w, t,
           i, o, o, c, w, w, t, f, c, w, w, f, c, w, w, t, i, o, o, f);
}

typedef struct tiling {
  const drawn *s;
  char text[2048], form[32];
  double times; /* what tiles do, by what plain loops do; 0: there are none */
} tiling;

static double cost_of(tn_ctx *c, tiling *j, tn_node *body, const tn__variant *variant) {
  const tn__target *t = &tn__device_get(c, 0)->target;
  const tn__kernel *k = tn__lower(c, &c->scratch, body, t, variant, 0);
  work_products w = work_of_products(k);
  if (!variant) *j->form = 0;
  for (uint32_t p = 0; p < k->nparts && !variant; p++)
    if (k->part[p].tile) snprintf(j->form, sizeof j->form, "%s", k->part[p].tile->form->name);
  return w.products + (double)t->fetch * w.fetched;
}

static void compile_both(tn_ctx *c, void *arg) {
  static const tn__variant no_tile = {.name = "no tile", .tile = TN__VARIANT_NONE};
  tiling *j = arg;
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__parse(c, j->text)};
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  for (uint32_t i = 0; i < p.s->items.n; i++) {
    double done = cost_of(c, j, p.s->items.v[i].body, NULL);
    if (*j->form) j->times = done / cost_of(c, j, p.s->items.v[i].body, &no_tile);
  }
}

static bool is_fair(const char *device, const drawn *s, uint32_t *tiled) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1, .tf32 = s->tf32});
  tiling j = {.s = s};
  assert_non_null(c);
  if (s->units && tn__device_get(c, 0)->target.units) tn__device_get(c, 0)->target.units = s->units;
  put_drawn(s, j.text, sizeof j.text);
  if (!tn__ctx_run(c, "work", compile_both, &j)) fail_msg("%s: %s\n%s", device, tn_last_error(c)->text, j.text);
  tn_ctx_close(c);
  *tiled += *j.form != 0;
  if (j.times <= MOST_OF_PLAIN) return true;
  print_error("%s, %d units, by %s: %.1f times plain loops'\n%s", device, s->units, j.form, j.times, j.text);
  return false;
}

static int64_t draw(uint64_t *state, int64_t most) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return 1 + (int64_t)((*state >> 33) % (uint64_t)most);
}

/* Sizes of 1 to 300; half of them small, which tiles waste most on. */
static int64_t draw_size(uint64_t *state) { return draw(state, draw(state, 2) == 1 ? 16 : 300); }

static drawn draw_shape(uint64_t *state) {
  static const int units[] = {0, 1, 4, 32};
  drawn s = {.dtype = "f32"};
  s.tf32 = draw(state, 2) == 1;
  s.units = units[draw(state, 4) - 1];
  if (draw(state, 4) == 1) s.dtype = "bf16";
  for (int i = 0; i < 3; i++) s.size[i] = draw_size(state);
  s.batch = draw_size(state);
  if (draw(state, 2) == 1) s.batch = 1;
  if (draw(state, 2) == 1) return s;
  s.images = draw(state, 40);
  s.channels = draw_size(state);
  s.filters = draw_size(state);
  s.side = draw_size(state);
  s.window = draw(state, s.side < 7 ? s.side : 7);
  s.pad = draw(state, s.window) - 1;
  return s;
}

/* Convolutions and products, one or many, on all guises. */
static void tiles(void **state) {
  static const char *const device[] = {"ref:sm_80", "ref:sm_90", "ref:opencl", "ref:cpu"};
  static const drawn known[] = {
      /* of 8 filters, by tiles of 256 columns */
      {.images = 2, .channels = 8, .side = 12, .filters = 8, .window = 3, .pad = 1, .tf32 = true, .dtype = "f32"}};
  uint64_t seed = 20261123;
  uint32_t tiled = 0, all = 2000;
  int bad = 0;
  (void)state;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) bad += !is_fair("ref:sm_90", &known[i], &tiled);
  for (uint32_t i = 0; i < all; i++) {
    drawn s = draw_shape(&seed);
    bad += !is_fair(device[i % 8 < 6 ? i % 2 : 2 + i % 2], &s, &tiled);
  }
  assert_int_equal(bad, 0);
  assert_in_range(tiled, all / 8, all); /* there was something to look at */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(windows_share),
                                     cmocka_unit_test(tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
