/* The fuzzer's judge (support/bounds.h): what it must accept, for kernels may do so, and what it must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "support/bounds.h"
#include "support/graph.h"
#include "support/library.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct row {
  const char *name, *text;
  int64_t element;
  struct {
    const char *device; /* NULL: no more; after a +, one that has a library */
    tn_mode mode;
    double right[3], wrong[3]; /* 0: no more */
  } on[3];
} row;

/* The gradient of a convolution, in bf16: 100 * 39 + 9 * 6 + 21 * 76 + 98 * 123 = 17604. */
#define FOLDS(rest) \
  "%1 = param bf16[2,2,1] 2 2 1 {0 0}\n" \
  "%2 = param bf16[2,2,1] 2 2 1 {1 0}\n" \
  "%3 = contract bf16[2,2,2,2] %1 %2 {0 2 2 1}\n" \
  "%4 = permute bf16[2,2,2,2] %3 {0 2 1 3}\n" \
  "%5 = cast f32[2,2,2,2] %4\n" rest "# x0: 42c8 4110 41a8 42c4\n# x1: 42f6 4298 40c0 421c\n"

/* GELU of x and a row of which all is y, x being a product of 64 terms: `unit` * x / 64 each. */
#define GELU_OF(type, unit, x, y) \
  "%1 = param " type "[64,64] 64 64 {0 0}\n" \
  "%2 = param " type "[128,64] 128 64 {1 0}\n" \
  "%3 = param " type "[128] 128 {2 0}\n" \
  "%4 = contract " type "[64,128] %1 %2 {0 1 1 1}\n" \
  "%5 = reshape " type "[1,128] %3 1 128\n" \
  "%6 = expand " type "[64,128] %5 64 128\n" \
  "%7 = add " type "[64,128] %4 %6\n" \
  "%8 = cast f32[64,128] %7\n" \
  "%9 = const f32 {0.5}\n" \
  "%10 = reshape f32[1,1] %9 1 1\n" \
  "%11 = expand f32[64,128] %10 64 128\n" \
  "%12 = mul f32[64,128] %8 %11\n" \
  "%13 = mul f32[64,128] %8 %8\n" \
  "%14 = mul f32[64,128] %13 %8\n" \
  "%15 = const f32 {0.044715}\n" \
  "%16 = reshape f32[1,1] %15 1 1\n" \
  "%17 = expand f32[64,128] %16 64 128\n" \
  "%18 = mul f32[64,128] %14 %17\n" \
  "%19 = add f32[64,128] %8 %18\n" \
  "%20 = const f32 {0.7978846}\n" \
  "%21 = reshape f32[1,1] %20 1 1\n" \
  "%22 = expand f32[64,128] %21 64 128\n" \
  "%23 = mul f32[64,128] %19 %22\n" \
  "%24 = tanh f32[64,128] %23\n" \
  "%25 = const f32 {1.0}\n" \
  "%26 = reshape f32[1,1] %25 1 1\n" \
  "%27 = expand f32[64,128] %26 64 128\n" \
  "%28 = add f32[64,128] %24 %27\n" \
  "%29 = mul f32[64,128] %12 %28\n" \
  "%30 = cast " type "[64,128] %29\n" \
  "%31 = sink void %30 {\"outputs\"}\n" \
  "# x0: " unit "*4096\n# x1: " x "*8192\n# x2: " y "*128\n"

