/* Outputs that are parts of inputs stand in their memory (schedule/shared.c), and nobody can tell by a value: whoever
 * writes, the other's value stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define OK(x) check_ok(c, x, __LINE__)
#define EXPECT(t, from, step, n) expect(c, t, from, step, n, __LINE__)

enum { N = 128, SMALL = 64 }; /* bytes of the smallest buffer: each schedule has one for what it needs meanwhile */

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

/* Is t from, from + step, ...? */
static void expect(tn_ctx *c, tn_tensor *t, double from, double step, int n, int line) {
  float v[4 * N];
  check_ok(c, tn_read(t, v, (size_t)n * sizeof *v), line);
  for (int i = 0; i < n; i++)
    if ((double)v[i] != from + i * step)
      fail_msg("line %d: element %d is %g, not %g", line, i, (double)v[i], from + i * step);
}

/* from, from + 1, ... [n], in memory */
static tn_tensor *counted(tn_ctx *c, int n, int from) {
  float v[4 * N];
  for (int i = 0; i < n; i++) v[i] = (float)(from + i);
  return tn_from(c, TN_F32, DIMS(n), v);
}

static void write(tn_ctx *c, tn_tensor *t, int n, int from) {
  float v[4 * N];
  for (int i = 0; i < n; i++) v[i] = (float)(from + i);
  OK(tn_write(t, v, (size_t)n * sizeof *v));
}

static tn_tensor *cut(tn_tensor *x, int64_t from, int64_t to) { return tn_slice(x, 0, from, to, 1); }

static tn_stats stats(tn_ctx *c) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s;
}

static const char *memory_of(tn_ctx *c, tn_tensor *t) { return tn__storage_buffer(c, t->node)->mem; }

/* Where y begins in x's memory, in bytes; -1: y has its own. */
static int64_t place_in(tn_ctx *c, tn_tensor *x, tn_tensor *y) {
  const tn__buffer *b = tn__storage_buffer(c, y->node);
  return b->of ? (const char *)b->mem - memory_of(c, x) : -1;
}

/* Each body is run with values compared by whoever verifies, and without. */
static void everywhere(void (*body)(tn_ctx *)) {
  const tn_options of[] = {{.device = device_or("ref"), .verify = "strict"},
                           {.device = "ref:sm_90", .verify = "strict"},
                           {.device = device_or("ref")},
                           {.device = device_or("cpu")},
                           {.device = device_or("ref"), .mode = TN_MODE_STRICT}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tn_options o = of[i];
    o.quiet = 1;
    tn_ctx *c = tn_ctx_open(&o);
    assert_non_null(c);
    tn_scope(c) body(c);
    assert_true(stats(c).buffer_bytes <= SMALL * (stats(c).schedules_compiled + 1)); /* and the random state */
    assert_int_equal(stats(c).handles_live, 0);
    tn_ctx_close(c);
  }
}

/* ---- what is shared, and what is not ---- */

