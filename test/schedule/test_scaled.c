/* Sums by index in units of what is greatest at each place (schedule/scaled.c), in every form, whatever would be
 * chosen: as far off as its head says at most, the same in any order of the updates and in every form, and what
 * floats give where an update is not finite. */
#include "device/device.h"
#include "schedule/fixed.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include "tensor/sort.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PLACES = 300, UPDATES = 1200, SUM_BITS = 62 };
enum {
  OF_PLACES,
  OF_UPDATES,
  ADDED,
  IN_SPANS,
  ONE_UNIT,
  ONE_UNIT_IN_SPANS,
  GROUPED_ADDED,
  RANKED,
  RANKED_ONE_UNIT,
  EXACT, /* this one and those behind: of f16 alone */
  EXACT_IN_SPANS,
  RANKED_EXACT,
  FORMS
};
enum { SPANS = 3, GROUP = 8 };
static const bool of_updates[FORMS] = {[OF_UPDATES] = true, [ADDED] = true, [GROUPED_ADDED] = true};
static const bool grouped[FORMS] = {[GROUPED_ADDED] = true};
static const bool one_unit[FORMS] = {
    [ONE_UNIT] = true, [ONE_UNIT_IN_SPANS] = true, [RANKED_ONE_UNIT] = true};
static const bool ranked[FORMS] = {[RANKED] = true, [RANKED_ONE_UNIT] = true, [RANKED_EXACT] = true};
static const bool in_spans[FORMS] = {[IN_SPANS] = true, [ONE_UNIT_IN_SPANS] = true, [EXACT_IN_SPANS] = true};

typedef struct sums {
  tn_dtype dtype;
  int64_t places, n, to[UPDATES + 1]; /* beyond the places: nowhere */
  float base[PLACES], upd[UPDATES + 1], got[PLACES];
} sums;

static uint64_t seed;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Bits of a number */
static int digits(int dtype) {
  return dtype == TN_F32 ? 24 : dtype == TN_F16 ? 11 : 8;
}

/* Sums of ranks of places, of which there are as many as updates */
static tn_node *sums_by_rank(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd) {
  tn_node *ranks = tn__ranks_of(c, places, idx);
  tn_node *rank = tn__cast(c, tn__op1(c, OP_CONTIG, tn__ranks_at(c, ranks, idx)), TN_I64);
  tn_node *sum = tn__op1(c, OP_CONTIG, tn__scaled_sums(c, s, idx->dim[0], rank, upd));
  return tn__gather(c, sum, tn__ranks_of_places(c, ranks, places));
}

/* {base, idx, upd}, i {form}: base with upd added at idx */
static tn_node *add(tn_ctx *c, tn__call *k) {
  tn_node *base = k->x[0], *idx = k->x[1], *upd = tn__acc(c, k->x[2]), *places = base->dim[0], *place;
  int bits = tn__bits_below(upd->dim[0]->hi);
  int64_t form = k->i[0];
  tn__scaled s = {.room = SUM_BITS - bits,
                  .bits = of_updates[form] ? bits : 0,
                  .digits = one_unit[form] && upd->dim[0]->lo > 0 ? digits(k->x[2]->dtype) : 0,
                  .spans = in_spans[form] ? SPANS : 1,
                  .group = grouped[form] ? GROUP : 1,
                  .is_added = form == ADDED || form == GROUPED_ADDED,
                  .is_exact = form >= EXACT};
  if (!s.is_added) {
    tn_node *each = ranked[form] ? sums_by_rank(c, &s, places, idx, upd) : tn__scaled_sums(c, &s, places, idx, upd);
    return tn__cast(c, tn__add(c, tn__acc(c, base), each), base->dtype);
  }
  tn_node *sum = tn__scaled_at_updates(c, &s, places, idx, upd, &place);
  return tn__scatter(c, base, place, sum);
}

static tn_tensor *from(tn_ctx *c, const sums *x, const float *v, tn_dim n) {
  tn_tensor *t = tn_from(c, TN_F32, &n, 1, v);
  return x->dtype == TN_F32 ? t : tn_cast(t, x->dtype);
}

