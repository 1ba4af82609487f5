/* Concatenation and stacking: the values, whatever the number of parts; how many kernels they take; and that a kernel
 * has a limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/ctx.h"
#include "support/device.h"
#include "support/forms.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

enum { MOST = 70, ROWS = 3, COLUMNS = 5, ROOM = MOST * ROWS * COLUMNS * 4 };

/* Values whose bits tell what became of them: zeros of both signs, infinities, NaN */
static float value(int part, int i) {
  static const float odd[] = {-0.0f, 0.0f, INFINITY, -INFINITY, NAN};
  int k = part * 131 + i;
  return k % 7 == 0 ? odd[k / 7 % 5] : (float)k * 0.25f - 20;
}

typedef struct layout {
  const char *name;
  int axis;
  bool stacked;
  int (*length)(int part); /* of part i along the axis */
} layout;

static int as_it_is(int part) { return (void)part, ROWS; }
static int growing(int part) { return part % 4; } /* some are empty */
static int pairs(int part) { return part < 20 ? 2 : 1; }

static const layout layouts[] = {
    {"rows", 0, false, as_it_is},
    {"columns", 1, false, growing},
    {"rows of all lengths", 0, false, growing},
    {"two lengths", 0, false, pairs},
    {"stacked in front", 0, true, as_it_is},
    {"stacked behind", 2, true, as_it_is},
};

static void shape_of(const layout *l, int part, int64_t dim[2]) {
  dim[0] = ROWS;
  dim[1] = COLUMNS;
  if (!l->stacked) dim[l->axis] = l->length(part);
}

static tn_tensor *part_of(tn_ctx *c, const layout *l, int part) {
  int64_t dim[2];
  shape_of(l, part, dim);
  float v[ROWS * COLUMNS] = {0};
  for (int64_t i = 0; i < dim[0] * dim[1]; i++) v[i] = value(part, (int)i);
  return tn_from(c, TN_F32, dim, 2, v);
}

/* The joined array, in plain C; gives its elements */
static int expected(const layout *l, int n, float *out) {
  int64_t total = 0, at = 0, dim[2];
  for (int p = 0; p < n; p++) {
    shape_of(l, p, dim);
    total += l->stacked ? 1 : dim[l->axis];
  }
  for (int p = 0; p < n; p++) {
    shape_of(l, p, dim);
    for (int64_t i = 0; i < dim[0]; i++)
      for (int64_t j = 0; j < dim[1]; j++) {
        int64_t to;
        if (l->stacked) to = l->axis == 0 ? (p * dim[0] + i) * COLUMNS + j : (i * COLUMNS + j) * total + p;
        else to = l->axis == 0 ? (at + i) * COLUMNS + j : i * total + at + j;
        out[to] = value(p, (int)(i * dim[1] + j));
      }
    at += l->stacked ? 1 : dim[l->axis];
  }
  return (int)(l->stacked ? n * ROWS * COLUMNS : l->axis == 0 ? total * COLUMNS : ROWS * total);
}

static tn_tensor *join(const layout *l, tn_tensor **part, int n) {
  return l->stacked ? tn_stack(part, n, l->axis) : tn_concatenate(part, n, l->axis);
}

static tn_ctx *open_as(const char *device, tn_mode mode, form f) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .threads = 2, .quiet = 1});
  assert_non_null(c);
  take_form(tn__device_get(c, 0), f);
  return c;
}

static void same_bits(const float *got, const float *want, int n, const char *what, int parts) {
  for (int i = 0; i < n; i++)
    if (memcmp(&got[i], &want[i], sizeof *got) && !(isnan(got[i]) && isnan(want[i])))
      fail_msg("%s, %d parts: element %d is %g, not %g", what, parts, i, (double)got[i], (double)want[i]);
}

static void check_values(tn_ctx *c, const int *counts, size_t ncounts) {
  static float want[ROOM], got[ROOM];
  for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++)
    for (size_t m = 0; m < ncounts; m++) tn_scope(c) {
      static unsigned long seen;
      if (!is_taken(&seen)) continue;
      tn_tensor *part[MOST];
      int n = counts[m], size = expected(&layouts[k], n, want);
      for (int i = 0; i < n; i++) part[i] = part_of(c, &layouts[k], i);
      OK(tn_read(join(&layouts[k], part, n), got, (size_t)size * sizeof *got));
      same_bits(got, want, size, layouts[k].name, n);
      /* parts that are computed, and a reader behind the join */
      for (int i = 0; i < n; i++) part[i] = tn_neg(part[i]);
      OK(tn_read(tn_transpose(tn_neg(join(&layouts[k], part, n)), 0, 1), got, (size_t)size * sizeof *got));
      OK(tn_read(tn_neg(join(&layouts[k], part, n)), got, (size_t)size * sizeof *got));
      same_bits(got, want, size, layouts[k].name, n);
    }
  tn_ctx_close(c);
}

