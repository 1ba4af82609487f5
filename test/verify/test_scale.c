/* A smaller twin: which sizes shrink together, and that what comes of it is a program of the same ops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/text.h"
#include "support/in_ctx.h"
#include "verify/scale.h"
#include <string.h>

typedef struct example {
  const char *name, *graph, *note; /* NULL: there is no twin */
} example;

static const example examples[] = {
    {"a flattened axis is the product of what it was",
     "%1 = param f32[3,128,12,500] 3 128 12 500 {0 0}\n%2 = reshape f32[3,768000] %1 3 768000\n"
     "%3 = param f32[10,768000] 10 768000 {1 0}\n%4 = contract f32[3,10] %2 %3 {0 1 1 1}\n"
     "%5 = sink void %4 {\"graph\"}\n",
     " 128 to 16 500 to 116"},
    {"axes that a pad makes of each other shrink alike, and so does what is added to them",
     "%1 = param f32[3000000] 3000000 {0 0}\n%2 = pad f32[3000007] %1 3 4\n%3 = param f32[3000007] 3000007 {1 0}\n"
     "%4 = add f32[3000007] %2 %3\n%5 = sink void %4 {\"graph\"}\n",
     " 3000007 to 71"},
    {"so do windows of stride 1 and what they are summed up to again",
     "%1 = param f32[4,1000000] 4 1000000 {0 0}\n%2 = window f32[4,999998,3] %1 {1 3 1 1}\n"
     "%3 = fold f32[4,1000000] %2 1000000 {1 3 1 1}\n%4 = add f32[4,1000000] %1 %3\n%5 = sink void %4 {\"graph\"}\n",
     " 1000000 to 128"},
    {"windows of stride 2 say how long their axis is; others do not",
     "%1 = param f32[1000,2001] 1000 2001 {0 0}\n%2 = window f32[1000,1000,3] %1 {1 3 2 1}\n"
     "%3 = sum f32[1000,1000] %2 {2}\n%4 = sink void %3 {\"graph\"}\n",
     " 1000 to 104"},
    {"a product of products, split another way than it was made, stays",
     "%1 = param f32[6000,1000] 6000 1000 {0 0}\n%2 = reshape f32[1500,4000] %1 1500 4000\n"
     "%3 = sink void %2 {\"graph\"}\n",
     NULL},
    {"rows that are looked up, and where they are looked up",
     "%1 = param f32[50000,300] 50000 300 {0 0}\n%2 = param i64[20] 20 {1 0}\n%3 = gather f32[20,300] %1 %2\n"
     "%4 = scatter f32[50000,300] %1 %2 %3\n%5 = sink void %4 {\"graph\"}\n",
     " 50000 to 80"},
    {"numbers from 0 on, arranged in two ways",
     "%1 = iota i64[6000000] 6000000\n%2 = reshape i64[6000,1000] %1 6000 1000\n"
     "%3 = reshape i64[1000,6000] %1 1000 6000\n%4 = permute i64[6000,1000] %3 {1 0}\n"
     "%5 = sum i64[6000] %2 {1}\n%6 = sum i64[6000] %4 {1}\n%7 = sink void %5 %6 {\"graph\"}\n",
     " 6000000 to 64 6000 to 112 6000 to 112"},
    {"a symbolic size stays, and is told from the number beside it",
     "%1 = var index {\"B\" 1 64}\n%2 = mul index %1 1000000\n%3 = iota i64[B*1000000] %2\n"
     "%4 = reshape i64[B,1000,1000] %3 %1 1000 1000\n%5 = param i64[B,1000,1000] %1 1000 1000 {0 0}\n"
     "%6 = add i64[B,1000,1000] %4 %5\n%7 = sink void %6 {\"graph\"}\n",
     " 1000000 to 64 1000 to 104"},
};

static uint32_t count_ops(tn_ctx *c, tn_node *graph, uint32_t *count) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->dtype != TN__INDEX) count[all.v[i]->op]++;
  return all.n;
}

static void scale(tn_ctx *c, void *arg) {
  const example *e = arg;
  tn_node *graph = tn__parse(c, e->graph);
  uint32_t before[OP_COUNT] = {0}, after[OP_COUNT] = {0};
  int64_t value = 2;
  tn_node *b = tn__var(c, "B", 1, 64);
  tn__sb note;
  tn__sb_init(&note, &c->scratch);
  tn_node *twin = tn__scale_down(c, graph, &(tn__env){.key = &b, .val = &value, .n = 1}, &note);
  if (!e->note) {
    if (twin) fail_msg("%s: %s", e->name, tn__sb_str(&note));
    return;
  }
  if (!twin) fail_msg("%s: there is no twin", e->name);
  if (strcmp(tn__sb_str(&note), e->note)) fail_msg("%s:%s, should be%s", e->name, tn__sb_str(&note), e->note);
  count_ops(c, graph, before);
  count_ops(c, twin, after);
  assert_memory_equal(before, after, sizeof before);
}

static void twins(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) test_in_ctx(scale, (void *)(uintptr_t)&examples[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(twins)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