static tn_tensor *itself(tn_tensor *x) { return tn_contiguous(x); }
static tn_tensor *detached(tn_tensor *x) { return tn_detach(x); }
static tn_tensor *reshaped(tn_tensor *x) { return tn_reshape(x, DIMS(8, 16)); }
static tn_tensor *rows(tn_tensor *x) { return cut(tn_reshape(x, DIMS(8, 16)), 2, 6); }
static tn_tensor *row_of_rows(tn_tensor *x) { return tn_slice(cut(tn_reshape(x, DIMS(4, 2, 16)), 1, 2), 1, 1, 2, 1); }
static tn_tensor *moved_ones(tn_tensor *x) {
  return tn_flip(tn_permute(tn_reshape(x, DIMS(1, 8, 1, 16)), AXES(1, 2, 0, 3)), AXES(1, 2));
}
static tn_tensor *from_4(tn_tensor *x) { return cut(x, 4, N); }
static tn_tensor *from_1(tn_tensor *x) { return cut(x, 1, N); }
static tn_tensor *from_3(tn_tensor *x) { return cut(x, 3, N); }
static tn_tensor *an_eighth(tn_tensor *x) { return cut(x, N - N / 8, N); }
static tn_tensor *less(tn_tensor *x) { return cut(x, 0, N / 8 - 1); }
static tn_tensor *one(tn_tensor *x) { return cut(x, 64, 65); }
static tn_tensor *none(tn_tensor *x) { return cut(x, 64, 64); }
static tn_tensor *columns(tn_tensor *x) { return tn_slice(tn_reshape(x, DIMS(8, 16)), 1, 0, 8, 1); }
static tn_tensor *every_other(tn_tensor *x) { return tn_slice(x, 0, 0, N, 2); }
static tn_tensor *turned(tn_tensor *x) { return tn_transpose(tn_reshape(x, DIMS(8, 16)), 0, 1); }
static tn_tensor *flipped(tn_tensor *x) { return tn_flip(x, AXES(0)); }
static tn_tensor *repeated(tn_tensor *x) { return tn_expand(tn_reshape(x, DIMS(1, N)), DIMS(2, N)); }
static tn_tensor *padded(tn_tensor *x) { return tn_pad(x, (tn_dim[]){4, 0}, 0); }
static tn_tensor *padded_and_cut(tn_tensor *x) { return cut(tn_pad(x, (tn_dim[]){4, 4}, 0), 4, N + 4); }
static tn_tensor *joined(tn_tensor *x) { return tn_concatenate((tn_tensor *[]){tn_neg(x), x}, 2, 0); }
static tn_tensor *of_joined(tn_tensor *x) { return cut(joined(x), N + 2, 2 * N); }
static tn_tensor *across_joined(tn_tensor *x) { return cut(joined(x), N - 1, 2 * N - 1); }
static tn_tensor *gradient_of_joined(tn_tensor *x) {
  tn_ctx *c = tn_ctx_of(x);
  tn_tensor *part[3] = {cut(tn_neg(x), 0, 64), cut(tn_exp(x), 0, 32), cut(tn_abs(x), 0, 32)}, *grad[3];
  OK(tn_vjp(tn_concatenate(part, 3, 0), x, 3, part, grad));
  return grad[1];
}
static tn_tensor *negated(tn_tensor *x) { return tn_neg(x); }

static const struct {
  const char *what;
  tn_tensor *(*make)(tn_tensor *x);
  int64_t at; /* byte; -1: not shared */
} forms[] = {{"itself", itself, 0},
             {"detached", detached, 0},
             {"reshaped", reshaped, 0},
             {"rows", rows, 128},
             {"a row of rows", row_of_rows, 192},
             {"axes of one element moved", moved_ones, 0},
             {"from 16 bytes on", from_4, 16},
             {"from 4 bytes on", from_1, 4},
             {"from 12 bytes on", from_3, 12},
             {"an eighth", an_eighth, 448},
             {"less than an eighth", less, -1},
             {"one element", one, -1},
             {"no element", none, -1},
             {"columns", columns, -1},
             {"every other", every_other, -1},
             {"turned", turned, -1},
             {"flipped", flipped, -1},
             {"repeated", repeated, -1},
             {"padded", padded, -1},
             {"padded and cut", padded_and_cut, 0},
             {"part of what was joined", of_joined, 8},
             {"of two that were joined", across_joined, -1},
             {"the gradient of what was joined", gradient_of_joined, 256},
             {"negated", negated, -1}};

static void each_form(tn_ctx *c) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) tn_scope(c) {
      tn_tensor *x = counted(c, N, 0), *y = forms[i].make(x), *z = tn_add_scalar(y, 0.5);
      float got[2 * N], want[2 * N];
      size_t n = tn_nbytes(y);
      OK(tn_read(z, want, n)); /* computed, and so no part of x */
      tn_stats before = stats(c);
      OK(tn_realize(&y, 1));
      tn_stats after = stats(c);
      bool shared = forms[i].at >= 0;
      if (place_in(c, x, y) != forms[i].at)
        fail_msg("%s: from byte %lld on", forms[i].what, (long long)place_in(c, x, y));
      bool same = after.kernels_run == before.kernels_run && after.buffer_bytes <= before.buffer_bytes + SMALL;
      if (n && shared != same) fail_msg("%s: is copied, or is not", forms[i].what);
      OK(tn_read(y, got, n));
      for (size_t k = 0; k < n / sizeof *got; k++)
        if (got[k] + 0.5f != want[k]) fail_msg("%s: element %zu", forms[i].what, k);
    }
}

static void by_form(void **state) {
  (void)state;
  everywhere(each_form);
}