static const row rows[] = {
    {"a bf16 gradient of convolutions: summed in f32 and rounded once where it is found as a whole",
     FOLDS("%6 = fold f32[2,2,3] %5 3 {2 2 1 1}\n"
                 "%7 = cast bf16[2,2,3] %6\n"
                 "%8 = cast f32[2,2,3] %7\n"
                 "%9 = fold f32[3,3] %8 3 {0 2 1 1}\n"
                 "%10 = cast bf16[3,3] %9\n"
                 "%11 = sink void %10 {\"outputs\"}\n"),
     4,
     {{"ref:sm_90", TN_MODE_DEFAULT, {17664, 17536}, {17792, 17408}},
      {"ref:sm_90", TN_MODE_STRICT, {17536}, {17664}},
      {"ref:cpu", TN_MODE_DEFAULT, {17536}, {17664, 17408}}}},
    {"a bf16 product that nothing folds: rounded, whoever reads it",
     FOLDS("%6 = sink void %5 {\"outputs\"}\n"),
     15, /* 98 * 39 = 3822 */
     {{"ref:sm_90", TN_MODE_DEFAULT, {3824}, {3822, 3808}}, {"ref:cpu", TN_MODE_DEFAULT, {3824}, {3822, 3840}}}},
    {"a sum of products that a fused multiply-add does not round, though their sum would be exact",
     "%1 = param f32[2] 2 {0 0}\n"
     "%2 = param f32[2] 2 {1 0}\n"
     "%3 = mul f32[2] %1 %2\n"
     "%4 = reshape f32[1,2] %3 1 2\n"
     "%5 = sum f32[1] %4 {1}\n"
     "%6 = sink void %5 {\"outputs\"}\n"
     "# x0: 3fed83ea 3fe9dab7\n"
     "# x1: bfc812e2 3fc3b6b7\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {-0x1.b6047cp-4, -0x1.b6048p-4}, {-0x1.b61p-4}},
      {"ref:cpu", TN_MODE_STRICT, {-0x1.b6048p-4}, {-0x1.b6047cp-4}}}},
    {"a product of a sum in any order and what is subnormal: half of that is not exact",
     "%1 = param f64[3] 3 {0 0}\n"
     "%2 = param f64[1] 1 {1 0}\n"
     "%3 = sum f64 %1 {0}\n"
     "%4 = reshape f64[1] %3 1\n"
     "%5 = contract f64 %4 %2 {0 0 0 1}\n"
     "%6 = sink void %5 {\"outputs\"}\n"
     "# x0: 4018000000000000 3cc0000000000000 3cc0000000000000\n"
     "# x1: 12688b70e62b\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {0x6e7344a56501p-1074, 0x6e7344a56502p-1074, 0x6e7344a56503p-1074},
       {0x6e7344a564f0p-1074, 0x6e7344a56520p-1074}}}},
    {"a product that overflows in one order: it has a sign still",
     "%1 = param f32[3] 3 {0 0}\n"
     "%2 = prod f32 %1 {0}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: 7149f2ca 7149f2ca 8da24260\n", /* 1e30, 1e30, -1e-30 */
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {-INFINITY, -1e30}, {-1e29, 1e30, INFINITY}}}},
    {"a product of which one factor is 0: it is, or is NaN",
     "%1 = param f32[3] 3 {0 0}\n"
     "%2 = prod f32 %1 {0}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: 7e967699 7e967699 0\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {NAN}, {1, INFINITY, 1e38}}}},
    {"a product whose first factors come to what is subnormal, in one order or another",
     "%1 = param f32[6] 6 {0 0}\n"
     "%2 = prod f32 %1 {0}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: bfe47454 3feeab36 c0a420c5 2ca 42ff0000 437f0000\n", /* 2ca: 714 units; the others come to 2^19 */
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {5.5523606452468911e-37, 5.5524870984203118e-37}, {5.52e-37, 5.59e-37, -5.55e-37}},
      {"ref:cpu", TN_MODE_STRICT, {5.5523606452468911e-37}, {5.5524870984203118e-37}}}},
    {"a product of what is infinite, and vanishes in some order: infinite or NaN",
     "%1 = param f32[3] 3 {0 0}\n"
     "%2 = prod f32 %1 {0}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: 7f800000 0da24260 8da24260\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {-INFINITY, NAN}, {-1, -1e-45, INFINITY}}}},
    {"GELU that a library does with a product of bf16, where tanh(u) rounds to -1",
     GELU_OF("bf16", "3c80", "c0e0", "0"), /* of -7 */
     0,
     {{"+ref:sm_90", TN_MODE_DEFAULT, {-2.3314683517128287e-15}, {-1e-6, 1e-15, -1}},
      {"ref:sm_90", TN_MODE_DEFAULT, {-0.0}, {-2.3314683517128287e-15}},
      {"+ref:sm_90", TN_MODE_STRICT, {-0.0}, {-2.3314683517128287e-15}}}},
    {"GELU that a library does with a product of bf16: right to the last bit nearly always",
     GELU_OF("bf16", "3c80", "c000", "0"), /* of -2 */
     0,
     {{"+ref:sm_90", TN_MODE_DEFAULT, {-0x1.74p-5}, {-0x1.72p-5, -0x1.76p-5}}}},
    {"GELU of a product that is far below 0: it is 0 still",
     GELU_OF("bf16", "6e49", "c000", "0"), /* of -2e30 */
     0,
     {{"+ref:sm_90", TN_MODE_DEFAULT, {-0.0}, {-1e-40, 1e-40, -1}}}},
    {"GELU of a product of f16 and a row, whose sum the library does not round: of -3 + 0.0009",
     GELU_OF("f16", "2400", "c200", "1360"),
     0,
     {{"+ref:sm_90", TN_MODE_DEFAULT, {-0x1.dccp-9, -0x1.de4p-9}, {-0x1.d9cp-9, -0x1.dfcp-9}},
      {"ref:sm_90", TN_MODE_DEFAULT, {-0x1.dccp-9}, {-0x1.de4p-9}}}},
    {"additions to a cell that gets 7 of 70 updates: none of the 7 may be lost, however many others there are",
     "%1 = param bf16[2] 2 {0 0}\n"
     "%2 = param i64[70] 70 {1 0}\n"
     "%3 = param bf16[70] 70 {2 0}\n"
     "%4 = scatter bf16[2] %1 %2 %3\n"
     "%5 = sink void %4 {\"outputs\"}\n"
     "# x0: 0*2\n# x1: 0*63 1*7\n# x2: 3dcd*70\n", /* 0.1 */
     1,
     {{"ref:cpu", TN_MODE_DEFAULT, {0.703125}, {0.3515625, 0.6015625, 0x1p-100}},
      {"ref:sm_90", TN_MODE_DEFAULT, {0.703125}, {0.3515625, 0.6015625, 0x1p-100}},
      {"ref:sm_90", TN_MODE_STRICT, {0.703125}, {0.3515625, 0.69921875, 0x1p-100}}}},
    {"additions of f16 to a cell, of which finite ones overflow where each is rounded, and not in f32",
     "%1 = param f16[1] 1 {0 0}\n"
     "%2 = param i64[3] 3 {1 0}\n"
     "%3 = param f16[3] 3 {2 0}\n"
     "%4 = scatter f16[1] %1 %2 %3\n"
     "%5 = sink void %4 {\"outputs\"}\n"
     "# x0: 0\n# x1: 0*3\n# x2: 7bff*2 fbff\n",
     0,
     {{"ref:sm_90", TN_MODE_DEFAULT, {65504, INFINITY}, {0}},
      {"ref:sm_90", TN_MODE_STRICT, {INFINITY}, {65504}},
      {"ref:cpu", TN_MODE_DEFAULT, {INFINITY}, {65504}}}},
    {"additions of sums in any order, one after the other: 2^24 + 1 + 1 is 2^24 or 2 more",
     "%1 = param f32[1] 1 {0 0}\n"
     "%2 = param i64[2] 2 {1 0}\n"
     "%3 = param f32[2,3] 2 3 {2 0}\n"
     "%4 = sum f32[2] %3 {1}\n"
     "%5 = scatter f32[1] %1 %2 %4\n"
     "%6 = sink void %5 {\"outputs\"}\n"
     "# x0: 0\n# x1: 0 0\n# x2: 4b800000 3f800000*2 4b800000 3f800000*2\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {0x1p25, 0x1p25 + 4}, {0x1p24, 0x1p25 + 24, 0x1p25 - 24}},
      {"ref:cpu", TN_MODE_STRICT, {0x1p25}, {0x1p25 + 4}}}},
    {"an addition of nothing to a sum of bf16, which need not be rounded before it is multiplied",
     "%1 = param bf16[1] 1 {0 0}\n"
     "%2 = param i64[0] 0 {1 0}\n"
     "%3 = param bf16[0] 0 {2 0}\n"
     "%4 = param bf16[1] 1 {3 0}\n"
     "%5 = add bf16[1] %1 %4\n"
     "%6 = scatter bf16[1] %5 %2 %3\n"
     "%7 = param bf16[1] 1 {4 0}\n"
     "%8 = mul bf16[1] %6 %7\n"
     "%9 = sink void %8 {\"outputs\"}\n"
     "# x0: 3b80\n# x1:\n# x2:\n# x3: 3fc0\n# x4: 3fff\n", /* (2^-8 + 1.5) * (2 - 2^-7) */
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {2.984375, 3}, {2.96875, 3.015625}},
      {"ref:cpu", TN_MODE_STRICT, {2.984375}, {3}}}},
    {"a scatter of bf16 to places that are met once each, over a number: its sums are functions, of unrounded numbers",
     "%1 = const bf16 {1.0}\n"
     "%2 = reshape bf16[1] %1 1\n"
     "%3 = expand bf16[2] %2 2\n"
     "%4 = param i64[2] 2 {0 0}\n"
     "%5 = permutation i64[2] %4\n"
     "%6 = param bf16[2] 2 {1 0}\n"
     "%7 = param bf16[2] 2 {2 0}\n"
     "%8 = mul bf16[2] %6 %7\n"
     "%9 = scatter bf16[2] %3 %5 %8\n"
     "%10 = sink void %9 {\"outputs\"}\n"
     "# x0: 1 0\n# x1: 3f81*2\n# x2: 3f41*2\n", /* 1 + 0.7598, which bf16 rounds to 0.7617 */
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {1.7578125, 1.765625}, {1.75, 1.7734375}},
      {"ref:sm_90", TN_MODE_DEFAULT, {1.7578125, 1.765625}, {1.75, 1.7734375}},
      {"ref:cpu", TN_MODE_STRICT, {1.765625}, {1.7578125}}}},
    {"the mean of one number of bf16, moved about in f32: nothing rounds it",
     "%1 = param bf16[2] 2 {0 0}\n"
     "%2 = param bf16[2] 2 {1 0}\n"
     "%3 = mul bf16[2] %1 %2\n"
     "%4 = cast f32[2] %3\n"
     "%5 = reshape f32[1,2] %4 1 2\n"
     "%6 = sum f32[2] %5 {0}\n"
     "%7 = const f32 {1.0}\n"
     "%8 = reshape f32[1] %7 1\n"
     "%9 = expand f32[2] %8 2\n"
     "%10 = div f32[2] %6 %9\n"
     "%11 = cast bf16[2] %10\n"
     "%12 = param bf16[2] 2 {2 0}\n"
     "%13 = add bf16[2] %11 %12\n"
     "%14 = sink void %13 {\"outputs\"}\n"
     "# x0: 3f81*2\n# x1: 3f41*2\n# x2: 3f80*2\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {1.7578125, 1.765625}, {1.75, 1.7734375}},
      {"ref:cpu", TN_MODE_STRICT, {1.765625}, {1.7578125}}}},
    {"a number of f32 that the graph casts to bf16: that rounds it",
     "%1 = param f32[1] 1 {0 0}\n"
     "%2 = cast bf16[1] %1\n"
     "%3 = param bf16[1] 1 {1 0}\n"
     "%4 = add bf16[1] %2 %3\n"
     "%5 = sink void %4 {\"outputs\"}\n"
     "# x0: 3f428200\n# x1: 3f80\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {1.765625}, {1.7578125}}, {"ref:sm_90", TN_MODE_DEFAULT, {1.765625}, {1.7578125}}}},
    {"a long sum of bf16: it is added up in f32",
     "%1 = param bf16[512] 512 {0 0}\n"
     "%2 = sum bf16 %1 {0}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: 3dcd*512\n", /* 205 / 2048 */
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {51.25}, {51, 51.5, 25}},
      {"ref:sm_90", TN_MODE_DEFAULT, {51.25}, {51, 51.5, 25}},
      {"ref:sm_90", TN_MODE_STRICT, {32}, {51.25, 31.875}}}},
    {"windows side by side, put together again: one term each, however long they are",
     "%1 = param f16[4,64] 4 64 {0 0}\n"
     "%2 = fold f16[256] %1 256 {0 64 64 1}\n"
     "%3 = sink void %2 {\"outputs\"}\n"
     "# x0: 3c00*255 10\n", /* 1, and one of 2^-20 */
     7,
     {{"ref:cpu", TN_MODE_DEFAULT, {1}, {1.03125, 0.96875}}, {"ref:sm_90", TN_MODE_DEFAULT, {1}, {1.03125, 0.96875}}}},
    {"the sign of a NaN that is given",
     "%1 = param f32[1] 1 {0 0}\n"
     "%2 = param f32[1] 1 {1 0}\n"
     "%3 = copysign f32[1] %1 %2\n"
     "%4 = sink void %3 {\"outputs\"}\n"
     "# x0: 40000000\n# x1: ffc00000\n",
     0,
     {{"ref:cpu", TN_MODE_DEFAULT, {-2}, {2, 1}}, {"ref:sm_90", TN_MODE_STRICT, {-2}, {2}}}},
};