/* Where updates go is in memory, or, of an even number of places, worked out. */
static tn_tensor *places_of(tn_ctx *c, const sums *x) {
  int64_t less[UPDATES + 1];
  for (int64_t i = 0; i < x->n; i++) less[i] = -x->to[i];
  return x->places % 2 ? tn_from(c, TN_I64, &x->n, 1, x->to) : tn_neg(tn_from(c, TN_I64, &x->n, 1, less));
}

static void add_on(const char *device, int form, sums *x) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *in[] = {from(c, x, x->base, x->places), places_of(c, x), from(c, x, x->upd, x->n)};
    tn_tensor *sum = tn__build(&(tn__call){.name = "add", .fn = add, .in = in, .nin = 3, .i = {form}});
    if (tn_read(tn_cast(sum, TN_F32), x->got, (size_t)x->places * sizeof *x->got) != TN_OK)
      fail_msg("form %d, %lld to %lld: %s", form, (long long)x->n, (long long)x->places, tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

/* What each place should have, and how far off it may be: what the head of scaled.c says, and what is rounded there */
static void expect(const sums *x, int form) {
  double unit = x->dtype == TN_F32 ? 0x1p-22 : x->dtype == TN_F16 ? 0x1p-10 : 0x1p-7;
  for (int64_t p = 0; p < x->places; p++) {
    double base = (double)x->base[p], sum = 0, greatest = 0, count = 0, got = (double)x->got[p];
    for (int64_t i = 0; i < x->n; i++) {
      if (x->to[i] != p) continue;
      sum += (double)x->upd[i], count++;
      greatest = fmax(greatest, fabs((double)x->upd[i]));
    }
    double want = base + sum, lost = count * ldexp(greatest, tn__bits_below(x->n) - SUM_BITS + 1);
    double room = lost + unit * (fabs(sum) + fabs(want)) + 0x1p-148;
    bool same = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= room;
    if (!same)
      fail_msg("form %d, %s, %lld to %lld, place %lld: %.9g, not %.9g within %g", form, tn_dtype_name(x->dtype),
               (long long)x->n, (long long)x->places, (long long)p, got, want, room);
  }
}

static float power(int64_t e) {
  return (float)ldexp(1, (int)e);
}

/* Does a unit below what is greatest of all hold all bits of all of them? */
static bool one_holds(const sums *x) {
  int greatest = -126, least = 129; /* below the least normal float as if it were that one */
  for (int64_t i = 0; i < x->n; i++) {
    int exponent = 0;
    if (!isfinite(x->upd[i])) return false;
    if (x->upd[i] == 0) continue;
    frexpf(x->upd[i], &exponent);
    if (exponent - 1 < -126) exponent = -125;
    if (exponent - 1 > greatest) greatest = exponent - 1;
    if (exponent - 1 < least) least = exponent - 1;
  }
  return greatest - least <= SUM_BITS - tn__bits_below(x->n) - digits((int)x->dtype);
}

/* Of all sizes, whose sums are less than they are, many of them at some places, or all at one; some none at all, or
 * beyond the least normal float, and some not finite */
static void draw(sums *x, tn_dtype dtype, int64_t places, int64_t n, bool near) {
  int64_t reach = dtype == TN_F16 ? 14 : 120;
  *x = (sums){.dtype = dtype, .places = places, .n = n};
  bool one = below(4) == 0, finite = below(3) > 0;
  if (near) reach = (SUM_BITS - 20 - digits((int)dtype)) / 2, finite = true;
  for (int i = 0; i < places; i++) x->base[i] = (float)(below(200) - 100);
  for (int i = 0; i < n; i++) {
    x->to[i] = one ? places / 2 : below(3) ? below(places + 6) - 3 : below(3);
    int64_t by = x->to[i] % 3 == 0 ? -reach : x->to[i] % 3 == 1 ? 0 : below(2 * reach) - reach;
    x->upd[i] = (float)(below(200) - 100) / 128 * power(by);
    if (dtype != TN_F16 && !near && below(20) == 0)
      x->upd[i] = power(-149) * (float)(below(9) << (dtype == TN_BF16 ? 16 : 0));
    if (i % 60 == 59) x->to[i] += (int64_t)1 << 32; /* beyond what 32 bits hold */
    if (i && below(4) == 0) x->upd[i] = -x->upd[i - 1];
    if (!finite && below(40) == 0) x->upd[i] = (float[]){INFINITY, -INFINITY, NAN, -0.0f}[below(4)];
  }
}

static void turn_round(sums *x) {
  for (int64_t i = 0, j = x->n - 1; i < j; i++, j--) {
    int64_t to = x->to[i];
    float upd = x->upd[i];
    x->to[i] = x->to[j], x->upd[i] = x->upd[j];
    x->to[j] = to, x->upd[j] = upd;
  }
}

static void expect_same(const sums *x, const sums *y, const char *what) {
  for (int64_t p = 0; p < x->places; p++)
    if (memcmp(&x->got[p], &y->got[p], sizeof(float)) && !(isnan(x->got[p]) && isnan(y->got[p])))
      fail_msg("%s, %lld to %lld, place %lld: %.9g and %.9g", what, (long long)x->n, (long long)x->places, (long long)p,
               (double)x->got[p], (double)y->got[p]);
}

static void test_drawn(void **s) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  static const int64_t sizes[][2] = {{1, 1}, {1, 9}, {2, 3}, {65, 1}, {65, 33}, {100, 257}, {PLACES, UPDATES}, {7, 0}};
  static sums x, other;
  int of_one = 0;
  unsigned long seen = 0;
  (void)s;
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int form = 0; form < (dtypes[t] == TN_F16 ? FORMS : EXACT); form++)
        for (int times = 0; times < 3; times++) {
          if (!is_taken(&seen)) continue;
          seed = i * 100 + (uint64_t)times * 10 + t;
          draw(&x, dtypes[t], sizes[i][0], sizes[i][1], times % 2 == 1);
          of_one += one_holds(&x);
          other = x;
          turn_round(&other);
          add_on("ref:sm_90", form, &x);
          expect(&x, form);
          add_on("ref:sm_80", form, &other);
          expect_same(&x, &other, "another order");
          if (form == OF_PLACES) continue;
          other = x;
          add_on("ref:sm_90", OF_PLACES, &other);
          if (dtypes[t] == TN_F32) expect_same(&x, &other, "another form");
        }
  const int all = (int)(sizeof sizes / sizeof *sizes) * (2 * EXACT + FORMS) * 3;
  if (!is_sampled()) assert_in_range(of_one, all / 3, all - all / 6); /* both are drawn, whatever the seed */
}