/* A part of a part is one of the block, and one that would hold many times its memory is copied. */
static void a_chain(tn_ctx *c) {
  tn_tensor *x = counted(c, N, 0), *y = cut(x, 64, 128);
  OK(tn_realize(&y, 1));
  tn_tensor *z = cut(y, 32, 64), *u;
  OK(tn_realize(&z, 1));
  assert_int_equal(place_in(c, x, z), 96 * 4);
  u = cut(z, 16, 32);
  OK(tn_realize(&u, 1));
  assert_int_equal(place_in(c, x, u), 112 * 4);
  tn_tensor *v = cut(u, 8, 16);
  OK(tn_realize(&v, 1));
  assert_int_equal(place_in(c, x, v), -1);
  tn_release(x);
  tn_release(y);
  tn_release(z);
  EXPECT(u, 112, 1, 16);
  EXPECT(v, 120, 1, 8);
  tn_tensor *sum = tn_add(u, u);
  EXPECT(sum, 224, 2, 16);
}

static void chains(void **state) {
  (void)state;
  everywhere(a_chain);
}

/* Kernels take for granted where memory begins.  A part that begins elsewhere moves there when the first one reads it,
 * in whatever way. */
static void odd_places(tn_ctx *c) {
  for (int way = 0; way < 4; way++) tn_scope(c) {
      tn_tensor *x = counted(c, N, 0), *y = cut(x, 3, N), *z;
      OK(tn_realize(&y, 1));
      EXPECT(y, 3, 1, N - 3);
      assert_int_equal(place_in(c, x, y), 12);
      if (way == 0) z = cut(y, 1, N - 3);
      else if (way == 1) z = tn_add(cut(y, 1, N - 3), cut(x, 0, N - 4));
      else {
        tn_program *p = tn_program_begin(c);
        tn_tensor *in = way == 2 ? tn_program_input(p, "x", TN_F32, DIMS(N - 3)) : y;
        OK(tn_program_output(p, "z", tn_add(cut(in, 1, N - 3), cut(x, 0, N - 4))));
        OK(tn_program_end(p));
        if (way == 2) OK(tn_program_bind(p, "x", y));
        for (int i = 0; i < 3; i++) OK(tn_program_run(p));
        z = tn_program_result(p, "z");
        tn_program_close(p);
      }
      OK(tn_realize(&z, 1));
      assert_int_equal(place_in(c, x, y), -1);
      EXPECT(z, 4, way ? 2 : 1, N - 4);
      write(c, x, N, 1000);
      EXPECT(y, 3, 1, N - 3);
      if (!way) EXPECT(z, 4, 1, N - 4);
    }
}

static void odd(void **state) {
  (void)state;
  everywhere(odd_places);
}

/* ---- who writes ---- */

static void write_x(tn_ctx *c, tn_tensor *x) { write(c, x, N, 1000); }
static void assign_x(tn_ctx *c, tn_tensor *x) {
  OK(tn_assign(x, tn_add_scalar(x, 1000)));
  OK(tn_realize(&x, 1));
}
static void assign_slice(tn_ctx *c, tn_tensor *x) {
  OK(tn_assign(cut(x, 0, N), tn_add_scalar(cut(x, 0, N), 1000)));
  OK(tn_realize(&x, 1));
}
static void step_x(tn_ctx *c, tn_tensor *x) { /* state, whose memory changes hands */
  tn_program *p = tn_program_begin(c);
  tn_scope(c) OK(tn_assign(x, tn_add_scalar(x, 250))); /* nothing else is to hold what x was */
  OK(tn_program_end(p));
  for (int i = 0; i < 4; i++) OK(tn_program_run(p));
  tn_program_close(p);
}
static void (*const writers[])(tn_ctx *, tn_tensor *) = {write_x, assign_x, assign_slice, step_x};
enum { WRITERS = sizeof writers / sizeof *writers };

/* One is written, the other stays; both ways, with parts on either side of it. */
static void each_writer(tn_ctx *c) {
  for (int i = 0; i < 2 * WRITERS; i++) tn_scope(c) {
      tn_tensor *x = counted(c, N, 0), *y[2] = {tn_contiguous(x), cut(x, 64, 128)}, *w = i % 2 ? y[0] : x;
      OK(tn_realize(y, 2));
      assert_int_equal(place_in(c, x, y[0]), 0);
      assert_int_equal(place_in(c, x, y[1]), 64 * 4);
      writers[i / 2](c, w);
      EXPECT(x, w == x ? 1000 : 0, 1, N);
      EXPECT(y[0], w == x ? 0 : 1000, 1, N);
      EXPECT(y[1], 64, 1, 64);
      writers[i / 2](c, w);
      EXPECT(y[1], 64, 1, 64);
      tn_tensor *sum = tn_add(cut(w == x ? y[0] : x, 64, 128), y[1]);
      EXPECT(sum, 128, 2, 64);
    }
}

