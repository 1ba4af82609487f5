/* Would the tests notice a kernel that reads or writes in the wrong place?  In the kernels of a few graphs each access
 * to memory is changed, one at a time: one place on, which the interpreter's bounds find; one place back but not before
 * the first, which only values can show; its gate dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "rewrite/rewrite.h"
#include "support/forms.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <string.h>

typedef struct row {
  const char *name, *text;
} row;

static const row rows[] = {
    {"broadcast and transposed",
     "%1 = param i32[5,7] 5 7 {0 0}\n"
     "%2 = param i32[7] 7 {1 0}\n"
     "%3 = reshape i32[1,7] %2 1 7\n"
     "%4 = expand i32[5,7] %3 5 7\n"
     "%5 = mul i32[5,7] %1 %4\n"
     "%6 = permute i32[7,5] %5 {1 0}\n"
     "%7 = sink void %6 {\"outputs\"}\n"},
    {"padded, every other, backwards",
     "%1 = param i64[6,5] 6 5 {0 0}\n"
     "%2 = pad i64[9,8] %1 2 1 0 3\n"
     "%3 = shrink i64[4,7] %2 1 1 4 7 {2 1}\n"
     "%4 = flip i64[4,7] %3 {0}\n"
     "%5 = sink void %4 {\"outputs\"}\n"},
    {"windows, weighted and summed",
     "%1 = param f32[11] 11 {0 0}\n"
     "%2 = param f32[3] 3 {1 0}\n"
     "%3 = window f32[5,3] %1 {0 3 2 1}\n"
     "%4 = reshape f32[1,3] %2 1 3\n"
     "%5 = expand f32[5,3] %4 5 3\n"
     "%6 = mul f32[5,3] %3 %5\n"
     "%7 = sum f32[5] %6 {1}\n"
     "%8 = sink void %7 {\"outputs\"}\n"},
    {"overlapping windows added up",
     "%1 = param f32[5,3] 5 3 {0 0}\n"
     "%2 = fold f32[7] %1 7 {0 3 1 1}\n"
     "%3 = sink void %2 {\"outputs\"}\n"},
    {"gather and scatter",
     "%1 = param i32[6,4] 6 4 {0 0}\n"
     "%2 = param i32[7] 7 {1 0}\n"
     "%3 = gather i32[7,4] %1 %2\n"
     "%4 = param i32[7,4] 7 4 {2 0}\n"
     "%5 = scatter i32[6,4] %1 %2 %4\n"
     "%6 = sink void %3 %5 {\"outputs\"}\n"},
    {"a row and its sum, as softmax",
     "%1 = param f32[5,9] 5 9 {0 0}\n"
     "%2 = exp f32[5,9] %1\n"
     "%3 = sum f32[5] %2 {1}\n"
     "%4 = reshape f32[5,1] %3 5 1\n"
     "%5 = expand f32[5,9] %4 5 9\n"
     "%6 = div f32[5,9] %2 %5\n"
     "%7 = sink void %6 {\"outputs\"}\n"},
    {"a product",
     "%1 = param i32[5,6] 5 6 {0 0}\n"
     "%2 = param i32[4,6] 4 6 {1 0}\n"
     "%3 = contract i32[5,4] %1 %2 {0 1 1 1}\n"
     "%4 = sink void %3 {\"outputs\"}\n"},
    {"sums of long rows",
     "%1 = param i64[2,20000] 2 20000 {0 0}\n"
     "%2 = sum i64[2] %1 {1}\n"
     "%3 = sink void %2 {\"outputs\"}\n"},
};

typedef enum change { ON, BACK, GATE, CHANGES } change;

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  change change;
  uint32_t at, seen; /* the access to change, of its kind; those met */
} mutant;

/* Where an access has its gate. */
static uint32_t gate_of(const tn_node *n) { return n->op == OP_LOAD ? 2 : 3; }

