/* What a schedule stores, somebody reads: of random graphs, for devices of each form, and of texts in which a value
 * once was stored and computed again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/forms.h"
#include "support/graph.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>

enum { GRAPHS = 1500 };

typedef struct look {
  const graph *g;
  uint32_t temporaries, unread;
} look;

static void look_at(tn_ctx *c, void *arg) {
  look *l = arg;
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = l->g->sink};
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  for (uint32_t b = 0; b < p.s->bufs.n; b++) {
    bool written = false, read = false;
    for (uint32_t i = 0; i < p.s->items.n; i++)
      for (uint32_t j = 0; j < p.s->items.v[i].nbuf; j++)
        if (p.s->items.v[i].buf[j] == (int)b) *(j < p.s->items.v[i].nout ? &written : &read) = true;
    if (p.s->bufs.v[b].kind != BUF_TEMP || !written) continue;
    l->temporaries++;
    l->unread += !read;
  }
}

static tn_ctx *open_form(form f) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  take_form(tn__device_get(c, 0), f);
  return c;
}

static uint32_t look_into(tn_ctx *c, graph *g, const char *name) {
  look l = {.g = g};
  if (!tn__ctx_run(c, "look", look_at, &l)) fail_msg("%s: %s", name, tn_last_error(c)->text);
  if (l.unread) {
    char *text = graph_text(c, g);
    fprintf(stderr, "%s: %u of %u temporaries are never read\n%s\n", name, l.unread, l.temporaries, text);
    free(text);
  }
  graph_free(c, g);
  return l.unread;
}

static void texts(void **s) {
  static const char *const text[] = {
      "%1 = param f32[4] 4 {0 0}\n" /* all that wants it computes it by itself */
      "%2 = exp f32[4] %1\n"
      "%3 = contig f32[4] %2\n"
      "%4 = neg f32[4] %3\n"
      "%5 = sink void %4 {\"outputs\"}\n",
      "%1 = param f32[4,5] 4 5 {0 0}\n"
      "%2 = contig f32[4,5] %1\n"
      "%3 = sum f32[4] %2 {1}\n"
      "%4 = reshape f32[4,1] %3 4 1\n"
      "%5 = expand f32[4,5] %4 4 5\n"
      "%6 = add f32[4,5] %2 %5\n"
      "%7 = sink void %6 {\"outputs\"}\n",
  };
  (void)s;
  for (int f = 0; f < FORMS; f++) {
    tn_ctx *c = open_form((form)f);
    uint32_t unread = 0;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
      graph g;
      if (!graph_parse(c, text[i], 1, true, &g)) fail_msg("%s", tn_last_error(c)->text);
      unread += look_into(c, &g, "a text");
    }
    tn_ctx_close(c);
    assert_int_equal(unread, 0);
  }
}

static void random_graphs(void **s) {
  static const graph_size size = {.nodes = 20, .outputs = 4, .longest = 8, .elements = 300, .symbolic = 0};
  (void)s;
  for (int f = 0; f < FORMS; f++) {
    tn_ctx *c = open_form((form)f);
    uint32_t unread = 0;
    for (uint64_t i = 0; i < GRAPHS && unread == 0; i++) {
      char name[32];
      graph g;
      graph_dice d = {.state = (i + (uint64_t)f * GRAPHS) << 8};
      snprintf(name, sizeof name, "graph %llu", (unsigned long long)i);
      assert_true(graph_random(c, &d, &size, &g));
      unread += look_into(c, &g, name);
    }
    tn_ctx_close(c);
    assert_int_equal(unread, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