static void check(const row *r, int k) {
  bool library = *r->on[k].device == '+';
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = r->on[k].device + library, .mode = r->on[k].mode, .quiet = 1});
  graph g;
  naive_tensor want;
  char why[512] = "";
  assert_non_null(c);
  if (!graph_parse(c, r->text, 1, true, &g)) fail_msg("%s: %s", r->name, tn_last_error(c)->text);
  if (library) library_put(tn__device_get(c, 0));
  const tn_node *n = g.sink->src[0];
  graph_values(c, &g, g.sink->src, 1, &want);
  for (int i = 0; i < 3; i++) {
    const double v[2] = {r->on[k].right[i], r->on[k].wrong[i]};
    for (int wrong = 0; wrong < 2; wrong++)
      if (v[wrong] != 0 &&
          bounds_allow(n, &want, r->element, tn__eval_from_double(n->dtype, v[wrong])) != !wrong)
        fail_msg("%s: %s, mode %d: %.17g is %s", r->name, r->on[k].device, (int)r->on[k].mode, v[wrong],
                 wrong ? "accepted" : "refused");
  }
  naive_free(&want);
  if (!graphs_agree(c, (graph *[]){&g}, 1, why, sizeof why))
    fail_msg("%s: %s, mode %d: %s", r->name, r->on[k].device, (int)r->on[k].mode, why);
  graph_free(c, &g);
  tn_ctx_close(c);
}

