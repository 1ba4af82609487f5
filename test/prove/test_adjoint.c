/* Adjoints as they are printed and checked: what ops do along an axis, strides as variables; every rank and choice of
 * axes; wrong graphs, which are refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "prove/adjoint_coq.h"
#include "prove/adjoint_whole.h"
#include "rewrite/rewrite.h"
#include "support/in_ctx.h"

static void texts(tn_ctx *c, void *arg) {
  (void)arg;
  assert_string_equal(
      tn__adjoint_axis(c, &c->scratch, AX_FLIPPED),
      "forall n0, (0 < n0)%Z -> undone (Axis [n0] [n0] [] (fun i => match i with [i0] => true | _ => false end)%bool "
      "(fun i => match i with [i0] => [((n0 + (i0 * (-1))) + (-1))] | _ => [] end) "
      "(fun i o => match i, o with [i0], [] => true | _, _ => false end)%bool "
      "(fun i o => match i, o with [i0], [] => [((n0 + (i0 * (-1))) + (-1))] | _, _ => [] end) (fun i => match i with "
      "[i0] => [] | _ => [] end))");
  /* a window reads at place * stride + offset * dilation; its adjoint sums over the offsets, where the stride
   * divides */
  const char *window = tn__adjoint_axis(c, &c->scratch, AX_WINDOWED);
  assert_non_null(strstr(window, "[i0; i1] => [((i0 * (s)) + (i1 * (d)))]"));
  assert_non_null(strstr(window, "mod (s)) =? (0))"));
  assert_non_null(strstr(window, "undone (Axis [(Z.max ((n0 + (-1 + s - d * (k - 1))) / (s)) (0)); (k)] [n0] [(k)]"));
}

static uint32_t power(uint32_t b, uint32_t n) { return n ? b * power(b, n - 1) : 1; }

static void all_choices(tn_ctx *c, void *arg) {
  (void)arg;
  enum { RANKS = 5 }; /* `tenet prove` goes on to 8 */
  for (uint32_t i = 0; i < tn__axis_nops; i++) {
    const tn__axis_op *op = &tn__axis_ops[i];
    uint32_t want = 0;
    for (uint32_t r = 1; r <= RANKS; r++) want += op->once ? r : power(op->acts[0] == op->acts[1] ? 2 : 3, r) - 1;
    assert_int_equal(tn__axis_check(c, op, RANKS), want);
  }
}

static void all_whole(tn_ctx *c, void *arg) {
  (void)arg;
  enum { SETS = 512 - 2 - 8 }; /* of axes, at ranks 1 to 8, but for none */
  static const struct {
    const char *op, *part;
    uint32_t tried;
  } want[] = {{"permute", "as built", 46233 /* 1! + ... + 8! */},
              {"rmax", "as built", SETS},
              {"rmin", "as built", SETS},
              {"prod", "as built", SETS},
              {"prod", "as built in pairs",
               8 * (130 + 3 * 23) + SETS /* 0 to 7 axes kept, sizes up to 130 and around 2^8 to 2^30 */},
              {"gather", "as built", 17 + 16 * 15 / 2 + 15},
              {"contract", "as built", 625}};
  for (uint32_t i = 0; i < tn__whole_nops; i++) {
    uint32_t tried = tn__whole_ops[i].check(c, tn__whole_ops[i].op);
    assert_true(tried > 20);
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
      if (!strcmp(want[k].op, tn__whole_ops[i].op) && !strcmp(want[k].part, tn__whole_ops[i].part) &&
          tried != want[k].tried)
        fail_msg("%s: %u, not %u", want[k].op, tried, want[k].tried);
  }
}

/* ---- ops that do to some axis what its kind does not say ---- */

static tn_node *size(tn_ctx *c, tn__axes *g, uint32_t i, const char *name) {
  return g->var[i][g->vars[i]++] = tn__var(c, name, 1, INT64_C(1) << 40);
}

/* x of the sizes n0, n1, ... */
static void leaf(tn_ctx *c, tn__axes *g) {
  static const char *const names[] = {"n0", "n1", "n2"};
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < g->rank; i++) dim[i] = size(c, g, i, names[i]);
  g->x = tn__param(c, TN_F64, 0, -1, dim, g->rank);
}

static tn_node *flip_another(tn_ctx *c, tn__axes *g) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = 0;
  leaf(c, g);
  for (uint32_t i = 0; i < g->rank; i++)
    if (g->kind[i] != AX_KEPT) axes[n++] = g->rank - 1 - i;
  return tn__flip(c, g->x, axes, n);
}

