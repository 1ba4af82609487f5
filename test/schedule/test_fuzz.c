/* Random graphs through the schedule, against node-by-node evaluation (support/graph.h).
 *
 * Without arguments: a sample, and that the grammar produces every op, dtype and rank.  FUZZ_SEED, FUZZ_COUNT and
 * FUZZ_ONLY (a test) choose others.
 *
 *   test_schedule_fuzz digest
 *   test_schedule_fuzz DEVICE strict|default SEED COUNT [SECONDS]
 *
 * The digest is a number of what the first graphs are.
 * Graphs SEED .. SEED+COUNT-1, or as many as there is time for; those for devices that compile go together, several in
 * a unit.  What fails is shrunk and printed, and a graph's own seed says it again; so does one whose kernels compute
 * far more than it asks for (support/work.h; FUZZ_PRINT=1 prints it).  At the end the counts of
 * support/coverage.h, which tools/fuzz-graphs adds up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "support/device.h"
#include "support/forms.h"
#include "support/graph.h"
#include "support/library.h"
#include "support/sentinel.h"
#include "support/work.h"
#include "tenet/tenet.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* graphs of a context; of a unit of compiled code; findings after which it is enough; seconds that no graph takes; of
 * so many graphs one is a layer, which takes its time: no two of a context are */
enum { RENEWED = 200, UNIT = 8, ENOUGH = 10, HANGS = 120, LAYERS = 512, LISTED = 59 /* variants */ };

/* ---- many graphs on a device ------------------------------------------------------------------------------------- */

static volatile uint64_t now; /* the graph at hand, for a crash's last words */

static void last_words(int sig) {
  char text[96];
  int n = snprintf(text, sizeof text, "\nFINDING seed %llu: signal %d\n", (unsigned long long)now, sig);
  if (write(2, text, (size_t)n) < 0) _exit(4);
  _exit(3);
}

typedef struct work {
  const char *device;
  tn_mode mode;
  tn_ctx *c;
  graph g[UNIT];
  uint64_t seed[UNIT];
  uint32_t n, unit;
  uint64_t graphs, bad, slowest;
  int seconds; /* of the slowest */
} work;

/* Some contexts lean their kernels' choices away from the cost model's, as tuning does.  Each variant that has come
 * since graphs were listed takes its share of the contexts, and leaves the others as they are: so the list holds. */
static const tn__variant *variant_of(uint64_t context) {
  uint32_t at = (uint32_t)(context / 2 % LISTED);
  for (uint32_t n = LISTED; tn__variant_at(n); n++)
    if (tn__hash_mix(context, n) % (n + 1) == 0) at = n;
  return tn__variant_at(context % 2 ? at : 0);
}

/* Some stand for a smaller device, whose few units small graphs keep busy; some let tf32 in; half of those for GPUs
 * that have a library, or of their guises, use it: what is multiplied is a kernel in the others. */
static void open_device(work *w, uint64_t seed) {
  uint64_t context = seed / RENEWED;
  bool guise = !strncmp(w->device, "ref:sm_", 7), calls = context / 5 % 2;
  w->c = tn_ctx_open(&(tn_options){.device = w->device,
                                   .mode = w->mode,
                                   .quiet = 1,
                                   .tf32 = context / 3 % 4 == 1,
                                   .no_library = !calls && !strncmp(w->device, "cuda", 4)});
  if (!w->c) {
    fprintf(stderr, "%s cannot be opened\n", w->device);
    exit(2);
  }
  tn__device *d = tn__device_get(w->c, tn__device_find(w->c, w->device));
  bool interprets = !strncmp(w->device, "ref", 3);
  d->usual = variant_of(context);
  if (interprets && context % 3) d->target.units = 1 << context / 2 % 4;
  /* subgroups of 8 to 64 threads */
  if (!strcmp(w->device, "ref:opencl")) d->target.subgroup = 8 << context % 4;
  if (guise && calls) library_put(d);
  w->unit = interprets && context % 3 != 1 ? 1 : UNIT;
  sentinel_put(d);
  coverage_watch(d);
  work_watch(d);
}

static void check(work *w, uint32_t i) {
  char name[160];
  now = w->seed[i];
  snprintf(name, sizeof name, "FINDING seed %llu, %s mode %d", (unsigned long long)now, w->device, (int)w->mode);
  work_taken();
  bool good = graph_check(w->c, &w->g[i], name);
  double done = work_taken(), asked = work_of_graph(w->c, w->g[i].sink);
  if (good && !work_is_fair(done, asked)) {
    fprintf(stderr, "%s: its kernels do %.0f times what it asks for\n", name, done / asked);
    good = false;
  }
  w->bad += !good;
}