static void by_writer(void **state) {
  (void)state;
  everywhere(each_writer);
}

/* What is assigned another's value has memory of its own, and keeps it whoever is written. */
static void a_copy(tn_ctx *c) {
  for (int i = 0; i < 2 * WRITERS; i++) tn_scope(c) {
      tn_tensor *x = counted(c, N, 0), *y = counted(c, N, 500), *w = i % 2 ? x : y, *other = w == x ? y : x;
      OK(tn_assign(y, x));
      OK(tn_realize(&y, 1));
      assert_ptr_not_equal(memory_of(c, x), memory_of(c, y));
      writers[i / 2](c, w);
      EXPECT(w, 1000, 1, N);
      EXPECT(other, 0, 1, N);
    }
}

static void assigned(void **state) {
  (void)state;
  everywhere(a_copy);
}

/* ---- programs ---- */

static void give(tn_ctx *c, tn_program *p, int n, int from) {
  float v[4 * N];
  for (int i = 0; i < n; i++) v[i] = (float)(from + i);
  OK(tn_program_write(p, "x", DIMS(n), v, (size_t)n * sizeof *v));
}

static void look(tn_ctx *c, tn_program *p, const char *name, int n, double from, double step) {
  float v[4 * N];
  OK(tn_program_read(p, name, v, (size_t)n * sizeof *v));
  for (int i = 0; i < n; i++)
    if ((double)v[i] != from + i * step) fail_msg("%s[%d] is %g, not %g", name, i, (double)v[i], from + i * step);
}

/* x itself, two times a part of it, and something computed */
static tn_program *parts(tn_ctx *c, tn_dim n) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(n));
  OK(tn_program_output(p, "all", x));
  if (n == N) {
    OK(tn_program_output(p, "half", cut(x, 64, 128)));
    OK(tn_program_output(p, "again", cut(x, 64, 128)));
  }
  OK(tn_program_output(p, "twice", tn_add(x, x)));
  OK(tn_program_end(p));
  return p;
}

static void check_parts(tn_ctx *c, tn_program *p, double from) {
  look(c, p, "all", N, from, 1);
  look(c, p, "half", 64, from + 64, 1);
  look(c, p, "again", 64, from + 64, 1);
  look(c, p, "twice", N, 2 * from, 2);
}

static void written_inputs(tn_ctx *c) {
  tn_program *p = parts(c, N);
  tn_program_info info;
  OK(tn_program_get_info(p, &info));
  assert_int_equal(info.kernels, 1);
  tn_tensor *kept[3][3];
  for (int i = 0; i < 3; i++) {
    give(c, p, N, 100 * i);
    if (i) check_parts(c, p, 100 * i - 100); /* until the next run */
    OK(tn_program_run(p));
    check_parts(c, p, 100 * i);
    kept[i][0] = tn_program_result(p, "all");
    kept[i][1] = tn_program_result(p, "half");
    kept[i][2] = tn_program_result(p, "again");
  }
  assert_int_equal(place_in(c, kept[2][0], kept[2][1]), 64 * 4);
  assert_ptr_equal(memory_of(c, kept[2][1]), memory_of(c, kept[2][2]));
  write(c, kept[1][1], 64, 9000);
  OK(tn_program_run(p)); /* the same input once more */
  check_parts(c, p, 200);
  tn_program_close(p);
  for (int i = 0; i < 3; i++) {
    EXPECT(kept[i][0], 100 * i, 1, N);
    EXPECT(kept[i][1], i == 1 ? 9000 : 100 * i + 64, 1, 64);
    EXPECT(kept[i][2], 100 * i + 64, 1, 64);
  }
}