static tn_node *sum_another(tn_ctx *c, tn__axes *g) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = 0;
  leaf(c, g);
  for (uint32_t i = 0; i < g->rank; i++)
    if (g->kind[g->rank - 1 - i] != AX_KEPT) axes[n++] = i;
  return tn__reduce(c, OP_SUM, g->x, axes, n);
}

/* What stands in front and behind change places on the second axis; wider: and nothing is behind. */
static tn_node *pad_turned(tn_ctx *c, tn__axes *g, bool wider) {
  static const char *const lo[] = {"lo0", "lo1", "lo2"}, *const hi[] = {"hi0", "hi1", "hi2"};
  tn_node *lohi[2 * TN_MAX_RANK];
  leaf(c, g);
  for (uint32_t i = 0; i < g->rank; i++) {
    bool acts = g->kind[i] == AX_PADDED, turn = i == 1;
    tn_node *before = acts ? g->var[i][g->vars[i]++] = tn__var(c, lo[i], 0, INT64_C(1) << 40) : tn__int(c, 0);
    tn_node *behind = acts ? g->var[i][g->vars[i]++] = tn__var(c, hi[i], 0, INT64_C(1) << 40) : tn__int(c, 0);
    lohi[2 * i] = turn ? behind : before, lohi[2 * i + 1] = turn ? before : behind;
    if (turn && wider) lohi[2 * i] = before, lohi[2 * i + 1] = tn__add(c, behind, before);
  }
  return tn__pad(c, g->x, lohi);
}
static tn_node *pad_other_side(tn_ctx *c, tn__axes *g) { return pad_turned(c, g, false); }
static tn_node *pad_wider(tn_ctx *c, tn__axes *g) { return pad_turned(c, g, true); }

static tn_node *window_other_stride(tn_ctx *c, tn__axes *g) {
  leaf(c, g);
  for (uint32_t i = 0; i < g->rank; i++)
    if (g->kind[i] != AX_KEPT) return tn__window(c, g->x, i, g->m[i]->v[2], g->m[0]->v[0], g->m[i]->v[1]);
  return g->x;
}
static tn_node *window_first(tn_ctx *c, tn__axes *g) {
  leaf(c, g);
  return tn__window(c, g->x, 0, g->m[0]->v[2], g->m[0]->v[0], g->m[0]->v[1]);
}

static const struct {
  tn__axis_op op;
  const char *says;
} wrong[] = {
    {{"flip", flip_another, {AX_FLIPPED, AX_FLIPPED}, false},
     "adjoint of flip, rank 2, axes flipped, kept: places differ"},
    {{"sum", sum_another, {AX_SUMMED, AX_SUMMED}, false}, "adjoint of sum, rank 2, axes summed, kept: places differ"},
    {{"pad", pad_other_side, {AX_PADDED, AX_PADDED}, false},
     "adjoint of pad, rank 2, axes kept, padded: places differ"},
    {{"pad", pad_wider, {AX_PADDED, AX_PADDED}, false}, "adjoint of pad, rank 2, axes kept, padded: sizes differ"},
    {{"window", window_other_stride, {AX_WINDOWED, AX_WINDOWED}, true},
     "adjoint of window, rank 2, axes kept, windowed: sizes differ"},
    {{"window", window_first, {AX_WINDOWED, AX_WINDOWED}, true},
     "adjoint of window, rank 2, axes kept, windowed: sizes differ"},
    {{"sum", flip_another, {AX_SUMMED, AX_SUMMED}, false}, "adjoint of sum, rank 1, axes summed: sums differ"},
};

static void check_wrong(tn_ctx *c, void *arg) { tn__axis_check(c, arg, 3); }

static void wrong_graphs_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tn_ctx c;
    tn__axis_op op = wrong[i].op;
    assert_true(test_ctx_open(&c));
    if (tn__ctx_run(&c, "test", check_wrong, &op)) fail_msg("taken: %s", wrong[i].says);
    if (!strstr(c.err_text, wrong[i].says)) fail_msg("wanted: %s\nsaid: %s", wrong[i].says, c.err_text);
    tn_clear_error(&c);
    tn__rules_close(&c);
    assert_int_equal(test_ctx_close(&c), 0);
  }
}

static void printed_texts(void **state) { (void)state, test_in_ctx(texts, NULL); }
static void every_choice_of_axes(void **state) { (void)state, test_in_ctx(all_choices, NULL); }
static void every_rank(void **state) { (void)state, test_in_ctx(all_whole, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(printed_texts), cmocka_unit_test(every_choice_of_axes),
                                     cmocka_unit_test(every_rank), cmocka_unit_test(wrong_graphs_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