static void all_rows(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < 3 && rows[i].on[k].device; k++) check(&rows[i], k);
}

/* ---- ranges: column REACH of ir/ops.def -------------------------------------------------------------------------- */

typedef struct sample { /* an op of f32, and a range for each operand */
  const tn_node *n;
  double lo[2], hi[2];
} sample;

/* Values at points of the ranges lie in the range that follows; a value that is none, only in one without ends. */
static void check_range(const sample *s) {
  enum { STEPS = 9 };
  double to[2];
  bounds_follow(s->n, TN_F32, s->lo, s->hi, to);
  for (uint32_t i = 0; i < (s->n->nsrc == 1 ? STEPS : STEPS * STEPS); i++) {
    uint64_t arg[3] = {0};
    for (uint32_t k = 0, rest = i; k < s->n->nsrc; k++, rest /= STEPS) {
      double part = (double)(rest % STEPS) / (STEPS - 1), x = s->lo[k] + (s->hi[k] - s->lo[k]) * part;
      arg[k] = tn__eval_from_double(TN_F32, rest % STEPS == STEPS - 1 ? s->hi[k] : x);
    }
    double v = tn__eval_to_double(s->n->dtype, tn__eval(s->n->op, s->n->dtype, TN_F32, arg));
    bool within = isnan(v) ? to[0] == -INFINITY && to[1] == INFINITY : to[0] <= v && v <= to[1];
    if (!within)
      fail_msg("%s of %g..%g, %g..%g: %g is not in %g..%g", tn__ops[s->n->op].text, s->lo[0], s->hi[0], s->lo[1],
               s->hi[1], v, to[0], to[1]);
  }
}