/* What goes to one place, and what comes of it; repeat: the first of them so many times */
typedef struct row {
  int repeat;
  float upd[4], want;
} row;

static void expect_row(int form, tn_dtype dtype, const row *r) {
  static sums x;
  x = (sums){.dtype = dtype, .places = 5};
  for (int k = r->repeat ? 1 - r->repeat : 0; k < 4; k++) {
    x.to[x.n] = 3;
    x.upd[x.n++] = r->upd[k > 0 ? k : 0];
  }
  add_on("ref:sm_90", form, &x);
  float got = x.got[3], want = r->want;
  if (!(isnan(want) ? isnan(got) : got == want) || x.got[2] != 0)
    fail_msg("form %d, %s, %d of %g: %.9g, not %.9g", form, tn_dtype_name(dtype), r->repeat, (double)r->upd[0],
             (double)got, (double)want);
}

static void test_rows(void **s) {
  static const row rows[] = {{0, {0x1p30f, 1, -0x1p30f, 0}, 1}, /* fifty bits below what is greatest there is room */
              {0, {0x1p127f, 0x1p-149f, -0x1p127f, -0.0f}, 0},
              {0, {0x1p-149f, 0x1p-149f, 0x1p-149f, 0}, 3 * 0x1p-149f},
              {0, {0x1p-126f, -0x1p-149f, 0, 0}, 0x0.fffffep-126f},
              {0, {0x1.fffffep127f, 0x1.fffffep127f, -0x1.fffffep127f, 0}, 0x1.fffffep127f},
              {0, {0x1.fffffep127f, 0x1.fffffep127f, 0, 0}, INFINITY},
              {1000, {0x1.8p0f, 0, 0, 0}, 1500},
              {1000, {-0x1p-149f, 0, 0, 0}, -1000 * 0x1p-149f},
              {0, {INFINITY, -1e38f, 0, 0}, INFINITY},
              {0, {-INFINITY, 0x1.fffffep127f, 5, 0}, -INFINITY},
              {0, {INFINITY, -INFINITY, 0, 0}, NAN},
              {300, {NAN, 1, 0, 0}, NAN},
              {300, {INFINITY, 0, 0, 0}, INFINITY},
              {300, {-INFINITY, 0, 0, 0}, -INFINITY},
              {0, {-0.0f, 0, 0, 0}, 0}};
  (void)s;
  for (int form = 0; form < EXACT; form++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) expect_row(form, TN_F32, &rows[r]);
}

