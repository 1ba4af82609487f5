/* Mode strict is the graph, bit for bit: random graphs with NaN, infinities, zeros of both signs and subnormals among
 * their data, against node-by-node evaluation; in at least half of them a rule fires, and every rule fires in some
 * graph.  So is mode default but for sums, which may be off by n*eps*sum|terms|, and chains of bf16, which may be
 * anything that rounding or not between their operations makes of them; what is NaN or infinite is the same.  A sample
 * of both; STRICT_COUNT=100000 (make check-strict) is the claim. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/text.h"
#include "support/graph.h"
#include "support/rows.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* graphs; of one context; one of so many is what some rule's left side matches; has a symbolic size */
enum { SAMPLE = 3000, ALL = 100000, RENEWED = 2000, PLANTED = 2, SYMBOLIC = 8 };

static const char *const tables[] = {"index", "simplify"};
enum { TABLES = sizeof tables / sizeof *tables, MOST_RULES = 400 };

typedef struct tally {
  uint64_t hits[MOST_RULES], last, graphs, fired;
  char names[MOST_RULES][32];
  uint32_t n;
} tally;

/* Steps so far in this context; at its end, rule by rule. */
static uint64_t steps(tn_ctx *c, tally *t) {
  uint64_t sum = 0;
  uint32_t at = 0;
  for (int k = 0; k < TABLES; k++) {
    const tn__ruleset *s = tn__rules_get(c, tables[k]);
    for (uint32_t i = 0; i < s->n; i++, at++) {
      sum += s->rule[i].hits;
      assert_true(at < MOST_RULES);
      if (!t) continue;
      t->hits[at] += s->rule[i].hits;
      snprintf(t->names[at], sizeof t->names[at], "%s", s->rule[i].name);
      t->n = at + 1;
    }
  }
  return sum;
}

static void note_graph(tn_ctx *c, void *arg) {
  tally *t = arg;
  uint64_t now = steps(c, NULL);
  t->graphs++;
  t->fired += now > t->last;
  t->last = now;
}

static void note_context(tn_ctx *c, void *arg) {
  steps(c, arg);
  ((tally *)arg)->last = 0;
}

typedef struct planting {
  uint64_t seed;
  char *text; /* to be freed; NULL: no graph */
} planting;

static void plant(tn_ctx *c, void *arg) {
  planting *p = arg;
  bool index = p->seed % 2;
  const tn__ruleset *s = tn__rules_get(c, tables[!index]);
  tn_node *n = row_instance(c, &s->rule[p->seed / 2 % s->n], index, p->seed);
  if (!n || n->op == OP_CONST) return;
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  tn__print(&text, tn__sink(c, &n, 1, "outputs"));
  p->text = strdup(tn__sb_str(&text));
}

/* A graph in which a rule is likely to fire. */
static bool planted_graph(tn_ctx *c, uint64_t seed) {
  planting p = {.seed = seed};
  graph g;
  char why[512];
  assert_true(tn__ctx_run(c, "plant", plant, &p));
  if (!p.text) return true;
  assert_true(graph_parse(c, p.text, seed, false, &g));
  bool good = graph_agrees_always(c, &g, why, sizeof why);
  if (!good) fprintf(stderr, "seed %llu: %s\n%s\n", (unsigned long long)seed, why, p.text);
  graph_free(c, &g);
  free(p.text);
  return good;
}

static void random_graphs(tally *t, tn_mode mode, uint64_t from, uint64_t to) {
  static const graph_size plain = {.nodes = 20, .outputs = 4, .longest = 8, .elements = 300},
                          symbolic = {.nodes = 16, .outputs = 3, .longest = 8, .elements = 3000, .symbolic = 13};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .mode = mode, .quiet = 1});
  uint64_t bad = 0;
  assert_non_null(c);
  for (uint64_t i = from; i < to && !bad; i++) {
    char name[64];
    if (i % PLANTED == 1) {
      bad += !planted_graph(c, i / PLANTED);
      tn__ctx_run(c, "note", note_graph, t);
      continue;
    }
    graph_dice d = {.state = (i + 1000000) << 8};
    snprintf(name, sizeof name, "seed %llu", (unsigned long long)i);
    bad += !graph_try(c, &d, i % SYMBOLIC ? &plain : &symbolic, name);
    tn__ctx_run(c, "note", note_graph, t);
  }
  tn__ctx_run(c, "note", note_context, t);
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static void try_graphs(tally *t, tn_mode mode, const char *name) {
  const char *given = getenv("STRICT_COUNT");
  uint64_t count = given ? strtoull(given, NULL, 0) : SAMPLE;
  for (uint64_t at = 0; at < count; at += RENEWED)
    random_graphs(t, mode, at, at + RENEWED < count ? at + RENEWED : count);
  uint32_t never = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    never += t->hits[i] == 0;
    if (!t->hits[i]) fprintf(stderr, "never fired: %s\n", t->names[i]);
  }
  print_message("%s: %llu graphs, in %llu of them a rule fired; %u of %u rules fired\n", name,
                (unsigned long long)t->graphs, (unsigned long long)t->fired, t->n - never, t->n);
  assert_true(2 * t->fired >= t->graphs);
  if (count >= ALL) assert_int_equal(never, 0);
}

static void strict(void **s) {
  (void)s;
  static tally t;
  try_graphs(&t, TN_MODE_STRICT, "strict");
}

static void defaults(void **s) {
  (void)s;
  static tally t;
  try_graphs(&t, TN_MODE_DEFAULT, "default");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(strict), cmocka_unit_test(defaults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