/* One op, or none where it takes no f32. */
static const tn_node *op_of_f32(tn_ctx *c, int op) {
  tn_node *x = tn__const_num(c, TN_F32, 1);
  bool one = tn__ops[op].group == G_UNARY;
  if ((!one && tn__ops[op].group != G_BINARY) || !tn__op_takes(op, TN_F32)) return NULL;
  return one ? tn__op1(c, (tn__op)op, x) : tn__op2(c, (tn__op)op, x, tn__const_num(c, TN_F32, 2));
}

static void try_ranges(tn_ctx *c, void *tried) {
  static const double ends[] = {-1e30, -100, -3,  -1.5, -1,   -0.75, -0.1, -1e-30, 0,
                                1e-30, 0.25, 0.5, 1,    1.25, 3,     50,   1e30};
  enum { ENDS = sizeof ends / sizeof *ends };
  for (int op = 0; op < OP_COUNT; op++) {
    const tn_node *n = op_of_f32(c, op);
    uint64_t roll = 1;
    if (!n) continue;
    for (int i = 0; i < 2000; i++) {
      sample s = {.n = n};
      for (uint32_t k = 0; k < n->nsrc; k++) {
        roll = tn__hash_mix(roll, 5);
        double a = tn__eval_to_double(TN_F32, tn__eval_from_double(TN_F32, ends[roll % ENDS])), b;
        bool far = roll >> 9 & 1;
        b = far ? ends[(roll >> 20) % ENDS] : a + fabs(a) * (double)(uint32_t)(roll >> 44) * 0x1p-21;
        b = tn__eval_to_double(TN_F32, tn__eval_from_double(TN_F32, b));
        s.lo[k] = fmin(a, b), s.hi[k] = fmax(a, b);
      }
      check_range(&s);
    }
    ++*(int *)tried;
  }
}