/* Some as programs, which compiled takes another compilation. */
static void check_program(work *w, uint32_t i) {
  char why[512] = "";
  now = w->seed[i];
  if (now % (strncmp(w->device, "ref", 3) ? 16 : 4) || graph_replays(w->c, &w->g[i], why, sizeof why)) return;
  char *text = graph_text(w->c, &w->g[i]);
  fprintf(stderr, "FINDING seed %llu, %s mode %d: %s\n%s", (unsigned long long)now, w->device, (int)w->mode, why, text);
  free(text);
  w->bad++;
}

/* All that wait; one that fails with others is looked for alone. */
static void flush(work *w) {
  graph *plain[UNIT];
  uint32_t n = 0;
  uint64_t bad = w->bad;
  time_t start = time(NULL);
  for (uint32_t i = 0; i < w->n; i++)
    if (!w->g[i].var && w->unit > 1) plain[n++] = &w->g[i];
  now = w->n ? w->seed[0] : 0;
  alarm(HANGS);
  char why[512] = "";
  bool good = n == 0 || graphs_agree(w->c, plain, n, why, sizeof why);
  for (uint32_t i = 0; i < w->n; i++)
    if (!good || w->g[i].var || w->unit == 1) check(w, i);
  if (!good && w->bad == bad) {
    fprintf(stderr, "FINDING seeds %llu to %llu, only together, %s mode %d: %s\n", (unsigned long long)w->seed[0],
            (unsigned long long)w->seed[w->n - 1], w->device, (int)w->mode, why);
    w->bad++;
  }
  for (uint32_t i = 0; i < w->n; i++) check_program(w, i);
  if (time(NULL) - start > w->seconds) w->seconds = (int)(time(NULL) - start), w->slowest = now;
  for (uint32_t i = 0; i < w->n; i++) graph_free(w->c, &w->g[i]);
  w->n = 0;
}

static bool draw(tn_ctx *c, uint64_t seed, graph *g) {
  graph_dice d = {.state = seed << 8};
  graph_size size = seed % LAYERS == LAYERS - 1 ? graph_layer_size() : graph_any_size(&d);
  if (!graph_random(c, &d, &size, g)) return false;
  if (getenv("FUZZ_PRINT")) {
    char *text = graph_text(c, g);
    fprintf(stderr, "seed %llu:\n%s", (unsigned long long)seed, text);
    free(text);
  }
  return true;
}

/* What the first graphs are, in a number: the same by every compiler, or a seed says another graph to each. */
static uint64_t digest(void) {
  uint64_t sum = 0;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  if (!c) abort();
  for (uint64_t seed = 0; seed < 2 * LAYERS; seed++) {
    graph g;
    if (!draw(c, seed, &g)) abort();
    char *text = graph_text(c, &g);
    sum = tn__hash_bytes(text, strlen(text), sum);
    free(text);
    graph_free(c, &g);
  }
  tn_ctx_close(c);
  return sum;
}

static int many(int argc, char **argv) {
  work w = {.device = argv[1], .mode = strcmp(argv[2], "strict") ? TN_MODE_DEFAULT : TN_MODE_STRICT};
  uint64_t seed = strtoull(argv[3], NULL, 0), count = strtoull(argv[4], NULL, 0), i;
  time_t until = argc > 5 ? time(NULL) + strtol(argv[5], NULL, 0) : 0;
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
  for (size_t s = 0; s < sizeof signals / sizeof *signals; s++) signal(signals[s], last_words);
  setenv("TENET_DEVICE", w.device, 1); /* what the device may round otherwise, see bounds.c */
  for (i = seed; i < seed + count && w.bad < ENOUGH && (!until || time(NULL) < until); i++) {
    if (!w.c) open_device(&w, i);
    now = w.seed[w.n] = i;
    if (!draw(w.c, i, &w.g[w.n])) abort();
    coverage_graph(w.c, &w.g[w.n]);
    w.graphs++;
    if (++w.n == w.unit || (i + 1) % RENEWED == 0) flush(&w);
    if ((i + 1) % RENEWED) continue;
    tn_ctx_close(w.c);
    w.c = NULL;
  }
  flush(&w);
  if (w.c) tn_ctx_close(w.c);
  alarm(0);
  coverage_count("asked", "sure", graph_asked.sure);
  coverage_count("asked", "within", graph_asked.within);
  coverage_count("asked", "anything", graph_asked.any);
  coverage_print(stdout);
  printf("graphs %s:%s %llu\nnext seed %llu\nslowest seed:%llu %d\nfindings all %llu\n", w.device, argv[2],
         (unsigned long long)w.graphs, (unsigned long long)i, (unsigned long long)w.slowest, w.seconds,
         (unsigned long long)w.bad);
  return w.bad > 0;
}

/* ---- a sample ---------------------------------------------------------------------------------------------------- */

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *s = getenv(name);
  return s ? strtoull(s, NULL, 0) : otherwise;
}

