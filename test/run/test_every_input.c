/* The f32 functions of one argument, through kernels of the cpu device or of that which $TENET_DEVICE names, against
 * the C library's in double (the bounds of ir/math.inc) and against the same text compiled into this program (the same
 * bits).  Those of f64 that are own text on the CPU: the same bits there, of a sample.
 *
 * test_every_input                      a sample of the inputs
 * test_every_input --all FILE [NAME...] all 2^32 inputs of each function, or of these; appends a line for each to FILE
 * (a minute of 4 cores each) */
#include "ir/math_c.inc"
#include "ir/math.inc"
#include "ir/math_f64.inc"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/pool.h"
#include "ir/ctx.h"
#include "support/device.h"
#include "support/ulps.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLE = 1 << 18, CHUNK = 1 << 23, SLICE = 1 << 16 };
static const uint32_t step = 16381; /* of a sample's inputs: prime, so that all low bits occur */

typedef struct function {
  const char *name;
  tn_tensor *(*kernel)(tn_tensor *);
  float (*text)(float);
  double (*exact)(double);
  double bound;
} function;
static float inverse_root(float x) { return 1.0f / tn_sqrt_f32(x); }
static double exact_inverse_root(double x) { return 1 / sqrt(x); }
static const function functions[] = {
#define ROW(op, name, bound) {#name, tn_##name, tn_##name##_f32, name, bound},
    TN_MATH_1(ROW)
    /* rounded once, and once more */
    {"sqrt", tn_sqrt, tn_sqrt_f32, sqrt, 0.5},
    {"rsqrt", tn_rsqrt, inverse_root, exact_inverse_root, 1.5},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* What a slice, or all of them, came to. */
typedef struct tally {
  double worst;
  uint32_t at;      /* the input's bits */
  uint64_t unlike;  /* results with other bits than the text's here; all NaN are one */
} tally;

typedef struct chunk {
  const function *f;
  const float *got;
  uint32_t first, by;
  tally of[CHUNK / SLICE];
} chunk;

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void add(tally *sum, const tally *t) {
  if (t->worst > sum->worst) sum->worst = t->worst, sum->at = t->at;
  sum->unlike += t->unlike;
}

static void compare_slice(void *arg, int64_t slice, int thread) {
  chunk *k = arg;
  tally t = {0};
  (void)thread;
  for (uint32_t i = (uint32_t)slice * SLICE, end = i + SLICE; i < end; i++) {
    uint32_t at = (k->first + i) * k->by;
    float x = float_of(at), got = k->got[i], here = k->f->text(x);
    double e = error_in_ulps(got, k->f->exact((double)x));
    if (e > t.worst) t.worst = e, t.at = at;
    t.unlike += memcmp(&got, &here, sizeof got) && !(isnan(got) && isnan(here));
  }
  k->of[slice] = t;
}

static tn_program *record(tn_ctx *c, const function *f, tn_dim n, uint32_t by) {
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    tn_tensor *first = tn_program_input(p, "first", TN_U32, (tn_dim[]){1}, 1);
    tn_tensor *bits = tn_mul_scalar(tn_add(tn_arange(c, TN_U32, 0, (double)n, 1), first), by);
    tn_program_output(p, "y", f->kernel(tn_bitcast(bits, TN_F32)));
  }
  if (tn_program_end(p) != TN_OK) fail_msg("%s: %s", f->name, tn_last_error(c)->text);
  return p;
}

/* Inputs first * by for all first < count, of which n at once. */
static tally try_inputs(tn_ctx *c, const function *f, uint64_t count, uint32_t n, uint32_t by) {
  tn_program *p = record(c, f, n, by);
  float *got = malloc(n * sizeof *got);
  chunk *k = malloc(sizeof *k);
  tally sum = {0};
  assert_true(got && k);
  *k = (chunk){.f = f, .got = got, .by = by};
  for (uint64_t first = 0; first < count; first += n) {
    k->first = (uint32_t)first;
    if (tn_program_write(p, "first", (tn_dim[]){1}, 1, &k->first, sizeof k->first) != TN_OK ||
        tn_program_run(p) != TN_OK || tn_program_read(p, "y", got, n * sizeof *got) != TN_OK)
      fail_msg("%s: %s", f->name, tn_last_error(c)->text);
    tn__pool_run(c->pool, compare_slice, k, n / SLICE);
    for (uint32_t s = 0; s < n / SLICE; s++) add(&sum, &k->of[s]);
  }
  free(k);
  free(got);
  tn_program_close(p);
  return sum;
}

static tn_ctx *open_device(void) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  assert_non_null(c);
  return c;
}

static bool is_within(const function *f, const tally *t) {
  if (t->worst <= f->bound && !t->unlike) return true;
  print_error("%s: %g ulp at %a, the bound is %g; %llu results are not those of ir/math.inc here\n", f->name, t->worst,
              (double)float_of(t->at), f->bound, (unsigned long long)t->unlike);
  return false;
}