/* The greatest and the least of f16, which no order and no size of the others loses */
static void test_rows_of_f16(void **s) {
  static const row rows[] = {{0, {65504, 0x1p-24f, -65504, 0}, 0x1p-24f},
                             {0, {0x1p-24f, 0x1p-24f, 0x1p-24f, 0}, 0x3p-24f},
                             {1000, {65504, 0, 0, 0}, INFINITY},
                             {1000, {-0x1p-24f, 0x1p-14f, 0, 0}, 0x18p-24f},
                             {0, {INFINITY, -65504, 0, 0}, INFINITY},
                             {0, {-INFINITY, 65504, 5, 0}, -INFINITY},
                             {0, {INFINITY, -INFINITY, 0, 0}, NAN},
                             {300, {NAN, 1, 0, 0}, NAN},
                             {300, {-INFINITY, 0, 0, 0}, -INFINITY},
                             {0, {-0.0f, 0, 0, 0}, 0}};
  (void)s;
  for (int form = 0; form < FORMS; form++)
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) expect_row(form, TN_F16, &rows[r]);
}

/* Two numbers at two places stay what they are, however far one is above the other, or none: one unit would not hold
 * the lower one's last bit where that is one bit too far. */
static void test_borders(void **s) {
  const float other = 0x1.000002p0f;
  static sums x;
  (void)s;
  for (int form = 0; form < EXACT; form++)
    for (int by = 32; by <= 40; by++)
      for (int top = 0; top < 2; top++) {
        x = (sums){.dtype = TN_F32, .places = 5, .n = 2, .to = {1, 4}};
        x.upd[0] = top ? INFINITY : power(by), x.upd[1] = top ? other * power(127 - by / 8) : other;
        add_on("ref:sm_90", form, &x);
        if (x.got[1] != x.upd[0] || x.got[4] != x.upd[1])
          fail_msg("form %d, by %d: %.9g and %.9g, not %.9g and %.9g", form, by, (double)x.got[1], (double)x.got[4],
                   (double)x.upd[0], (double)x.upd[1]);
      }
}

/* Do all turns of what adds n updates in spans begin in order, none of them behind others of its block? */
static bool begin_in_order(const char *text, tn_dim spans, tn_dim n) {
  char name[64];
  snprintf(name, sizeof name, "_%lld_%lld,1) ", (long long)spans, (long long)n);
  const char *note = strstr(text, name), *end = note ? strchr(note, '\n') : NULL, *starts = note;
  return end && (!(starts = strstr(note, "starts(")) || starts > end);
}

/* Which form is taken of how many to how many, said by the steps of what front ends ask for: exponents for each place
 * and words beside them, which are added to in spans where they are many, one exponent for all where numbers are short;
 * words of updates; exponents of groups of places; sums added to a base in memory; units of f16; sums of ranks of
 * places, in either.  f64, and what is added on devices without words of 64 bits go other ways. */