static void fuzz(const char *device, tn_mode mode, form f, uint64_t count) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or(device), .mode = mode, .quiet = 1});
  assert_non_null(c);
  if (f != PLAIN) take_form(tn__device_get(c, 0), f);
  sentinel_put(tn__device_get(c, 0));
  uint64_t seed = from_environment("FUZZ_SEED", 0), bad = 0;
  count = from_environment("FUZZ_COUNT", count);
  for (uint64_t i = 0; i < count; i++) {
    char name[64];
    graph g;
    assert_true(draw(c, seed + i, &g));
    snprintf(name, sizeof name, "%s mode %d form %d seed %llu", device, mode, (int)f, (unsigned long long)(seed + i));
    bad += !graph_check(c, &g, name);
    graph_free(c, &g);
    if (bad >= 3) break;
  }
  uint64_t compiled = c->stats.schedules_compiled;
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
  assert_true(compiled <= count); /* symbolic sizes: once for all their values */
}

/* name, device, mode, form, graphs */
#define TESTS(X) \
  X(strict, "ref", TN_MODE_STRICT, PLAIN, 400) \
  X(defaults, "ref", TN_MODE_DEFAULT, PLAIN, 300) \
  X(strict_optimised, "ref", TN_MODE_STRICT, OPTIMISED, 200) \
  X(optimised, "ref", TN_MODE_DEFAULT, OPTIMISED, 400) \
  X(strict_groups, "ref", TN_MODE_STRICT, GROUPS, 200) \
  X(groups, "ref", TN_MODE_DEFAULT, GROUPS, 400) \
  X(compiled, "cpu", TN_MODE_DEFAULT, PLAIN, 16) \
  X(compiled_strict, "cpu", TN_MODE_STRICT, PLAIN, 12)

#define DEFINE(name, device, mode, form, count) \
  static void test_##name(void **s) { (void)s, fuzz(device, mode, form, count); }
TESTS(DEFINE)

/* Every op of the tensor phase, every dtype, every rank up to the most, and every size class are produced. */
static void test_grammar(void **s) {
  (void)s;
  for (int mode = 0; mode < 2; mode++) {
    tn_ctx *c =
        tn_ctx_open(&(tn_options){.device = "ref", .mode = mode ? TN_MODE_STRICT : TN_MODE_DEFAULT, .quiet = 1});
    assert_non_null(c);
    for (uint64_t seed = 0; seed < 1500; seed++) {
      graph g;
      assert_true(draw(c, seed, &g));
      coverage_graph(c, &g);
      graph_free(c, &g);
    }
    tn_ctx_close(c);
  }
  assert_int_equal(coverage_missing_ops(stderr), 0);
  FILE *nothing = fopen("/dev/null", "w");
  coverage_print(nothing);
  fclose(nothing);
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    char name[32];
    snprintf(name, sizeof name, "param:%s", tn_dtype_name((tn_dtype)dtype));
    if (!coverage_of("op", name)) fail_msg("no graph has a leaf of %s", tn_dtype_name((tn_dtype)dtype));
  }
  for (int rank = 0; rank <= 12; rank++) {
    char name[32];
    snprintf(name, sizeof name, "%d", rank);
    if (!coverage_of("rank", name)) fail_msg("no graph has a tensor of %d axes", rank);
  }
}

/* A graph's text is the graph, its data included. */
static void test_replay(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .mode = TN_MODE_STRICT, .quiet = 1});
  for (uint64_t seed = 0; seed < 60; seed++) {
    graph g, again;
    assert_true(draw(c, seed, &g));
    char *text = graph_text(c, &g), *twice;
    assert_true(graph_parse(c, text, 12345, false, &again));
    twice = graph_text(c, &again);
    assert_string_equal(text, twice);
    free(text);
    free(twice);
    graph_free(c, &again);
    graph_free(c, &g);
  }
  tn_ctx_close(c);
}

/* The list of graphs that reach what is rare was found among these graphs. */
static void test_digest(void **s) {
  (void)s;
  const char *folder = getenv("TENET_TEST_DATA");
  if (!folder) skip();
  char path[1024], line[4096];
  snprintf(path, sizeof path, "%s/schedule/fuzz_forms.txt", folder);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  unsigned long long listed = 0;
  while (fgets(line, sizeof line, f) && sscanf(line, "# digest %llx", &listed) != 1) {}
  fclose(f);
  if (digest() != listed)
    fail_msg("other graphs than when fuzz_forms.txt was written, or than by another compiler: "
             "tools/fuzz-graphs BUILD --all-forms says whether these still reach everything, --find-forms seeks anew");
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "digest")) return printf("%llx\n", (unsigned long long)digest()) < 0;
  if (argc >= 5) return many(argc, argv);
#define LIST(name, device, mode, form, count) cmocka_unit_test(test_##name),
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_grammar), cmocka_unit_test(test_digest),
                                     cmocka_unit_test(test_replay), TESTS(LIST)};
  const char *only = getenv("FUZZ_ONLY");
  if (only) cmocka_set_test_filter(only);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