static void bound_inputs(tn_ctx *c) {
  tn_program *p = parts(c, N);
  tn_tensor *x = counted(c, N, 0), *y = counted(c, N, 300);
  OK(tn_program_bind(p, "x", x));
  OK(tn_program_run(p));
  tn_tensor *all = tn_program_result(p, "all"), *half = tn_program_result(p, "half");
  assert_int_equal(place_in(c, x, half), 64 * 4);
  for (int i = 0; i < WRITERS; i++) {
    writers[i](c, x);
    check_parts(c, p, i ? 1000 : 0);
    EXPECT(all, 0, 1, N);
    EXPECT(half, 64, 1, 64);
    write(c, x, N, 1000);
    OK(tn_program_run(p));
    check_parts(c, p, 1000);
  }
  OK(tn_program_bind(p, "x", y));
  tn_release(x);
  check_parts(c, p, 1000);
  OK(tn_program_run(p));
  check_parts(c, p, 300);
  OK(tn_program_bind(p, "x", all)); /* its own output, which is a part */
  OK(tn_program_run(p));
  check_parts(c, p, 0);
  EXPECT(y, 300, 1, N);
  tn_program_close(p);
  EXPECT(half, 64, 1, 64);
}

/* The same tensor for two inputs */
static void one_for_two(tn_ctx *c) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(N)), *y = tn_program_input(p, "y", TN_F32, DIMS(N));
  OK(tn_program_output(p, "a", x));
  OK(tn_program_output(p, "b", tn_reshape(y, DIMS(2, 64))));
  OK(tn_program_end(p));
  tn_tensor *t = counted(c, N, 7);
  OK(tn_program_bind(p, "x", t));
  OK(tn_program_bind(p, "y", t));
  for (int i = 0; i < 3; i++) {
    OK(tn_program_run(p));
    look(c, p, "a", N, i == 2 ? 1000 : 7, 1);
    look(c, p, "b", N, i == 2 ? 1000 : 7, 1);
    if (i == 1) write(c, t, N, 1000);
  }
  tn_program_close(p);
}

static void sizes(tn_ctx *c) {
  static const int n[] = {1, 5, 128, 0, 128, 3, 1};
  tn_program *p = parts(c, tn_dim_var(c, "n", 0, 4 * N));
  for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
    give(c, p, n[i], (int)i);
    OK(tn_program_run(p));
    look(c, p, "all", n[i], (double)i, 1);
    look(c, p, "twice", n[i], 2 * (double)i, 2);
  }
  tn_program_close(p);
}

/* ---- states ---- */

/* Each of a row of states becomes what the next one was.  All have two blocks each, by turns, however many they are: so
 * a device that records meets with the same memory every second run. */
static void history(tn_ctx *c) {
  enum { DEPTH = 12 };
  tn_tensor *s[DEPTH];
  for (int i = 0; i < DEPTH; i++) s[i] = counted(c, N, i);
  OK(tn_realize(s, DEPTH));
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    tn_tensor *was[DEPTH];
    for (int i = 0; i < DEPTH; i++) was[i] = tn_detach(s[i]);
    for (int i = 0; i + 1 < DEPTH; i++) OK(tn_assign(s[i], was[i + 1]));
    OK(tn_assign(s[DEPTH - 1], tn_add_scalar(was[DEPTH - 1], 1)));
  }
  OK(tn_program_end(p));
  const void *at[2][DEPTH];
  for (int run = 0; run < 8; run++) {
    OK(tn_program_run(p));
    for (int i = 0; i < DEPTH; i++) {
      const void *now = memory_of(c, s[i]);
      if (run >= 4) assert_ptr_equal(now, at[run % 2][i]);
      at[run % 2][i] = now;
    }
  }
  for (int i = 0; i < DEPTH; i++) EXPECT(s[i], i + 8, 1, N);
  tn_program_close(p);
}