static void ranges_hold(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  int tried = 0;
  (void)state;
  assert_true(tn__ctx_run(c, "ranges", try_ranges, &tried));
  assert_true(tried > 40);
  tn_ctx_close(c);
}

/* ---- products in any order --------------------------------------------------------------------------------------- */

enum { FACTORS = 6, ORDERS = 40 };

/* What they come to, two of those that are left at a time. */
static uint64_t multiply_in_some_order(int dtype, const uint64_t *factor, uint32_t n, uint64_t *roll) {
  uint64_t v[FACTORS];
  memcpy(v, factor, n * sizeof *v);
  while (n > 1) {
    *roll = tn__hash_mix(*roll, 7);
    uint32_t a = (uint32_t)(*roll >> 8) % n, b = (uint32_t)(*roll >> 40) % (n - 1);
    b += b >= a;
    v[a] = tn__eval(OP_MUL, dtype, dtype, (uint64_t[]){v[a], v[b]});
    v[b] = v[--n];
  }
  return v[0];
}

/* Factors of all sizes: what is made of some of them is subnormal or overflows. */
static void try_product(tn_ctx *c, int dtype, uint64_t *roll) {
  uint64_t factor[FACTORS];
  uint32_t n = 2 + (uint32_t)((*roll = tn__hash_mix(*roll, 3)) >> 20) % (FACTORS - 1);
  int far = dtype == TN_F16 ? 26 : dtype == TN_F64 ? 1080 : 150;
  char text[512], *at = text;
  at += sprintf(at, "%%1 = param %s[%u] %u {0 0}\n%%2 = prod %s %%1 {0}\n%%3 = sink void %%2 {\"outputs\"}\n# x0:",
                tn__dtypes[dtype].name, n, n, tn__dtypes[dtype].name);
  for (uint32_t i = 0; i < n; i++) {
    *roll = tn__hash_mix(*roll, 5);
    double m = 1 + (double)(uint32_t)(*roll >> 32) * 0x1p-32;
    factor[i] = tn__eval_from_double(dtype, ldexp(*roll & 1 ? m : -m, (int)(*roll >> 8 & 0xfff) % (2 * far) - far));
    uint64_t stored = 0;
    tn__eval_store(dtype, &stored, factor[i]);
    at += sprintf(at, " %llx", (unsigned long long)stored);
  }
  sprintf(at, "\n");
  graph g;
  naive_tensor want;
  assert_true(graph_parse(c, text, 1, true, &g));
  graph_values(c, &g, g.sink->src, 1, &want);
  for (int i = 0; i < ORDERS; i++) {
    uint64_t got = multiply_in_some_order(dtype, factor, n, roll);
    if (!bounds_allow(g.sink->src[0], &want, 0, got))
      fail_msg("%g is refused, of %s", tn__eval_to_double(dtype, got), text);
  }
  naive_free(&want);
  graph_free(c, &g);
}

static void products_in_any_order(void **state) {
  static const int dtypes[] = {TN_F16, TN_BF16, TN_F32, TN_F64};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  uint64_t roll = 1;
  (void)state;
  for (int i = 0; i < 2000; i++) try_product(c, dtypes[i % 4], &roll);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(ranges_hold),
                                     cmocka_unit_test(products_in_any_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
