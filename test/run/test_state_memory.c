/* The memory of a program's state is another's after a run, if nobody but programs looks at what stands there.  Whoever
 * does keeps the old value; and where the count of them is wrong, TENET_VERIFY refuses the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "tensor/cell.h"
#include "tenet/tenet.h"
#include <string.h>

#define TWO ((const tn_dim[]){2}), 1
#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

typedef struct naming { /* a tensor of a node */
  tn_node *node;
  tn_tensor *made;
} naming;

static void name_node(tn_ctx *c, void *arg) {
  naming *n = arg;
  n->made = tn__cell_new(c, n->node);
}

static tn_tensor *named(tn_ctx *c, tn_node *node) {
  naming n = {.node = node};
  assert_true(tn__ctx_run(c, "named", name_node, &n));
  return n.made;
}

static void expect(tn_ctx *c, tn_tensor *t, float x, float y) {
  float v[2];
  OK(tn_read(t, v, sizeof v));
  if (v[0] != x || v[1] != y) fail_msg("%g %g, not %g %g", (double)v[0], (double)v[1], (double)x, (double)y);
}

/* A program that doubles w */
static tn_program *doubling(tn_ctx *c, tn_tensor *w) {
  tn_program *p = tn_program_begin(c);
  tn_scope(c) OK(tn_assign(w, tn_mul_scalar(w, 2)));
  OK(tn_program_end(p));
  return p;
}

/* ---- those who look ---- */

/* Each begins to look at w, and gives what it sees. */
static tn_tensor *other_handle(tn_ctx *c, tn_tensor *w) { return named(c, w->node); }
static tn_tensor *something_derived(tn_ctx *c, tn_tensor *w) {
  (void)c;
  return tn_mul_scalar(w, 1);
}
static tn_tensor *a_view(tn_ctx *c, tn_tensor *w) {
  (void)c;
  return tn_slice(w, 0, 0, 2, 1);
}
static tn_tensor *far_behind(tn_ctx *c, tn_tensor *w) {
  (void)c;
  return tn_add(tn_flip(tn_flip(w, NULL, 0), NULL, 0), tn_mul_scalar(w, 0));
}

static const struct holder {
  const char *what;
  tn_tensor *(*look)(tn_ctx *c, tn_tensor *w);
} holders[] = {{"another handle", other_handle},
               {"a value to be computed", something_derived},
               {"a view", a_view},
               {"what is computed of a view", far_behind}};

static void refuse_lost(tn_ctx *c, tn_program *p, tn_node *value, uint32_t lost, const char *holder) {
  value->refs -= lost;
  tn_status s = tn_program_run(p);
  value->refs += lost;
  assert_int_equal(s, TN_ERUN);
  if (!strstr(tn_last_error(c)->text, "a program writes over a value that is still held"))
    fail_msg("%s: %s", holder, tn_last_error(c)->text);
  tn_clear_error(c);
}

/* lost: references of w's value that are not counted, as a mistake would not. */
static void run_beside(const struct holder *h, bool verify, bool lost) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = verify ? "strict" : NULL});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *w = tn_from(c, TN_F32, TWO, (float[]){1, 2});
    tn_program *p = doubling(c, w);
    OK(tn_program_run(p));
    uint32_t alone = w->node->refs;
    tn_tensor *seen = h->look(c, w);
    tn_node *value = w->node;
    uint32_t more = value->refs - alone;
    assert_true(more > 0);
    if (lost) {
      refuse_lost(c, p, value, more, h->what);
      expect(c, w, 2, 4); /* nothing was run */
    }
    OK(tn_program_run(p));
    assert_ptr_not_equal(w->node, value);
    expect(c, w, 4, 8);
    OK(tn_realize(&seen, 1));
    expect(c, seen, 2, 4);
    tn_release(seen);
    value = w->node;
    OK(tn_program_run(p)); /* alone again: the memory changes places */
    assert_ptr_equal(w->node, value);
    expect(c, w, 8, 16);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

static void old_values_stay(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) {
    run_beside(&holders[i], false, false);
    run_beside(&holders[i], true, false);
  }
}

static void lost_counts_are_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof holders / sizeof *holders; i++) run_beside(&holders[i], true, true);
}

/* ---- a program that looks ---- */

/* It was recorded when no tensor had the value, so it reads this very value for good; later one has it again, and is
 * another program's state. */
static void read_for_good(bool verify, bool lost) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = verify ? "strict" : NULL});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *w = tn_from(c, TN_F32, TWO, (float[]){1, 2}), *t = tn_from(c, TN_F32, TWO, (float[]){0, 0});
    OK(tn_realize((tn_tensor *[]){w, t}, 2));
    tn_node *value = w->node;
    tn_tensor *y = tn_neg(w);
    tn_release(w);
    tn_program *p = tn_program_begin(c);
    OK(tn_assign(t, y)); /* of what is assigned no value is kept */
    OK(tn_program_end(p));
    OK(tn_program_run(p));
    tn_tensor *again = named(c, value);
    tn_release(y);
    tn_program *q = doubling(c, again);
    if (lost) refuse_lost(c, q, again->node, again->node->refs - 2, "what a program reads"); /* again and q */
    OK(tn_program_run(q));
    expect(c, again, 2, 4);
    OK(tn_program_run(p));
    expect(c, t, -1, -2);
    tn_program_close(p);
    tn_program_close(q);
  }
  tn_ctx_close(c);
}

static void programs_read_for_good(void **state) {
  (void)state;
  read_for_good(false, false);
  read_for_good(true, false);
  read_for_good(true, true);
}

/* ---- memory of results ---- */

/* A result that somebody keeps is not written over; nor is one that is bound as an input, or a state's. */
static void results_stay(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *w = tn_from(c, TN_F32, TWO, (float[]){1, 2});
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, TWO);
    OK(tn_assign(w, tn_add(w, x)));
    OK(tn_program_output(p, "w", w));
    OK(tn_program_end(p));
    OK(tn_program_bind(p, "x", w)); /* the state is its own input, too */
    OK(tn_program_run(p));
    expect(c, w, 2, 4);
    tn_tensor *kept = tn_program_result(p, "w");
    OK(tn_program_bind(p, "x", kept));
    for (int i = 0; i < 2; i++) OK(tn_program_run(p));
    expect(c, kept, 2, 4);
    expect(c, w, 6, 12);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(old_values_stay), cmocka_unit_test(lost_counts_are_refused),
                                     cmocka_unit_test(programs_read_for_good), cmocka_unit_test(results_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
