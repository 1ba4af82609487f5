/* What is computed of sums at few places and of many other places (schedule/touched.c): as if all sums stood in memory
 * first, to the bit, and where that form is taken. */
#include "device/device.h"
#include "tenet/tenet.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4999, WIDEST = 3, UPDATES = 90 };
static const float NEXT_TO_NOTHING = 1e-15f; /* of a launch: else so few places are not worth one more */

static uint64_t seed = 20261127;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

typedef struct given {
  tn_dtype dtype;
  tn_dim n, width;
  int64_t to[UPDATES];
  float base[PLACES * WIDEST], upd[UPDATES * WIDEST], more[PLACES * WIDEST], got[PLACES * WIDEST];
} given;

/* Whole numbers, whose sums are the same in any order; some are 0 of either sign, or no numbers.  No update is -0: sums
 * of several begin with 0. */
static void draw(given *x) {
  static const float rare[] = {-0.0f, INFINITY, -INFINITY, NAN, 0};
  for (tn_dim i = 0; i < PLACES * x->width; i++) {
    x->base[i] = below(9) ? (float)(below(41) - 20) : rare[below(5)];
    x->more[i] = below(9) ? (float)(below(41) - 20) / 16 : rare[below(5)];
  }
  for (int k = 0; k < UPDATES; k++) x->to[k] = below(3) ? below(PLACES + 20) - 10 : below(2) ? below(3) : PLACES - 1;
  for (tn_dim i = 0; i < UPDATES * x->width; i++) x->upd[i] = below(9) ? (float)(below(41) - 20) : rare[1 + below(2)];
}

static tn_tensor *from(tn_ctx *c, const given *x, const float *v, tn_dim rows) {
  tn_tensor *t = tn_from(c, TN_F32, (tn_dim[]){rows, x->width}, 2, v);
  if (x->width == 1) t = tn_reshape(t, &rows, 1);
  return x->dtype == TN_F32 ? t : tn_cast(t, x->dtype);
}

/* What is made of the sums; `shown`: the sums are wanted, too */
enum { ADDED, CHOSEN, TWICE, UNTOUCHED, SUMMED, SHOWN, COMPUTED, POSTS };
static tn_tensor *made(int post, tn_tensor *sum, tn_tensor *more) {
  switch (post) {
  case ADDED:
  case SHOWN: return tn_add(sum, more);
  case CHOSEN: return tn_where(tn_lt(sum, more), tn_mul(sum, more), tn_abs(sum));
  case TWICE: return tn_sub(tn_mul(sum, sum), tn_maximum(sum, more));
  case SUMMED: return tn_sum(tn_abs(sum), NULL, 0, false);
  case COMPUTED: return tn_add(sum, tn_exp(more));
  default: return sum;
  }
}

static void compute(const char *device, int post, given *x, const char *verify) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = verify});
  assert_non_null(c);
  if (tn__device_get(c, 0)->target.group) tn__device_get(c, 0)->target.launch = NEXT_TO_NOTHING;
  tn_scope(c) {
    tn_tensor *base = from(c, x, x->base, PLACES), *more = from(c, x, x->more, PLACES), *upd = from(c, x, x->upd, x->n);
    tn_tensor *y = made(post, tn_index_add(base, 0, tn_from(c, TN_I64, &x->n, 1, x->to), upd), more);
    if (tn_read(tn_cast(y, TN_F32), x->got, (size_t)(PLACES * x->width) * sizeof *x->got) != TN_OK)
      fail_msg("post %d: %s", post, tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

static void test_values(void **s) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  static const tn_dim sizes[][2] = {{UPDATES, 1}, {UPDATES, WIDEST}, {1, 1}};
  static given x, want;
  (void)s;
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int post = 0; post < SUMMED; post++) {
        x = (given){.dtype = dtypes[t], .n = sizes[i][0], .width = sizes[i][1]};
        draw(&x);
        want = x;
        compute("ref", post, &want, NULL);
        compute("ref:sm_90", post, &x, t == 0 && i == 1 ? "strict" : NULL);
        for (tn_dim k = 0; k < PLACES * x.width; k++)
          if (memcmp(&x.got[k], &want.got[k], sizeof(float)) && !(isnan(x.got[k]) && isnan(want.got[k])))
            fail_msg("%s, %lld by %lld, post %d, element %lld: %g, not %g", tn_dtype_name(x.dtype), (long long)x.n,
                     (long long)x.width, post, (long long)k, (double)x.got[k], (double)want.got[k]);
      }
}

/* Is anything added to floats in memory?  Words of whole numbers are, where these say what a sum is. */
static bool adds_to_floats(const char *text) {
  bool adds = false;
  for (const char *at = text; (at = strstr(at, " = storeadd void ")); at++) {
    char to[32];
    int number = 0;
    sscanf(at, " = storeadd void %%%d ", &number);
    snprintf(to, sizeof to, "\n%%%d = ", number);
    const char *of = NULL; /* where it stands last before: numbers begin anew in each kernel */
    for (const char *x = text; (x = strstr(x, to)) && x < at; x++) of = x + strlen(to);
    adds |= of && (!strncmp(of, "param f32", 9) || !strncmp(of, "after f32", 9));
  }
  return adds;
}

/* Nothing is added to memory then: places' own values are stored where others were.  Of no use where nothing is made of
 * the sums, they are wanted themselves, or all are summed up; or where updates are many, or what goes in besides is
 * computed. */
static void test_choice(void **s) {
  static const struct {
    int post;
    tn_dim places, n;
    bool touched;
  } rows[] = {{ADDED, 1 << 25, 77, true},      {CHOSEN, 1 << 25, 77, true},    {TWICE, 1 << 25, 77, true},
              {ADDED, 1 << 25, 16384, true},   {UNTOUCHED, 1 << 25, 77, false}, {SUMMED, 1 << 25, 77, false},
              {SHOWN, 1 << 25, 77, false},     {COMPUTED, 1 << 25, 77, false},  {ADDED, 1 << 22, 77, true},
              {ADDED, 1 << 17, 77, false},     {ADDED, 1 << 25, 1 << 23, false}};
  (void)s;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, &rows[r].places, 1),
                *to = tn_program_input(p, "to", TN_I64, &rows[r].n, 1),
                *upd = tn_program_input(p, "upd", TN_F32, &rows[r].n, 1),
                *more = tn_program_input(p, "more", TN_F32, &rows[r].places, 1), *sum = tn_index_add(base, 0, to, upd);
      assert_int_equal(tn_program_output(p, "y", made(rows[r].post, sum, more)), TN_OK);
      if (rows[r].post == SHOWN) assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      bool stores = strstr(text, "{distinct}") && !adds_to_floats(text);
      if (stores != rows[r].touched) fail_msg("row %zu:\n%s", r, text);
      /* what goes through all waits for nothing, and leaves room for what tells which updates go to the same place */
      bool leaves_room = strstr(text, "requires(b1 distinct) room(") != NULL;
      if (rows[r].touched && !leaves_room) fail_msg("row %zu leaves no room:\n%s", r, text);
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
