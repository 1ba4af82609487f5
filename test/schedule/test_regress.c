/* Graphs that once went wrong, as the fuzzer left them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"

typedef struct row {
  const char *name, *text;
} row;

static const row rows[] = {
    {"a fold adds in the order of its source",
     "%1 = param f32[3,7] 3 7 {0 0}\n"
     "%2 = fold f32[9] %1 9 {0 7 1 1}\n"
     "%3 = sink void %2 {\"outputs\"}\n"},
    {"a stored value whose axes stand in another order than the reductions over it nest",
     "%1 = param u8[1,4,2,5] 1 4 2 5 {0 0}\n"
     "%2 = contig u8[1,4,2,5] %1\n"
     "%3 = prod u8[4,5] %2 {0 2}\n"
     "%4 = prod u8[4] %3 {1}\n"
     "%5 = sink void %4 {\"outputs\"}\n"},
    {"a reduction of a constant beside a store of it",
     "%1 = param bool[2,3,2] 2 3 2 {0 0}\n"
     "%2 = eq bool[2,3,2] %1 %1\n"
     "%3 = rmax bool[2,2] %2 {1}\n"
     "%4 = sink void %2 %3 %2 {\"outputs\"}\n"},
    {"a reduction that does not depend on the axes it keeps, beside a store of its operand",
     "%1 = param i16[5,2] 5 2 {0 0}\n"
     "%2 = param i16[1,1,1,1] 1 1 1 1 {1 0}\n"
     "%3 = expand i16[5,3,7,2] %2 5 3 7 2\n"
     "%4 = contract i16[5,3,7] %1 %3 {1 0 2 1}\n"
     "%5 = rmin i16[3,7] %4 {0}\n"
     "%6 = sink void %5 %4 {\"outputs\"}\n"},
    {"a load from nothing moves out of a loop that never runs",
     "%1 = param i8[2,0] 2 0 {0 0}\n"
     "%2 = permute i8[0,2] %1 {1 0}\n"
     "%3 = window i8[0,1,2] %2 {1 2 3 1}\n"
     "%4 = reshape i8[3,0,1,2] %3 3 0 1 2\n"
     "%5 = sink void %4 {\"outputs\"}\n"},
    {"a reduction wanted by the updates of a scatter",
     "%1 = param i32[0,2] 0 2 {0 0}\n"
     "%2 = prod i32[2] %1 {0}\n"
     "%3 = reshape i32[1,2] %2 1 2\n"
     "%4 = expand i32[0,2] %3 0 2\n"
     "%5 = param i64 {1 0}\n"
     "%6 = scatter i32[0,2] %1 %5 %2\n"
     "%7 = add i32[0,2] %4 %6\n"
     "%8 = sink void %7 {\"outputs\"}\n"},
    {"an output wanted by the updates of a scatter",
     "%1 = param i64[3,4,5] 3 4 5 {0 0}\n"
     "%2 = param i32[5] 5 {1 0}\n"
     "%3 = param i64[3,5] 3 5 {2 0}\n"
     "%4 = param i64 {3 0}\n"
     "%5 = gather i64[5] %3 %4\n"
     "%6 = reshape i64[1,1,5] %5 1 1 5\n"
     "%7 = expand i64[5,4,5] %6 5 4 5\n"
     "%8 = scatter i64[3,4,5] %1 %2 %7\n"
     "%9 = sink void %8 %8 %5 {\"outputs\"}\n"},
};

static void check(const row *r, tn_mode mode, bool optimised) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .mode = mode, .quiet = 1});
  graph g;
  char why[512];
  assert_non_null(c);
  if (optimised) tn__device_get(c, 0)->interprets = false;
  if (!graph_parse(c, r->text, 1, mode != TN_MODE_STRICT, &g)) fail_msg("%s: %s", r->name, tn_last_error(c)->text);
  if (!graph_agrees(c, &g, why, sizeof why)) fail_msg("%s (mode %d%s): %s", r->name, mode, optimised ? ", optimised" : "", why);
  graph_free(c, &g);
  tn_ctx_close(c);
}

static void all_rows(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++)
      for (int optimised = 0; optimised < 2; optimised++) check(&rows[i], (tn_mode)mode, optimised);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