/* The old value is an output, or what another state becomes; values change places. */
static void states(tn_ctx *c) {
  tn_tensor *w = counted(c, N, 0), *last = counted(c, N, -1), *a = counted(c, N, 1000), *b = counted(c, N, 2000);
  OK(tn_realize((tn_tensor *[]){w, last, a, b}, 4));
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    tn_tensor *was = tn_contiguous(w), *first = tn_contiguous(a);
    OK(tn_program_output(p, "was", was));
    OK(tn_assign(last, was));
    OK(tn_assign(w, tn_add_scalar(w, 10)));
    OK(tn_assign(a, b));
    OK(tn_assign(b, first));
  }
  OK(tn_program_end(p));
  tn_tensor *kept[6];
  for (int i = 0; i < 6; i++) {
    OK(tn_program_run(p));
    look(c, p, "was", N, 10 * i, 1);
    EXPECT(last, 10 * i, 1, N);
    EXPECT(w, 10 * i + 10, 1, N);
    EXPECT(a, i % 2 ? 1000 : 2000, 1, N);
    EXPECT(b, i % 2 ? 2000 : 1000, 1, N);
    kept[i] = i == 2 ? tn_program_result(p, "was") : NULL;
    if (i == 3) write(c, a, N, 1000); /* what it is */
  }
  EXPECT(kept[2], 20, 1, N);
  tn_program_close(p);
  for (int i = 0; i < WRITERS; i++) writers[i](c, w);
  EXPECT(last, 50, 1, N);
  EXPECT(kept[2], 20, 1, N);
}

/* A state becomes an input */
static void taken(tn_ctx *c) {
  tn_tensor *w = counted(c, N, -1), *x = counted(c, N, 0);
  OK(tn_realize((tn_tensor *[]){w, x}, 2));
  tn_program *p = tn_program_begin(c);
  tn_scope(c) OK(tn_assign(w, tn_program_input(p, "x", TN_F32, DIMS(N))));
  OK(tn_program_end(p));
  for (int i = 0; i < 3; i++) {
    give(c, p, N, 100 * i);
    EXPECT(w, i ? 100 * i - 100 : -1, 1, N);
    OK(tn_program_run(p));
    EXPECT(w, 100 * i, 1, N);
  }
  OK(tn_program_bind(p, "x", x));
  OK(tn_program_run(p));
  step_x(c, w);
  EXPECT(w, 1000, 1, N);
  EXPECT(x, 0, 1, N);
  OK(tn_program_run(p));
  step_x(c, x);
  EXPECT(w, 0, 1, N);
  EXPECT(x, 1000, 1, N);
  OK(tn_program_bind(p, "x", w)); /* itself */
  for (int i = 0; i < 3; i++) OK(tn_program_run(p));
  EXPECT(w, 0, 1, N);
  tn_program_close(p);
  EXPECT(w, 0, 1, N);
}

static void programs(void **state) {
  static void (*const body[])(tn_ctx *) = {written_inputs, bound_inputs, one_for_two, sizes,
                                         states,         history,      taken};
  (void)state;
  for (size_t i = 0; i < sizeof body / sizeof *body; i++) everywhere(body[i]);
}

/* ---- memory ---- */

/* No more than the input and, while the next is written, the one before; nothing is allocated again and again. */
static void stays_flat(tn_ctx *c) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(N));
  OK(tn_program_output(p, "all", x));
  OK(tn_program_output(p, "half", cut(x, 64, 128)));
  OK(tn_program_end(p));
  tn_stats before = stats(c), early = before;
  for (int i = 0; i < 12; i++) {
    give(c, p, N, i);
    OK(tn_program_run(p));
    tn_stats s = stats(c);
    if (i == 3) early = s;
    if (i < 4) continue;
    assert_int_equal(s.buffer_bytes, early.buffer_bytes);
    assert_int_equal(s.pool_bytes, early.pool_bytes);
    assert_int_equal(s.heap_bytes, early.heap_bytes);
    assert_int_equal(s.kernels_run, before.kernels_run);
    assert_true(s.buffer_bytes <= before.buffer_bytes + N * sizeof(float) + SMALL);
    assert_true(s.pool_bytes <= before.pool_bytes + N * sizeof(float));
  }
  tn_program_close(p);
}

static void memory(void **state) {
  (void)state;
  everywhere(stays_flat);
}

/* On another device it is a copy. */
static void moved(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = counted(c, N, 0), *y = cut(x, 64, 128);
    OK(tn_realize(&y, 1));
    tn_tensor *z = tn_to(y, "cpu"), *back;
    assert_non_null(z);
    EXPECT(z, 64, 1, 64);
    back = tn_to(z, "ref");
    write(c, y, 64, 0);
    EXPECT(back, 64, 1, 64);
    EXPECT(z, 64, 1, 64);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_form),  cmocka_unit_test(chains), cmocka_unit_test(odd),
                                     cmocka_unit_test(by_writer), cmocka_unit_test(assigned),
                                     cmocka_unit_test(programs), cmocka_unit_test(memory),
                                     cmocka_unit_test(moved)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