/* x op k as an instruction of its own: the constructors would write it as a sum in normal form */
static tn_node *instruction(tn_ctx *c, tn__op op, tn_node *x, int64_t k, tn__nodes *extra) {
  tn_node *n =
      tn__node_make(c, &(tn__make){.op = op, .dtype = TN__INDEX, .src = (tn_node *[]){x, tn__int(c, k)}, .nsrc = 2});
  tn__vec_push(&c->scratch, extra, n);
  return n;
}

/* The access changed; extra: what goes before it. */
static tn_node *changed(tn_ctx *c, tn_node *n, tn__nodes *extra) {
  tn_node *src[4] = {0};
  memcpy(src, n->src, n->nsrc * sizeof *src);
  uint32_t nsrc = mutant.change == GATE ? gate_of(n) : n->nsrc;
  if (mutant.change == ON) src[1] = instruction(c, OP_ADD, src[1], 1, extra);
  if (mutant.change == BACK) src[1] = instruction(c, OP_MAX, instruction(c, OP_ADD, src[1], -1, extra), 0, extra);
  return tn__node_make(
      c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = nsrc, .ints = n->ints, .nint = n->nint});
}

static void change_part(tn_ctx *c, tn__part *part) {
  for (uint32_t i = 0; i < part->n; i++) {
    tn_node *n = part->ins[i];
    tn__nodes extra = {0};
    if (n->op != OP_LOAD && n->op != OP_STORE && n->op != OP_STOREADD) continue;
    if (mutant.change == GATE && n->nsrc <= gate_of(n)) continue;
    if (mutant.seen++ != mutant.at) continue;
    tn_node *by = changed(c, n, &extra), *all = tn__substitute(c, tn__list(c, part->ins, part->n), &n, &by, 1);
    tn__nodes ins = {0};
    for (uint32_t j = 0; j < part->n; j++) {
      for (uint32_t k = 0; j == i && k < extra.n; k++) tn__vec_push(&c->scratch, &ins, extra.v[k]);
      tn__vec_push(&c->scratch, &ins, all->src[j]);
    }
    part->ins = ins.v; /* in scratch: when it has been compiled nobody needs it */
    part->n = ins.n;
    return;
  }
}

static tn__code *compile_changed(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  mutant.seen = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t p = 0; p < kernels[i]->nparts; p++) change_part(d->ctx, &kernels[i]->part[p]);
  return mutant.real->compile(d, kernels, n);
}

/* Runs the graph with one access changed; false if nobody noticed. */
static bool noticed(const row *r, form f) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .mode = TN_MODE_STRICT, .quiet = 1});
  graph g;
  char why[512];
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  take_form(d, f);
  mutant.real = d->ops;
  mutant.ops = *d->ops;
  mutant.ops.compile = compile_changed;
  d->ops = &mutant.ops;
  if (!graph_parse(c, r->text, 1, strstr(r->text, " f32") == NULL, &g))
    fail_msg("%s: %s", r->name, tn_last_error(c)->text);
  bool good = graph_agrees(c, &g, why, sizeof why);
  graph_free(c, &g);
  tn_ctx_close(c);
  return !good;
}

static void every_change(void **s) {
  (void)s;
  uint32_t made[CHANGES] = {0}, missed = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int f = 0; f < FORMS; f++)
      for (int k = 0; k < CHANGES; k++) {
        mutant.change = (change)k;
        mutant.at = UINT32_MAX; /* as it is */
        assert_false(noticed(&rows[i], (form)f));
        uint32_t n = mutant.seen;
        for (mutant.at = 0; mutant.at < n; mutant.at++) {
          made[k]++;
          if (noticed(&rows[i], (form)f)) continue;
          print_error("not noticed: %s, form %d, %s of access %u\n", rows[i].name, f,
                      (const char *[]){"one on", "one back", "gate"}[k], mutant.at);
          missed++;
        }
      }
  print_message("%u places and %u gates changed, %u not noticed\n", made[ON] + made[BACK], made[GATE], missed);
  assert_true(made[ON] > 50 && made[BACK] > 50 && made[GATE] > 5);
  assert_int_equal(missed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_change)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