static void test_choice(void **s) {
  static const struct {
    const char *device;
    tn_dtype dtype;
    tn_dim places, n;
    bool computed;                /* something is made of the sums */
    const char *greatest, *words; /* buffers; NULL: none such */
    bool added;
    const char *one, *spans; /* the exponent for all, and the loop over spans; NULL: none such */
    const char *bits;        /* those of places, where sums are those of ranks; NULL: they are not */
  } rows[] = {
      {"ref:sm_90", TN_BF16, 8286204, 12590500, false, "buffer i32 8286204 ", "buffer i64 8286204 ", false,
       "buffer i32 1 ", "range index 3 ", NULL},
      {"ref:sm_90", TN_F32, 8286204, 12590500, false, "buffer i32 8286204 ", "buffer i64 8286204 ", false, NULL,
       "range index 3 ", NULL},
      {"ref:sm_90", TN_BF16, 2286204, 12590500, false, "buffer i32 2286204 ", "buffer i64 2286204 ", false,
       "buffer i32 1 ", NULL, NULL},
      {"ref:sm_90", TN_BF16, 17000000, 30000, false, "buffer i32 531250 ", "buffer i64 30000 ", true, NULL, NULL, NULL},
      {"ref:sm_90", TN_BF16, 17000000, 680001, false, "buffer i32 680001 ", "buffer i64 680001 ", false,
       "buffer i32 1 ", NULL, "buffer u32 531250 "},
      {"ref:sm_90", TN_BF16, 15466496, 966656, false, "buffer i32 966656 ", "buffer i64 966656 ", false,
       "buffer i32 1 ", NULL, "buffer u32 483328 "},
      {"ref:sm_90", TN_F32, 4194304, 127913, true, "buffer i32 4194304 ", "buffer i64 127913 ", true, NULL, NULL,
       NULL},
      {"ref:sm_90", TN_F32, 4194304, 300000, false, "buffer i32 4194304 ", "buffer i64 300000 ", false, NULL, NULL,
       NULL},
      {"ref:sm_90", TN_F16, 4000000, 2000000, false, NULL, "buffer i64 4000000 ", false, NULL, NULL,
       "buffer u32 250000 "},
      {"ref:sm_90", TN_F16, 8000000, 4000000, false, NULL, "buffer i64 8000000 ", false, NULL, "range index 3 ",
       "buffer u32 500000 "},
      {"ref:sm_90", TN_F16, 2000000, (1 << 23) - 1, false, NULL, "buffer i64 2000000 ", false, NULL, NULL,
       "buffer u32 125000 "},
      {"ref:sm_90", TN_F16, 2000000, 1 << 23, false, "buffer i32 2000000 ", "buffer i64 2000000 ", false,
       "buffer i32 1 ", NULL, NULL},
      {"ref:sm_90", TN_F16, 1048576, 2097152, false, NULL, "buffer i64 2097152 ", false, NULL, NULL, NULL},
      {"ref:sm_90", TN_F16, 21318997, 2823607, false, NULL, "buffer i64 2823607 ", false, NULL, NULL,
       "buffer u32 666219 "},
      {"ref:sm_90", TN_BF16, 21318997, 2823607, false, "buffer i32 2823607 ", "buffer i64 2823607 ", false,
       "buffer i32 1 ", NULL, "buffer u32 666219 "},
      {"ref:sm_90", TN_F64, 4194304, 127913, true, NULL, NULL, false, NULL, NULL, NULL},
      {"ref:opencl", TN_F32, 4194304, 127913, true, NULL, NULL, false, NULL, NULL, NULL}};
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = rows[i].device, .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", rows[i].dtype, &rows[i].places, 1),
                *to = tn_program_input(p, "to", TN_I64, &rows[i].n, 1),
                *upd = tn_program_input(p, "upd", rows[i].dtype, &rows[i].n, 1), *sum = tn_index_add(base, 0, to, upd);
      if (rows[i].computed) sum = tn_tanh(sum);
      assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      if (tn_program_end(p) != TN_OK) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
      char *text = tn_program_explain_string(p);
      bool greatest = strstr(text, " {max}\n") != NULL;
      if (greatest != (rows[i].greatest != NULL) || (greatest && !strstr(text, rows[i].greatest)) ||
          (rows[i].words && !strstr(text, rows[i].words)) ||
          (rows[i].bits != NULL) != (strstr(text, " {or}\n") != NULL) ||
          (rows[i].bits && !strstr(text, rows[i].bits)) ||
          (greatest && (rows[i].one != NULL) != (strstr(text, "buffer i32 1 ") != NULL)) ||
          (rows[i].spans && (!strstr(text, rows[i].spans) || !begin_in_order(text, 3, rows[i].n))) ||
          (greatest && rows[i].added != (strstr(text, "{distinct}") != NULL)))
        fail_msg("row %zu:\n%s", i, text);
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

/* As many of the greatest f16 as are taken to fit into a word do, by the least of f16. */
static void test_fits(void **s) {
  const int64_t most = (1 << 23) - 1, greatest = 65504ll << -TN__F16_LOWEST;
  (void)s;
  assert_true(tn__is_exact_in_words(most) && greatest <= INT64_MAX / most);
  assert_false(tn__is_exact_in_words(most + 1));
}

/* What overlapping windows of half floats give back is a sum of some, which may be beyond all half floats: the gradient
 * of numbers that are taken, then gone through by windows, is not in units of f16.  That of no windows is. */
static void test_sums_before(void **s) {
  const tn_dim places = 4100000, n = 2000000, window = 16;
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (int windows = 0; windows < 2; windows++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *table = tn_program_input(p, "table", TN_F32, &places, 1),
                *to = tn_program_input(p, "to", TN_I64, &n, 1), *taken = tn_take(table, to, 0), *grad;
      const tn_dim *by_shape = windows ? &window : &n;
      tn_tensor *by = tn_program_input(p, "by", TN_F16, by_shape, 1);
      if (windows) taken = tn_unfold(taken, 0, window, 1, 1);
      tn_tensor *loss = tn_sum(tn_mul(tn_cast(taken, TN_F16), by), NULL, 0, false);
      assert_int_equal(tn_grad(loss, 1, &table, &grad), TN_OK);
      assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      bool in_units = strstr(text, "buffer u32 256250 ") || strstr(text, "buffer u32 125000 "); /* bits, two of each */
      if (in_units == (windows == 1)) fail_msg("windows %d:\n%s", windows, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Places that memory has in another order than that in which they look for their sums have no ranks, which would take
 * least by their numbers alone. */
static void test_turned(void **s) {
  const tn_dim rows = 2, places = 7733248, n = 600000;
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *base = tn_program_input(p, "base", TN_BF16, (tn_dim[]){rows, places}, 2),
              *to = tn_program_input(p, "to", TN_I64, &n, 1),
              *upd = tn_program_input(p, "upd", TN_BF16, (tn_dim[]){rows, n}, 2);
    assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 1, to, upd)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    if (strstr(text, " {or}\n")) fail_msg("ranks:\n%s", text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Places for several passes over the updates are stored in four bytes each, whether they are worked out or stand in
 * memory in eight, and the passes begin with the last span. */
static void test_narrow_places(void **s) {
  const tn_dim places = 12754138, n = 5091200;
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (int stand = 0; stand < 2; stand++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F16, &places, 1), *to = tn_program_input(p, "to", TN_I64, &n, 1),
                *upd = tn_program_input(p, "upd", TN_F16, &n, 1);
      tn_tensor *sum = stand ? tn_index_add(base, 0, to, upd) : tn_scatter_add(base, 0, to, upd);
      assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      if (!strstr(text, "range index 4 ") || !strstr(text, "buffer i32 5091200 "))
        fail_msg("places are wide:\n%s", text);
      const char *turn = strstr(text, "range index 4 "), *end = turn ? strstr(turn, "storeadd") : NULL,
                 *from_last = turn ? strstr(turn, "const i64 {3}\n") : NULL;
      if (!end || !from_last || from_last > end)
        fail_msg("spans are gone through from the first to the last:\n%s", text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn), cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_rows_of_f16),
                                     cmocka_unit_test(test_borders), cmocka_unit_test(test_choice),
                                     cmocka_unit_test(test_fits), cmocka_unit_test(test_sums_before),
                                     cmocka_unit_test(test_turned), cmocka_unit_test(test_narrow_places)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