static void sample(void **state) {
  (void)state;
  tn_ctx *c = open_device();
  int bad = 0;
  for (int i = 0; i < FUNCTIONS; i++) {
    tally t = try_inputs(c, &functions[i], SAMPLE, SAMPLE, step);
    bad += !is_within(&functions[i], &t);
  }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

/* ---- f64: inputs from all over the range, and as many of ordinary size ---- */

typedef struct function_f64 {
  const char *name;
  tn_tensor *(*kernel)(tn_tensor *);
  double (*text)(double);
} function_f64;
static const function_f64 functions_f64[] = {
#define ROW_F64(op, name, bound) {#name, tn_##name, tn_##name##_f64},
    TN_MATH_TWICE(ROW_F64)};
enum { FUNCTIONS_F64 = sizeof functions_f64 / sizeof *functions_f64, SAMPLE_F64 = (1 << 16) + 3 };

static void draw_f64(double *x) {
  uint64_t bits = 1;
  for (int i = 0; i < SAMPLE_F64; i++) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    uint64_t b = bits ^ bits >> 29;
    memcpy(&x[i], &b, sizeof b);
    if (i & 1) x[i] = ldexp((double)(int64_t)b, -63 + (int)(b % 12) - 4);
    if (i % 64 < 32 && !(fabs(x[i]) < 0x1p30)) x[i] = 1 / x[i]; /* vectors without huge arguments, too */
  }
}

static void sample_f64(void **state) {
  static double x[SAMPLE_F64], got[SAMPLE_F64];
  (void)state;
  if (strcmp(device_or("cpu"), "cpu")) skip(); /* others have functions of their own */
  tn_ctx *c = open_device();
  int bad = 0;
  draw_f64(x);
  for (int k = 0; k < FUNCTIONS_F64; k++) tn_scope(c) {
      const function_f64 *f = &functions_f64[k];
      tn_tensor *y = f->kernel(tn_from(c, TN_F64, (tn_dim[]){SAMPLE_F64}, 1, x));
      assert_int_equal(tn_read(y, got, sizeof got), TN_OK);
      for (int i = 0; i < SAMPLE_F64; i++) {
        double here = f->text(x[i]);
        if (!memcmp(&got[i], &here, sizeof here) || (isnan(got[i]) && isnan(here))) continue;
        print_error("%s(%a): the kernel gives %a, the text here %a\n", f->name, x[i], got[i], here);
        bad++;
        break;
      }
    }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

/* ---- all inputs ---- */

static const char *file;
static char **chosen;
static int nchosen;

static bool is_chosen(const char *name) {
  for (int i = 0; i < nchosen; i++)
    if (!strcmp(chosen[i], name)) return true;
  return !nchosen;
}

static void put_head(tn_ctx *c, FILE *out) {
  tn_device_info d;
  assert_int_equal(tn_device_get_info(c, 0, &d), TN_OK);
  fprintf(out,
          "The f32 functions of kernels on %s (%s), for all 2^32 inputs\n"
          "ulp: the most that a result differs from the exact value (the C library's f64), in units of its last place; "
          "at: the first such input\n"
          "unlike: results whose bits are not those of ir/math.inc as the host's C compiler has it\n\n%-10s  %-8s %6s "
          "%6s  %-16s %11s %7s\n",
          d.name, d.text, "date", "function", "ulp", "bound", "at", "inputs", "unlike");
}

static void all_inputs(void **state) {
  (void)state;
  tn_ctx *c = open_device();
  FILE *out = fopen(file, "a");
  int bad = 0;
  assert_non_null(out);
  if (ftell(out) == 0) put_head(c, out);
  for (int i = 0; i < FUNCTIONS; i++) {
    const function *f = &functions[i];
    char date[16];
    if (!is_chosen(f->name)) continue;
    tally t = try_inputs(c, f, 1ull << 32, CHUNK, 1);
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(out, "%s  %-8s %6.3f %6.1f  %-16a %11llu %7llu\n", date, f->name, t.worst, f->bound, (double)float_of(t.at),
            1ull << 32, (unsigned long long)t.unlike);
    fflush(out);
    bad += !is_within(f, &t);
  }
  fclose(out);
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
  const struct CMUnitTest samples[] = {cmocka_unit_test(sample), cmocka_unit_test(sample_f64)},
                          all[] = {cmocka_unit_test(all_inputs)};
  if (argc < 3 || strcmp(argv[1], "--all")) return cmocka_run_group_tests(samples, NULL, NULL);
  file = argv[2], chosen = argv + 3, nchosen = argc - 3;
  return cmocka_run_group_tests(all, NULL, NULL);
}