static const int many[] = {1, 2, 3, 15, 16, 17, 33, 40, 64, MOST}, few[] = {3, 18};

static void values_strict(void **s) {
  (void)s;
  check_values(open_as(device_or("ref"), TN_MODE_STRICT, PLAIN), many, sizeof many / sizeof *many);
}
static void values_optimised(void **s) {
  (void)s;
  check_values(open_as(device_or("ref"), TN_MODE_DEFAULT, OPTIMISED), many, sizeof many / sizeof *many);
}
static void values_groups(void **s) {
  (void)s;
  check_values(open_as(device_or("ref"), TN_MODE_DEFAULT, GROUPS), many, sizeof many / sizeof *many);
}
static void values_compiled(void **s) {
  (void)s;
  check_values(open_as(device_or("cpu"), TN_MODE_DEFAULT, PLAIN), few, sizeof few / sizeof *few);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

static int kernels(tn_ctx *c, tn_tensor **out, int n) {
  tn_program_info info;
  OK(tn_get_info(out, n, &info));
  return info.kernels;
}

static void counts(void **s) {
  (void)s;
  tn_ctx *c = open_as("ref", TN_MODE_DEFAULT, OPTIMISED);
  static const struct {
    int layout, parts, kernels;
  } rows[] = {{0, 2, 1}, {0, 16, 1}, {0, 17, 2}, {0, 64, 4}, {1, 12, 1}, {3, 36, 3}, {4, 16, 1}, {4, 70, 5}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) tn_scope(c) {
    tn_tensor *part[MOST];
    for (int p = 0; p < rows[i].parts; p++) part[p] = part_of(c, &layouts[rows[i].layout], p);
    tn_tensor *out = join(&layouts[rows[i].layout], part, rows[i].parts);
    int got = kernels(c, &out, 1);
    if (got != rows[i].kernels)
      fail_msg("%d parts, %s: %d kernels, not %d", rows[i].parts, layouts[rows[i].layout].name, got, rows[i].kernels);
    if (rows[i].parts > 16) continue;
    /* a short one stands inside of what is made of it */
    for (int p = 0; p < rows[i].parts; p++) part[p] = tn_sin(part[p]);
    out = tn_sum(tn_relu(join(&layouts[rows[i].layout], part, rows[i].parts)), NULL, 0, false);
    assert_int_equal(kernels(c, &out, 1), 1);
  }
  tn_ctx_close(c);
}

/* Parts that others want, too; reductions as parts; one operand many times; a join among the parts of a join. */
static void mixed(void **s) {
  (void)s;
  tn_ctx *c = open_as("ref", TN_MODE_STRICT, OPTIMISED);
  tn_scope(c) {
    tn_tensor *part[40], *sum[40], *both[2], *out[4];
    float got[40 * 15], one[15], twice[30];
    for (int i = 0; i < 40; i++)
      part[i] = tn_sin(tn_full(c, TN_F32, DIMS(ROWS, COLUMNS), i)),
      sum[i] = tn_sum(part[i], (const int[]){1}, 1, false);
    out[0] = tn_stack(part, 40, 0);
    out[1] = tn_stack(sum, 40, 1);
    out[2] = part[7];
    both[0] = out[0], both[1] = tn_neg(out[0]);
    out[3] = tn_concatenate(both, 2, 1);
    OK(tn_realize(out, 4));
    OK(tn_read(out[2], one, sizeof one));
    OK(tn_read(out[0], got, sizeof got));
    assert_memory_equal(got + 7 * 15, one, sizeof one);
    OK(tn_read(tn_select(out[3], 0, 7), twice, sizeof twice));
    assert_memory_equal(twice, one, sizeof one);
    for (int i = 0; i < 15; i++) assert_true(twice[15 + i] == -one[i]);
    OK(tn_read(out[1], got, ROWS * 40 * sizeof *got));
    for (int r = 0; r < ROWS; r++) {
      float total = 0;
      for (int i = 0; i < COLUMNS; i++) total += one[r * COLUMNS + i];
      assert_true(got[r * 40 + 7] == total);
    }
    for (int i = 0; i < 40; i++) part[i] = out[2];
    OK(tn_read(tn_stack(part, 40, 0), got, sizeof got));
    for (int i = 0; i < 40; i++) assert_memory_equal(got + i * 15, one, sizeof one);
  }
  tn_ctx_close(c);
}

/* d/dx of sum(join(x)^2) is 2 x, for each part; and the choices are decided when the kernels are made. */
static void gradients(void **s) {
  (void)s;
  tn_ctx *c = open_as("ref", TN_MODE_STRICT, OPTIMISED);
  static const int counts_[] = {2, 5, 16, 17, 40};
  for (size_t m = 0; m < sizeof counts_ / sizeof *counts_; m++) tn_scope(c) {
    tn_tensor *part[40], *grad[40];
    int n = counts_[m];
    for (int i = 0; i < n; i++) part[i] = tn_full(c, TN_F32, DIMS(1 + i % 3, COLUMNS), i + 0.5);
    for (int i = 0; i < n; i++) OK(tn_realize(&part[i], 1));
    OK(tn_grad(tn_sum(tn_square(tn_concatenate(part, n, 0)), NULL, 0, false), n, part, grad));
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    OK(tn_explain(grad, n, f));
    fclose(f);
    const char *from = strstr(text, "# kernels, optimised"), *to = strstr(text, "# source");
    assert_true(from && to && from < to);
    const char *choice = strstr(from, "= lt ");
    if (n > 16) assert_true(!choice || choice > to); /* a short join may be stored together with what is made of it */
    free(text);
    for (int i = 0; i < n; i++) {
      float got[3 * COLUMNS];
      size_t elements = (size_t)(1 + i % 3) * COLUMNS;
      OK(tn_read(grad[i], got, elements * sizeof *got));
      for (size_t k = 0; k < elements; k++) assert_true(got[k] == 2 * ((float)i + 0.5f));
    }
  }
  tn_ctx_close(c);
}

/* Lengths that are known only when it runs, one of them none at all */
static void symbolic(void **s) {
  (void)s;
  enum { PARTS = 20, LONGEST = 6 };
  tn_ctx *c = open_as("ref", TN_MODE_STRICT, OPTIMISED);
  tn_scope(c) {
    tn_dim b = tn_dim_var(c, "B", 0, LONGEST);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(b, 2)), *part[PARTS];
    for (int i = 0; i < PARTS; i++) part[i] = i % 3 == 1 ? tn_full(c, TN_F32, DIMS(2, 2), i) : tn_mul_scalar(x, i);
    OK(tn_program_output(p, "y", tn_concatenate(part, PARTS, 0)));
    OK(tn_program_end(p));
    for (int n = 0; n <= LONGEST; n++) {
      float in[2 * LONGEST] = {0}, got[PARTS * 2 * LONGEST], want[PARTS * 2 * LONGEST];
      size_t at = 0;
      for (int i = 0; i < 2 * n; i++) in[i] = (float)(i + 1);
      for (int i = 0; i < PARTS; i++)
        for (int k = 0; k < (i % 3 == 1 ? 4 : 2 * n); k++) want[at++] = i % 3 == 1 ? (float)i : in[k] * (float)i;
      OK(tn_program_write(p, "x", DIMS(n, 2), in, (size_t)n * 2 * sizeof *in));
      OK(tn_program_run(p));
      OK(tn_program_read(p, "y", got, at * sizeof *got));
      assert_memory_equal(got, want, at * sizeof *got);
    }
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* ---- by chance --------------------------------------------------------------------------------------------------- */

typedef struct matrix {
  tn_tensor *t;
  int rows, columns;
  float *v;
} matrix;

static uint32_t roll(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static matrix fresh(tn_ctx *c, int rows, int columns, int number) {
  matrix m = {NULL, rows, columns, malloc(sizeof(float) * (size_t)(rows * columns + 1))};
  for (int i = 0; i < rows * columns; i++) m.v[i] = value(number, i);
  m.t = tn_from(c, TN_F32, DIMS(rows, columns), m.v);
  return m;
}

static matrix negated(matrix x) {
  matrix m = {tn_neg(x.t), x.rows, x.columns, malloc(sizeof(float) * (size_t)(x.rows * x.columns + 1))};
  for (int i = 0; i < x.rows * x.columns; i++) m.v[i] = -x.v[i];
  return m;
}

/* Rows from..to-1, with the columns as the rows of the result where `turned` */
static matrix cut(matrix x, int from, int to, bool turned) {
  int rows = to - from;
  matrix m = {tn_slice(x.t, 0, from, to, 1), turned ? x.columns : rows, turned ? rows : x.columns,
              malloc(sizeof(float) * (size_t)(rows * x.columns + 1))};
  if (turned) m.t = tn_transpose(m.t, 0, 1);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < x.columns; j++)
      m.v[turned ? j * rows + i : i * x.columns + j] = x.v[(from + i) * x.columns + j];
  return m;
}

/* All that have as many columns as the first, one below the other, so that they are drawn again and again */
static matrix joined(const matrix *pool, int n, uint64_t *state) {
  tn_tensor *part[40];
  int parts = 2 + (int)roll(state, 38), first = (int)roll(state, (uint32_t)n), rows = 0;
  matrix m = {.columns = pool[first].columns, .v = malloc(sizeof(float) * 40 * 4000)};
  for (int i = 0; i < parts; i++) {
    const matrix *x = &pool[i ? roll(state, (uint32_t)n) : (uint32_t)first];
    if (x->columns != m.columns || rows + x->rows > 60) x = &pool[first];
    if (rows + x->rows > 100) {
      parts = i;
      break;
    }
    memcpy(m.v + rows * m.columns, x->v, sizeof(float) * (size_t)(x->rows * x->columns));
    rows += x->rows;
    part[i] = x->t;
  }
  m.rows = rows;
  m.t = tn_concatenate(part, parts, 0);
  return m;
}

/* Joins of joins, of slices of them, of what is computed from them: all as outputs of one schedule, or the last alone.
 */
static void by_chance(void **s) {
  (void)s;
  enum { STEPS = 14, ROUNDS = 60 };
  uint64_t state = 7;
  for (int f = 0; f < FORMS; f++) {
    tn_ctx *c = open_as("ref", f == PLAIN ? TN_MODE_STRICT : TN_MODE_DEFAULT, (form)f);
    for (int round = 0; round < ROUNDS; round++) tn_scope(c) {
      matrix pool[STEPS];
      tn_tensor *out[STEPS];
      for (int i = 0; i < STEPS; i++) {
        const matrix *x = i ? &pool[roll(&state, (uint32_t)i)] : NULL;
        uint32_t way = i < 2 ? 0 : roll(&state, 5);
        if (way == 0) pool[i] = fresh(c, 1 + (int)roll(&state, 3), 1 + (int)roll(&state, 3), i);
        else if (way == 1) pool[i] = negated(*x);
        else if (way == 2 && x->columns < 40)
          pool[i] = cut(*x, (int)roll(&state, (uint32_t)x->rows), x->rows, roll(&state, 2) && x->rows < 40);
        else pool[i] = joined(pool, i, &state);
        if (!pool[i].t) fail_msg("form %d, round %d: %s", f, round, tn_last_error(c)->text);
        out[i] = pool[i].t;
      }
      if (round % 2) OK(tn_realize(out, STEPS));
      for (int i = round % 2 ? 0 : STEPS - 1; i < STEPS; i++) {
        int n = pool[i].rows * pool[i].columns;
        float *got = malloc(sizeof *got * (size_t)n);
        OK(tn_read(out[i], got, sizeof *got * (size_t)n));
        same_bits(got, pool[i].v, n, "drawn", round);
        free(got);
      }
      for (int i = 0; i < STEPS; i++) free(pool[i].v);
    }
    tn_ctx_close(c);
  }
}

/* ---- few long parts, on devices with work groups ----------------------------------------------------------------- */

typedef struct parted {
  const char *what;
  int rows, columns, axis;
  float launch; /* seconds */
  bool apart, joint; /* stored by kernels of their own; by one launch */
} parted;

static const parted parteds[] = {
    {"below each other", 2, 256, 0, 1e-12f, true, false},
    {"side by side", 3, 256, 1, 1e-12f, true, false},
    {"in one launch", 2, 256, 0, 9e-10f, true, true},
    {"in one launch, side by side", 4, 256, 1, 2e-9f, true, true},
    {"in runs that threads in step would share", 3, 16, 1, 1e-12f, false, false},
    {"in less time than a launch", 2, 256, 0, 2e-6f, false, false},
};

/* Stored part by part, or chosen for each element, whichever takes less */
static void few_long_parts(void **s) {
  enum { PARTS = 4, MOST_ELEMENTS = PARTS * 4 * 260 };
  (void)s;
  for (size_t i = 0; i < sizeof parteds / sizeof *parteds; i++) {
    const parted *p = &parteds[i];
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn__target *t = &tn__device_get(c, 0)->target;
    t->launch = p->launch;
    if (p->joint) t->latency = 1e-13f, t->start = 0; /* it takes no longer than a few launches */
    tn_scope(c) {
      static float v[PARTS][MOST_ELEMENTS], got[MOST_ELEMENTS];
      tn_tensor *part[PARTS], *all;
      int rows[PARTS], columns[PARTS], across = 0;
      for (int k = 0; k < PARTS; k++) {
        rows[k] = p->rows + (p->axis == 0 && k == 1);
        columns[k] = p->columns + (p->axis == 1 && k == 1 ? 3 : 0);
        across += p->axis ? columns[k] : 0;
        for (int j = 0; j < rows[k] * columns[k]; j++) v[k][j] = value(k, j);
        part[k] = tn_from(c, TN_F32, DIMS(rows[k], columns[k]), v[k]);
        if (k == 2) part[k] = tn_neg(part[k]);
      }
      all = tn_concatenate(part, PARTS, p->axis);
      char *text = NULL;
      size_t size;
      FILE *f = open_memstream(&text, &size);
      OK(tn_explain(&all, 1, f));
      fclose(f);
      const char *from = strstr(text, "# kernels, optimised"), *choice = strstr(from, "= where ");
      bool chosen = choice && choice < strstr(from, "# source");
      if (chosen == p->apart) fail_msg("parts %s: %s", p->what, chosen ? "chosen for each element" : "apart");
      bool joint = strstr(from, "abreast(");
      if (joint != p->joint) fail_msg("parts %s: %s", p->what, joint ? "one launch" : "several launches");
      free(text);
      OK(tn_read(all, got, tn_nbytes(all)));
      for (int k = 0, at = 0; k < PARTS; at += p->axis ? columns[k] : rows[k] * columns[k], k++)
        for (int j = 0; j < rows[k] * columns[k]; j++) {
          float want = k == 2 ? -v[k][j] : v[k][j];
          int to = p->axis ? j / columns[k] * across + at + j % columns[k] : at + j;
          if (memcmp(&got[to], &want, sizeof want) && !isnan(want))
            fail_msg("parts %s: %d of part %d is %g", p->what, j, k, (double)got[to]);
        }
    }
    tn_ctx_close(c);
  }
}

/* Lanes that lie in one piece load no other one: what lies between the ends of pieces has a loop's body of its own. */
static void pieces_in_lanes(void **s) {
  enum { PIECES = 5, TOTAL = 300 + 3 + 1 + 500 + 40 };
  static const int length[PIECES] = {300, 3, 1, 500, 40};
  (void)s;
  for (int backwards = 0; backwards < 2; backwards++) {
    tn_ctx *c = open_as("cpu", TN_MODE_DEFAULT, OPTIMISED);
    tn_scope(c) {
      int v[TOTAL], got[TOTAL];
      tn_tensor *part[PIECES];
      for (int i = 0; i < TOTAL; i++) v[i] = i * i - 7;
      for (int k = 0, at = 0; k < PIECES; at += length[k++]) part[k] = tn_from(c, TN_I32, DIMS(length[k]), v + at);
      tn_tensor *all = tn_concatenate(part, PIECES, 0);
      if (backwards) all = tn_flip(all, (int[]){0}, 1);
      char *text = NULL;
      size_t size;
      FILE *f = open_memstream(&text, &size);
      OK(tn_explain(&all, 1, f));
      fclose(f);
      const char *source = strstr(text, "# source");
      if (!backwards && (!strstr(source, " <= 299) {") || !strstr(source, "304 <= "))) fail_msg("%s", source);
      free(text);
      OK(tn_read(all, got, sizeof got));
      for (int i = 0; i < TOTAL; i++) assert_int_equal(got[i], v[backwards ? TOTAL - 1 - i : i]);
    }
    tn_ctx_close(c);
  }
}

/* All half floats, each NaN with its bits, are joined: they come out as they went in, in lanes as narrow as they are,
 * in whole vectors and in what is left of one. */
static void halves_as_they_are(void **s) {
  static const int dtypes[] = {TN_F16, TN_BF16};
  enum { PARTS = 3, ALL = 1 << 16 };
  static uint16_t bits[PARTS][ALL], got[PARTS * ALL], want[PARTS * ALL];
  uint64_t state = 7;
  (void)s;
  for (int i = 0; i < PARTS; i++)
    for (int k = 0; k < ALL; k++) bits[i][k] = (uint16_t)(k * (2 * i + 1) + i);
  for (int round = 0; round < 6; round++) {
    const int dtype = dtypes[round % 2], rows = 3 + (int)roll(&state, 20);
    const int columns = ALL / 32 + (int)roll(&state, 500);
    const bool computed = round > 3; /* with one that is made of others: no cells, and NaN may come out quiet */
    const int all = dtype == TN_F16 ? 0x7c00 : 0x7f80;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *part[PARTS];
      for (int i = 0; i < PARTS; i++)
        part[i] = tn_from(c, (tn_dtype)dtype, DIMS(rows, columns), bits[i]);
      if (computed) part[1] = tn_add_scalar(tn_mul_scalar(part[1], 0), 1);
      tn_tensor *y = tn_stack(part, PARTS, 1);
      char *text = tn_explain_string(&y, 1);
      assert_non_null(text);
      if (!strstr(text, "tn_where_u16x") != computed) fail_msg("computed %d:\n%s", computed, text);
      free(text);
      OK(tn_read(y, got, tn_nbytes(y)));
      for (int r = 0; r < rows; r++)
        for (int i = 0; i < PARTS; i++)
          memcpy(want + (r * PARTS + i) * columns, bits[i] + r * columns, (size_t)columns * sizeof *want);
      for (int k = 0; k < rows * PARTS * columns; k++)
        if (got[k] != want[k] &&
            !(computed && (k / columns % PARTS == 1 || ((want[k] & 0x7fff) > all && (got[k] & 0x7fff) > all))))
          fail_msg("round %d, element %d: %04x for %04x", round, k, got[k], want[k]);
    }
    tn_ctx_close(c);
  }
}

/* ---- large kernels ----------------------------------------------------------------------------------------------- */

/* Compilers are not linear: a long chain is cut, and no kernel has many more nodes than the limit. */
static void limit(void **s) {
  (void)s;
  tn_ctx *c = open_as("ref", TN_MODE_DEFAULT, OPTIMISED);
  tn_scope(c) {
    tn_tensor *x = tn_full(c, TN_F32, DIMS(64, 64), 0.25), *y = x, *g;
    OK(tn_realize(&x, 1));
    for (int i = 0; i < 200; i++) y = i % 3 == 0 ? tn_sin(y) : i % 3 == 1 ? tn_mul(y, x) : tn_tanh(y);
    OK(tn_grad(tn_sum(y, NULL, 0, false), 1, &x, &g));
    char *text = NULL;
    size_t size, longest = 0, lines = 0;
    FILE *f = open_memstream(&text, &size);
    OK(tn_explain(&g, 1, f));
    fclose(f);
    *strstr(text, "# source") = 0;
    char *rest = strstr(text, "# kernels, optimised"), *line;
    while ((line = strsep(&rest, "\n"))) {
      lines = *line == '#' ? 0 : lines + 1;
      if (lines > longest) longest = lines;
    }
    free(text);
    if (longest > 700) fail_msg("a kernel of %zu nodes", longest);
    assert_true(longest > 100); /* it was cut where it had to be, not everywhere */
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_strict),   cmocka_unit_test(values_optimised), cmocka_unit_test(values_groups),
      cmocka_unit_test(values_compiled), cmocka_unit_test(counts),           cmocka_unit_test(mixed),
      cmocka_unit_test(gradients),       cmocka_unit_test(symbolic),         cmocka_unit_test(by_chance),
      cmocka_unit_test(few_long_parts),  cmocka_unit_test(pieces_in_lanes),
      cmocka_unit_test(halves_as_they_are), cmocka_unit_test(limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
