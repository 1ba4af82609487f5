/* What follows from what a kernel requires of its buffers: stores to places that are loaded, by form and by z3; what
 * does not follow is not believed, in forms by name, and in drawn ones against a count of all turns over drawn memory
 * that is as required. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "ir/require.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "run/runtime.h"
#include "support/ctx.h"
#include "support/linear.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "verify/bounds.h"
#include "verify/facts.h"
#include "verify/given.h"
#include "verify/writers.h"
#include <unistd.h>

/* ---- forms, by name ---- */

/* b0[...] = 1 for i < 9, j < 4; integers in b1 and b2, of i32, or where `wide` says so of i64 */
#define HEAD(dtype)                                                                                                    \
  "%1 = param f32[999] 999 {0 -1}\n%2 = const f32 {1}\n%3 = range index 9 {loop 0 output}\n"                           \
  "%4 = range index 4 {loop 1 output}\n%5 = param " dtype "[40] 40 {1 -1}\n%6 = param " dtype "[40] 40 {2 -1}\n"
#define LOAD(name, buffer, at) name " = load i32 " buffer " " at "\n"
#define CAST(name, of) name " = cast index " of "\n"
#define STORE(at) "%90 = store void %1 " at " %2 %3 %4\n%91 = sink void %90"
#define GATED(at, gate) "%90 = store void %1 " at " %2 " gate " %3 %4\n%91 = sink void %90"
#define SPAN                                                                                                           \
  LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = add index %3 1\n" LOAD("%13", "%5", "%12") CAST("%14", "%13")

#define ROWS_OF(n, at) LOAD64("%10", "%5", "%3") CAST("%11", "%10") "%12 = mul index %11 " n "\n" at
#define LOAD64(name, buffer, at) name " = load i64 " buffer " " at "\n"
#define SPAN64                                                                                                         \
  LOAD64("%10", "%5", "%3") CAST("%11", "%10") "%12 = add index %3 1\n" LOAD64("%13", "%5", "%12")                     \
  CAST("%14", "%13") "%15 = add index %11 %4\n%16 = lt bool %15 %14\n" GATED("%15", "%16")

static const struct form {
  const char *what, *body;
  const char *require; /* of b1 */
  bool by_form, by_z3;
} forms[] = {
    {"a row each", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = mul index %11 4\n%13 = add index %12 %4\n"
     STORE("%13"), "distinct", true, true},
    {"a row each, for all that is said", LOAD("%10", "%5", "%3") CAST("%11", "%10")
     "%12 = mul index %11 4\n%13 = add index %12 %4\n" STORE("%13"), "sorted", false, false},
    {"rows that overlap", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = mul index %11 3\n%13 = add index %12 %4\n"
     STORE("%13"), "distinct", false, false},
    {"the place of a place", LOAD("%10", "%5", "%3") CAST("%11", "%10") LOAD("%12", "%5", "%11") CAST("%13", "%12")
     STORE("%13"), "distinct", true, true},
    {"of another buffer", LOAD("%10", "%6", "%3") CAST("%11", "%10") STORE("%11"), "distinct", false, false},
    {"two turns of one element", "%9 = idiv index %3 2\n" LOAD("%10", "%5", "%9") CAST("%11", "%10") STORE("%11"),
     "distinct", false, false},
    {"distinct, but cut to 8 bits", LOAD("%10", "%5", "%3") "%11 = cast i8 %10\n" CAST("%12", "%11") STORE("%12"),
     "distinct", false, false},
    {"widened", LOAD("%10", "%5", "%3") "%11 = cast i64 %10\n" CAST("%12", "%11") STORE("%12"), "distinct", true, true},
    {"doubled in i32, where it wraps", LOAD("%10", "%5", "%3") "%9 = const i32 {2}\n%11 = mul i32 %10 %9\n"
     CAST("%12", "%11") STORE("%12"), "distinct", false, false},
    {"distinct and not below", LOAD("%10", "%5", "%3") CAST("%11", "%10")
     "%12 = add index %11 7\n%13 = max index %12 %11\n" STORE("%13"), "distinct", true, true},
    {"cut where some may be", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = max index %11 3\n" STORE("%12"),
     "distinct", false, false},
    {"loaded in half of the turns, for a solver", "%9 = lt bool %3 5\n%10 = load i32 %5 %3 %9\n" CAST("%11", "%10")
     "%12 = max index %11 3\n" GATED("%12", "%9"), "distinct", false, false},
    {"loaded where a gate holds, stored everywhere", "%9 = lt bool %3 5\n%10 = load i32 %5 %3 %9\n" CAST("%11", "%10")
     STORE("%11"), "distinct", false, false},
    {"loaded and stored where a gate holds", "%9 = lt bool %3 5\n%10 = load i32 %5 %3 %9\n" CAST("%11", "%10")
     GATED("%11", "%9"), "distinct", true, true},
    {"stored where more holds", "%9 = lt bool %3 5\n%10 = load i32 %5 %3 %9\n" CAST("%11", "%10")
     "%12 = lt bool %4 1\n%13 = and bool %12 %9\n" GATED("%11", "%13"), "distinct", true, true},
    {"stored where less holds", "%8 = lt bool %4 1\n%9 = lt bool %3 5\n%12 = and bool %8 %9\n"
     "%10 = load i32 %5 %3 %12\n" CAST("%11", "%10") GATED("%11", "%9"), "distinct", false, false},
    {"what is loaded, and the counter", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = add index %11 %3\n"
     STORE("%12"), "distinct", false, false},
    {"so, in order", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = add index %11 %3\n" STORE("%12"), "sorted",
     false, true},
    {"its own span each", SPAN "%15 = add index %11 %4\n%16 = lt bool %15 %14\n" GATED("%15", "%16"), "sorted", true,
     true},
    {"its own span, the end included", SPAN "%15 = add index %11 %4\n%16 = le bool %15 %14\n" GATED("%15", "%16"),
     "sorted", false, false},
    {"its own span, from the element before", SPAN "%15 = add index %11 %4\n%17 = add index %15 -1\n"
     "%16 = lt bool %17 %14\n" GATED("%17", "%16"), "sorted", false, false},
    {"its own span, by what is not beyond", SPAN "%15 = add index %11 %4\n%17 = le bool %14 %15\n%16 = not bool %17\n"
     GATED("%15", "%16"), "sorted", true, true},
    {"the span of the next but one", LOAD("%10", "%5", "%3") CAST("%11", "%10") "%12 = add index %3 2\n"
     LOAD("%13", "%5", "%12") CAST("%14", "%13") "%15 = add index %11 %4\n%16 = lt bool %15 %14\n"
     GATED("%15", "%16"), "sorted", false, false},
    {"spans of what is not in order", SPAN "%15 = add index %11 %4\n%16 = lt bool %15 %14\n" GATED("%15", "%16"),
     "distinct", false, false},
};

/* So, of i64, where sums and products wrap */
static const struct {
  struct form of;
  const char *in; /* required, too */
} wide_forms[] = {
    /* 0 and 2^61 are distinct, and 8 times each is 0 */
    {{"rows of eight, of any", ROWS_OF("8", STORE("%12")), "distinct", false, false}, NULL},
    {{"rows of eight, within", ROWS_OF("8", STORE("%12")), "distinct", true, true}, "0 124"},
    {{"rows of eight, within what wraps", ROWS_OF("8", STORE("%12")), "distinct", false, false},
     "0 4611686018427387904"},
    {{"rows of eight that are gated", ROWS_OF("8", "%13 = lt bool %11 124\n%14 = le bool 0 %11\n"
      "%15 = and bool %13 %14\n" GATED("%12", "%15")), "distinct", true, true}, NULL},
    {{"rows of eight that are gated above", ROWS_OF("8", "%13 = lt bool %11 124\n" GATED("%12", "%13")), "distinct",
      false, false}, NULL},
    {{"rows of eight whose product is gated", ROWS_OF("8", "%13 = lt bool %12 124\n%14 = le bool 0 %12\n"
      "%15 = and bool %13 %14\n" GATED("%12", "%15")), "distinct", false, false}, NULL},
    {{"any places", LOAD64("%10", "%5", "%3") CAST("%11", "%10") STORE("%11"), "distinct", true, true}, NULL},
    {{"spans that may wrap", SPAN64, "sorted", false, false}, NULL},
    {{"spans within", SPAN64, "sorted", true, true}, "0 999"},
    {{"rows of three, for a solver", ROWS_OF("3", "%13 = max index %12 -100\n" STORE("%13")), "distinct", false, true},
     "0 124"},
    {{"rows of eight, of any, for a solver", ROWS_OF("8", "%13 = max index %12 -100\n" STORE("%13")), "distinct",
      false, false}, NULL},
};

typedef struct asking {
  char text[2000];
  tn__writers count;
  char why[300], open[20000];
} asking;

static void ask(tn_ctx *c, void *arg) {
  asking *q = arg;
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  tn__kernel *k = tn__lower(c, &c->scratch, tn__parse(c, q->text), &tn__device_get(c, 0)->target, NULL, 0);
  const char *why = tn__writers_prove(c, k, NULL, &q->count, &open);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
  snprintf(q->open, sizeof q->open, "%s", tn__sb_str(&open));
}

/* What z3 says; NULL: there is none. */
static const char *solve(const char *statement) {
  static char word[64];
  char path[] = "/tmp/tenet-requires-XXXXXX", command[100];
  int f = mkstemp(path);
  assert_true(f >= 0);
  assert_int_equal(write(f, statement, strlen(statement)), (ssize_t)strlen(statement));
  assert_int_equal(write(f, "(check-sat)\n", 12), 12);
  close(f);
  snprintf(command, sizeof command, "z3 -T:60 %s 2>/dev/null", path);
  FILE *p = popen(command, "r");
  assert_non_null(p);
  bool some = fgets(word, sizeof word, p) != NULL;
  pclose(p);
  unlink(path);
  return some ? word : NULL;
}

static void ask_form(tn_ctx *c, const struct form *f, const char *head, const char *in) {
  asking q = {.count = {0}};
  char more[100] = "";
  if (in) snprintf(more, sizeof more, "%%8 = require void %%5 %s {in}\n", in);
  snprintf(q.text, sizeof q.text, "%s%s%%7 = require void %%5 {%s}\n%s %%7%s {\"kernel\"}\n", head, more, f->require,
           f->body, in ? " %8" : "");
  if (!tn__ctx_run(c, "ask", ask, &q)) fail_msg("%s: %s", f->what, tn_last_error(c)->text);
  assert_string_equal(q.why, "");
  assert_int_equal(q.count.stores, 1);
  if (q.count.by_form != f->by_form) fail_msg("%s: by form %u", f->what, q.count.by_form);
  assert_int_equal(*q.open != 0, !f->by_form);
  const char *word = *q.open ? solve(q.open) : NULL;
  if (word && strcmp(word, f->by_z3 ? "unsat\n" : "sat\n")) fail_msg("%s: z3 says %s of %s", f->what, word, q.open);
}

static void by_name(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) ask_form(c, &forms[i], HEAD("i32"), NULL);
  for (size_t i = 0; i < sizeof wide_forms / sizeof *wide_forms; i++)
    ask_form(c, &wide_forms[i].of, HEAD("i64"), wide_forms[i].in);
  tn_ctx_close(c);
}

/* ---- drawn forms, over drawn memory ---- */

enum { DRAWS = 6000, MEMORIES = 12, SIZE = 12, BUFFERS = 2, TURNS = 400 };

typedef struct drawn {
  uint64_t seed;
  const char *device;
  uint32_t told, met, both; /* stores that are told by form; that meet in some memory; the mistakes */
} drawn;

static int below(uint64_t *seed, int n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((*seed >> 33) % (uint64_t)n);
}

typedef struct growing {
  tn_ctx *c;
  uint64_t *seed;
  int dtype; /* of what is loaded: i32 or i64 */
  tn_node *buf[BUFFERS], *loop[2], *gate[3], *width; /* width: a symbolic size */
  int ngate;
} growing;

static tn_node *grow_load(growing *g, tn_node *at) {
  tn_node *src[3] = {g->buf[below(g->seed, BUFFERS)], at, g->ngate && !below(g->seed, 3) ? g->gate[0] : NULL};
  tn_node *n = tn__node_make(g->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = src[2] ? 3 : 2});
  if (!below(g->seed, 12)) n = tn__op2(g->c, OP_MUL, n, tn__const_num(g->c, g->dtype, 2));
  return tn__cast(g->c, n, TN__INDEX);
}

static tn_node *grow_index(growing *g, int depth) {
  tn_ctx *c = g->c;
  tn_node *x = g->loop[below(g->seed, 2)];
  switch (below(g->seed, depth ? 8 : 3)) {
  case 0: return x;
  case 1: return tn__op2(c, OP_ADD, g->loop[0], tn__int(c, below(g->seed, 3)));
  case 2: return tn__op2(c, below(g->seed, 2) ? OP_IDIV : OP_MOD, x, tn__int(c, 1 + below(g->seed, 3)));
  case 3: case 4: return grow_load(g, grow_index(g, depth - 1));
  case 5: return tn__op2(c, OP_MUL, grow_index(g, depth - 1), tn__int(c, 1 + below(g->seed, 8)));
  case 6: return tn__op2(c, below(g->seed, 2) ? OP_MUL : OP_MOD, grow_index(g, depth - 1), g->width);
  default: return tn__op2(c, OP_ADD, grow_index(g, depth - 1), grow_index(g, depth - 1));
  }
}

static tn_node *require(tn_ctx *c, tn_node *buf, int64_t what) {
  tn_node *src[] = {buf, tn__int(c, 0), tn__int(c, SIZE)};
  return tn__node_make(
      c, &(tn__make){.op = OP_REQUIRE, .src = src, .nsrc = what == REQ_IN ? 3 : 1, .ints = &what, .nint = 1});
}

/* Half of them have the form of spans: places from b[e] up to b[e + 1], or nearly so; a quarter that of rows of a
 * symbolic width. */
static tn_node *grow_body(growing *g) {
  tn_ctx *c = g->c;
  tn_node *size = tn__int(c, SIZE), *many = tn__int(c, 99999), *src[8], *sink[1 + REQ_COUNT * BUFFERS];
  uint32_t n = 0, sinks = 0;
  g->dtype = below(g->seed, 3) ? TN_I32 : TN_I64;
  for (int b = 0; b < BUFFERS; b++) g->buf[b] = tn__param(c, g->dtype, 1 + b, -1, &size, 1);
  g->width = tn__var(c, "W", below(g->seed, 2), 4);
  for (int i = 0; i < 2; i++) {
    tn_node *extent = below(g->seed, 4) ? tn__int(c, 2 + below(g->seed, 5)) : g->width;
    g->loop[i] = tn__range(c, extent, AX_LOOP, ROLE_OUTPUT, i);
  }
  if (!below(g->seed, 3)) g->gate[g->ngate++] = tn__op2(c, OP_LT, g->loop[0], tn__int(c, 1 + below(g->seed, 4)));
  tn_node *index = grow_index(g, 3);
  if (below(g->seed, 2)) {
    tn_node *e = g->loop[below(g->seed, 4) == 0], *next = tn__op2(c, OP_ADD, e, tn__int(c, 1 + !below(g->seed, 4)));
    index = tn__op2(c, OP_ADD, grow_load(g, e), below(g->seed, 4) ? g->loop[1] : grow_index(g, 1));
    g->gate[g->ngate++] = tn__op2(c, below(g->seed, 4) ? OP_LT : OP_LE, index, grow_load(g, next));
  } else if (below(g->seed, 2)) {
    tn_node *column = below(g->seed, 2) ? g->loop[1] : tn__op2(c, OP_MOD, grow_index(g, 1), g->width);
    if (!below(g->seed, 3)) column = tn__op2(c, OP_ADD, column, tn__op2(c, OP_MOD, g->loop[0], g->width));
    index = tn__op2(c, OP_ADD, tn__op2(c, OP_MUL, grow_load(g, g->loop[0]), g->width), column);
  }
  src[n++] = tn__param(c, TN_F32, 0, -1, &many, 1);
  src[n++] = index;
  src[n++] = tn__const_num(c, TN_F32, 1);
  tn_node *gate = NULL;
  for (int i = 0; i < g->ngate; i++)
    if (below(g->seed, 8)) gate = gate ? tn__op2(c, OP_AND, gate, g->gate[i]) : g->gate[i];
  if (gate) src[n++] = gate;
  src[n++] = g->loop[0];
  src[n++] = g->loop[1];
  sink[sinks++] = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = n});
  for (int b = 0; b < BUFFERS; b++)
    for (int what = 0; what < REQ_COUNT; what++)
      if (below(g->seed, 2)) sink[sinks++] = require(c, g->buf[b], what);
  return tn__sink(c, sink, sinks, "kernel");
}

static int by_value(const void *x, const void *y) {
  const int64_t *a = x, *b = y;
  return *a < *b ? -1 : *a > *b;
}

/* As required; few values, so that they meet where they may, and of i64 some that products bring to 0 */
static void fill(tn_ctx *c, const tn__kernel *k, int64_t slot, uint64_t *seed, int64_t *mem) {
  bool has[REQ_COUNT] = {0}, wide = slot < k->nbuf && k->buf_dtype[slot] == TN_I64;
  int32_t narrow[SIZE];
  for (uint32_t i = 0; i < k->nrequire; i++)
    if (k->require[i]->src[0]->ints[0] == slot) has[k->require[i]->ints[0]] = true;
  bool near = has[REQ_IN] || has[REQ_PERMUTED];
  int64_t from = near || below(seed, 2) ? 0 : -3, step = !near && below(seed, 2) ? 5 : 1;
  if (wide && !near && below(seed, 2)) step = (int64_t)1 << (60 - below(seed, 3)); /* SIZE of them fit */
  for (int i = 0; i < SIZE; i++) {
    int n = has[REQ_DISTINCT] || has[REQ_PERMUTED] ? i : below(seed, SIZE);
    mem[i] = from + step * (step > 5 ? n - SIZE / 2 : n);
  }
  for (int i = SIZE; i-- > 1;) {
    int j = below(seed, i + 1);
    int64_t t = mem[i];
    mem[i] = mem[j];
    mem[j] = t;
  }
  if (has[REQ_SORTED]) qsort(mem, SIZE, sizeof *mem, by_value);
  for (int i = 0; i < SIZE; i++) narrow[i] = (int32_t)mem[i];
  for (uint32_t i = 0; i < k->nrequire; i++)
    if (k->require[i]->src[0]->ints[0] == slot)
      assert_null(tn__require_fault(&c->scratch, k->require[i], wide ? (void *)mem : narrow, SIZE, 0, SIZE));
}

typedef struct running {
  const tn__part *p;
  int64_t mem[BUFFERS][SIZE], width;
  uint64_t *value; /* by instruction; leaves are constants */
  tn__map number;
  bool outside; /* a load was */
} running;

static uint64_t value_of(const running *r, const tn_node *n) {
  uint64_t at = 0;
  if (n->op == OP_CONST) return (uint64_t)n->ints[0];
  if (n->op == OP_VAR) return (uint64_t)r->width;
  assert_true(tn__map_get(&r->number, (uintptr_t)n, &at));
  return r->value[at];
}

static uint64_t compute(running *r, const tn_node *n) {
  uint64_t arg[3] = {0};
  if (n->op == OP_LOAD) {
    if (n->nsrc > 2 && !value_of(r, n->src[2])) return 0;
    uint64_t at = value_of(r, n->src[1]);
    r->outside |= at >= SIZE;
    return at < SIZE ? (uint64_t)r->mem[n->src[0]->ints[0] - 1][at] : 0;
  }
  for (uint32_t s = 0; s < n->nsrc; s++) arg[s] = value_of(r, n->src[s]);
  return tn__eval(n->op, n->dtype, n->src[n->op == OP_WHERE]->dtype, arg);
}

typedef struct turn {
  int64_t at[8], address;
} turn;

/* All turns that store, one after the other, by counting through the loops around the store */
static uint32_t count_turns(running *r, uint32_t store, tn_node *const *open, uint32_t loops, turn *out) {
  uint32_t n = 0;
  int64_t at[8] = {0};
  while (true) {
    r->outside = false;
    bool inside = true;
    for (uint32_t i = 0; i < store && inside; i++) {
      const tn_node *x = r->p->ins[i];
      if (x->op != OP_RANGE) r->value[i] = compute(r, x);
      for (uint32_t l = 0; l < loops; l++)
        if (x == open[l]) r->value[i] = (uint64_t)at[l], inside &= at[l] < (int64_t)value_of(r, x->src[0]);
    }
    const tn_node *x = r->p->ins[store], *gate = tn__gate_of(x);
    if (inside && !r->outside && (!gate || value_of(r, gate)) && n < TURNS) {
      memcpy(out[n].at, at, sizeof at);
      out[n++].address = (int64_t)value_of(r, x->src[1]);
    }
    uint32_t l = loops;
    while (l-- > 0 && ++at[l] > open[l]->hi) at[l] = 0;
    if (l == UINT32_MAX) return n;
  }
}

/* Do two turns of loop `by` meet that have the counters of those around it in common? */
static bool meet(const turn *t, uint32_t n, uint32_t by) {
  for (uint32_t x = 0; x < n; x++)
    for (uint32_t y = 0; y < x; y++)
      if (t[x].address == t[y].address && t[x].at[by] != t[y].at[by] && !memcmp(t[x].at, t[y].at, by * sizeof *t->at))
        return true;
  return false;
}

static bool meets_somewhere(tn_ctx *c, const tn__kernel *k, uint32_t store, const tn__nodes *open, uint32_t by,
                            uint64_t *seed) {
  static turn turns[TURNS];
  running r = {.p = &k->part[0], .value = tn__alloc(c, (k->part[0].n + 1) * sizeof *r.value)};
  tn__map_init(&r.number, &c->scratch);
  for (uint32_t i = 0; i < store; i++) tn__map_put(&r.number, (uintptr_t)r.p->ins[i], i);
  for (int m = 0; m < MEMORIES; m++) {
    r.width = k->nvar ? k->var[0]->lo + below(seed, (int)(k->var[0]->hi - k->var[0]->lo) + 1) : 0;
    for (int b = 0; b < BUFFERS; b++) fill(c, k, 1 + b, seed, r.mem[b]);
    if (meet(turns, count_turns(&r, store, open->v, open->n, turns), by)) return true;
  }
  return false;
}

static void draw(tn_ctx *c, void *arg) {
  drawn *d = arg;
  growing g = {.c = c, .seed = &d->seed};
  tn_node *body = grow_body(&g);
  tn__kernel *k = tn__lower(c, &c->scratch, body, &tn__device_get(c, 0)->target, NULL, 0);
  tn__nodes open = {0};
  for (uint32_t i = 0; i < k->part[0].n; i++) {
    tn_node *n = k->part[0].ins[i];
    if (n->op == OP_RANGE) tn__vec_push(&c->scratch, &open, n);
    if (n->op == OP_END) open.n--;
    for (uint32_t l = 0; n->op == OP_STORE && l < open.n; l++) {
      int64_t axis = open.v[l]->ints[RANGE_AXIS];
      if (axis != AX_GLOBAL && axis != AX_UPCAST && axis != AX_UNROLL) continue;
      bool told = tn__writers_apart(c, k, 0, i, &open, l), met = meets_somewhere(c, k, i, &open, l, &d->seed);
      d->told += told;
      d->met += met;
      if (!told || !met) continue;
      tn__sb s;
      tn__sb_init(&s, &c->scratch);
      tn__print(&s, body);
      fail_msg("turns of one loop meet that were told apart (loop %u, %s):\n%s", l, k->note, tn__sb_str(&s));
    }
  }
}

static void drawn_forms(void **state) {
  static const char *const devices[] = {"ref", "ref:cpu", "ref:opencl"};
  (void)state;
  for (size_t v = 0; v < sizeof devices / sizeof *devices; v++) {
    drawn d = {.seed = 5 + v};
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[v], .quiet = 1});
    assert_non_null(c);
    for (int i = 0; i < DRAWS; i++)
      if (!tn__ctx_run(c, "draw", draw, &d)) fail_msg("draw %d: %s", i, tn_last_error(c)->text);
    printf("%s: %u stores told apart, %u meet\n", devices[v], d.told, d.met);
    assert_true(d.told > DRAWS / 50 && d.met > DRAWS / 10);
    tn_ctx_close(c);
  }
}

/* ---- nothing is taken for granted of what is loaded ---- */

/* y[i] = x[...] of n elements, 40 or any number; i32 keys in b2 */
#define READ(size, lines, at)                                                                                          \
  "%1 = param f32[9] 9 {0 -1}\n%2 = range index 9 {loop 0 output}\n" size "%4 = param i32[9] 9 {2 -1}\n"              \
  "%5 = load i32 %4 %2\n%6 = cast index %5\n" lines "%90 = load f32 %3 " at "\n%91 = store void %1 %2 %90 %2\n"       \
  "%92 = sink void %91"
#define READ_U8(size, lines, at)                                                                                       \
  "%1 = param f32[9] 9 {0 -1}\n%2 = range index 9 {loop 0 output}\n" size "%4 = param u8[9] 9 {2 -1}\n"               \
  "%5 = load u8 %4 %2\n%6 = cast index %5\n" lines "%90 = load f32 %3 " at "\n%91 = store void %1 %2 %90 %2\n"        \
  "%92 = sink void %91"
#define SIZE_40 "%3 = param f32[40] 40 {1 -1}\n"
#define SIZE_N "%7 = var index {\"N\" 1 99}\n%3 = param f32[N] %7 {1 -1}\n%8 = add index %7 -1\n"

static const struct {
  const char *what, *text;
  bool good;
} reads[] = {
    {"as it is", READ(SIZE_40, "", "%6"), false},
    {"cut", READ(SIZE_40, "%10 = min index %6 39\n%11 = max index %10 0\n", "%11"), true},
    {"cut above", READ(SIZE_40, "%10 = min index %6 39\n", "%10"), false},
    {"cut below", READ(SIZE_40, "%10 = max index %6 0\n", "%10"), false},
    {"cut to any size", READ(SIZE_N, "%10 = min index %6 %8\n%11 = max index %10 0\n", "%11"), true},
    {"cut to any size, above", READ(SIZE_N, "%10 = min index %6 %8\n", "%10"), false},
    {"cut to any size, below", READ(SIZE_N, "%10 = max index %6 0\n", "%10"), false},
    {"cut to what is loaded", READ(SIZE_N, "%9 = load i32 %4 0\n%10 = cast index %9\n%11 = min index %6 %10\n"
                                   "%12 = max index %11 0\n", "%12"), false},
    {"never negative", READ_U8(SIZE_N, "%10 = min index %6 %8\n", "%10"), true},
    {"never negative, as it is", READ_U8(SIZE_N, "", "%6"), false},
    {"a remainder", READ(SIZE_N, "%10 = mod index %6 %7\n", "%10"), true},
    {"gated", READ(SIZE_N, "%10 = lt bool %6 %7\n%11 = le bool 0 %6\n%12 = and bool %10 %11\n", "%6 %12"), true},
    {"gated above", READ(SIZE_N, "%10 = lt bool %6 %7\n", "%6 %10"), false},
    {"gated below", READ(SIZE_N, "%10 = le bool 0 %6\n", "%6 %10"), false},
    {"gated above, cut below", READ(SIZE_N, "%9 = max index %6 0\n%10 = lt bool %9 %7\n", "%9 %10"), true},
    /* by which number is told elsewhere */
    {"gated above, cut below, of more", READ(SIZE_N, "%9 = max index %6 0\n%10 = lt bool %9 500\n", "%9 %10"), true},
    {"gated above, cut above", READ(SIZE_N, "%9 = min index %6 500\n%10 = lt bool %9 500\n", "%9 %10"), false},
    {"gated below, cut below", READ(SIZE_N, "%9 = max index %6 -5\n%10 = le bool 0 %9\n", "%9 %10"), false},
    {"gated, another", READ(SIZE_N, "%10 = lt bool %2 %7\n%11 = le bool 0 %2\n%12 = and bool %10 %11\n", "%6 %12"),
     false},
    {"gated, another, of a sum", READ(SIZE_N, "%9 = add index %6 %2\n%10 = lt bool %2 5\n", "%9 %10"), false},
    {"one of two", READ(SIZE_N, "%9 = lt bool %6 0\n%10 = where index %9 %7 %6\n", "%10"), false},
    {"required", READ(SIZE_N, "%10 = require void %4 0 %7 {in}\n", "%6") " %10", true},
    {"required to be distinct", READ(SIZE_N, "%10 = require void %4 {distinct}\n", "%6") " %10", false},
};

typedef struct reading {
  const char *text;
  char why[300];
} reading;

static void read_one(tn_ctx *c, void *arg) {
  reading *r = arg;
  uint32_t accesses = 0, proved = 0;
  char text[2000];
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  snprintf(text, sizeof text, "%s {\"kernel\"}\n", r->text);
  tn__kernel *k = tn__lower(c, &c->scratch, tn__parse(c, text), &tn__device_get(c, 0)->target, NULL, 0);
  const char *why = tn__bounds_prove(c, k, &(tn__bounds){.nbuf = 0}, &accesses, &proved, &open);
  snprintf(r->why, sizeof r->why, "%s", why ? why : "");
}

static void nothing_for_granted(void **state) {
  static const char *const devices[] = {"ref", "ref:cpu", "ref:opencl"};
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1});
    assert_non_null(c);
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
      reading r = {.text = reads[i].text};
      if (!tn__ctx_run(c, "read", read_one, &r)) fail_msg("%s: %s", reads[i].what, tn_last_error(c)->text);
      if (reads[i].good != (*r.why == 0)) fail_msg("%s on %s: \"%s\"", reads[i].what, devices[d], r.why);
      if (*r.why) assert_non_null(strstr(r.why, "an address that is loaded is neither cut"));
    }
    tn_ctx_close(c);
  }
}

/* ---- what a gate says of sums and products ---- */

#define READ_I64(lines, at)                                                                                            \
  "%1 = param f32[9] 9 {0 -1}\n%2 = range index 9 {loop 0 output}\n" SIZE_40 "%4 = param i64[9] 9 {2 -1}\n"           \
  "%5 = load i64 %4 %2\n%6 = cast index %5\n" lines "%90 = load f32 %3 " at "\n%91 = store void %1 %2 %90 %2\n"       \
  "%92 = sink void %91"
#define BETWEEN(x, lo, hi) "%20 = le bool " lo " " x "\n%21 = lt bool " x " " hi "\n%22 = and bool %20 %21\n"

static const struct {
  const char *what, *text;
  bool proved, by_z3;
} gated[] = {
    {"itself", READ_I64(BETWEEN("%6", "0", "40"), "%6 %22"), true, true},
    {"moved by some", READ_I64("%9 = add index %6 -5\n" BETWEEN("%9", "-5", "35"), "%6 %22"), true, true},
    {"moved by some, to where it wraps", READ_I64("%9 = add index %6 -5\n" BETWEEN("%9",
     "-9223372036854775806", "35"), "%6 %22"), false, false},
    {"moved by some, of i32", READ(SIZE_40, "%9 = add index %6 -5\n" BETWEEN("%9", "-5", "35"), "%6 %22"), true, true},
    {"what is moved", READ_I64("%9 = add index %6 -5\n" BETWEEN("%9", "0", "40"), "%9 %22"), true, true},
    {"moved where it is gated, below elsewhere", READ_I64("%9 = add index %6 -5\n%20 = le bool 0 %9\n"
     "%21 = lt bool %6 40\n%22 = and bool %20 %21\n", "%6 %22"), false, false},
    {"so, of i32", READ(SIZE_40, "%9 = add index %6 -5\n%20 = le bool 0 %9\n%21 = lt bool %6 40\n"
     "%22 = and bool %20 %21\n", "%6 %22"), true, true},
    {"eight times it, by itself", READ_I64("%9 = mul index %6 8\n" BETWEEN("%6", "0", "5"), "%9 %22"), true, true},
    {"eight times it", READ_I64("%9 = mul index %6 8\n" BETWEEN("%9", "0", "40"), "%9 %22"), true, true},
    {"itself, by eight times it", READ_I64("%9 = mul index %6 8\n" BETWEEN("%9", "0", "40"), "%6 %22"), false, false},
    {"itself, by eight times it, of i32", READ(SIZE_40, "%9 = mul index %6 8\n" BETWEEN("%9", "0", "40"), "%6 %22"),
     false, true},
    {"twice it, by itself, for a solver", READ_I64("%9 = mul index %6 2\n%10 = add index %9 %2\n"
     "%11 = mod index %10 3\n%12 = add index %11 %6\n" BETWEEN("%6", "0", "38"), "%12 %22"), true, true},
    {"the sum of two that are gated", READ_I64("%7 = add index %2 0\n%9 = add index %6 %2\n"
     BETWEEN("%6", "0", "32"), "%9 %22"), true, true},
};

typedef struct proving {
  const char *text;
  uint32_t accesses, proved;
  char why[300], open[20000];
} proving;

static void prove_one(tn_ctx *c, void *arg) {
  proving *p = arg;
  char text[2000];
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  snprintf(text, sizeof text, "%s {\"kernel\"}\n", p->text);
  tn__kernel *k = tn__lower(c, &c->scratch, tn__parse(c, text), &tn__device_get(c, 0)->target, NULL, 0);
  tn__bounds_prove(c, k, &(tn__bounds){.nbuf = 0}, &p->accesses, &p->proved, &open);
  snprintf(p->open, sizeof p->open, "%s", tn__sb_str(&open));
}

static void sums_that_wrap(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) {
    proving p = {.text = gated[i].text};
    if (!tn__ctx_run(c, "prove", prove_one, &p)) fail_msg("%s: %s", gated[i].what, tn_last_error(c)->text);
    if (p.proved + !gated[i].proved != p.accesses)
      fail_msg("%s: %u of %u accesses are proved", gated[i].what, p.proved, p.accesses);
    const char *word = *p.open ? solve(p.open) : NULL;
    if (word && strcmp(word, gated[i].by_z3 ? "unsat\n" : "sat\n"))
      fail_msg("%s: z3 says %s of %s", gated[i].what, word, p.open);
  }
  tn_ctx_close(c);
}

/* Eight times what is loaded may wrap, and something stands for it; a size that is named like that is another one. */
static void take_size_away(tn_ctx *c, void *arg) {
  proving *p = arg;
  char text[2000], name[40] = "";
  const char *from = p->text, *at = strstr(from, "NAME");
  assert_non_null(at);
  snprintf(text, sizeof text, "%s {\"kernel\"}\n", from);
  const tn__kernel *k = tn__lower(c, &c->scratch, tn__parse(c, text), &tn__device_get(c, 0)->target, NULL, 0);
  for (uint32_t i = 0; i < k->part[0].n; i++)
    if (k->part[0].ins[i]->op == OP_MUL && k->part[0].ins[i]->src[0]->op == OP_CAST)
      snprintf(name, sizeof name, "wraps%llu", (unsigned long long)k->part[0].ins[i]->serial);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - from), from, name, at + 4);
  p->text = text;
  prove_one(c, p);
}

static void sizes_of_any_name(void **state) {
  proving p = {.text = READ_I64("%9 = mul index %6 8\n" BETWEEN("%9", "0", "40") "%10 = var index {\"NAME\" 0 39}\n"
                                "%11 = mul index %10 -1\n%12 = add index %9 %11\n", "%12 %22")};
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "prove", take_size_away, &p)) fail_msg("%s", tn_last_error(c)->text);
  assert_int_equal(p.accesses, 3);
  assert_int_equal(p.proved, 2);
  tn_ctx_close(c);
}

/* A gate of 2^60 conditions, of which some sixty are different ones */
static void deep_gates(tn_ctx *c, void *arg) {
  tn_node *r = tn__range(c, tn__int(c, 9), AX_LOOP, ROLE_OUTPUT, 0), *gate = tn__op2(c, OP_LT, r, tn__int(c, 5));
  tn__given g;
  (void)arg;
  for (int i = 0; i < 60; i++) {
    tn_node *x = tn__op2(c, OP_LT, r, tn__int(c, 6)), *y = tn__op2(c, OP_LE, r, tn__int(c, 7));
    gate = tn__op2(c, OP_AND, tn__op2(c, OP_AND, gate, x), tn__op2(c, OP_AND, gate, y));
  }
  tn__given_find(c, NULL, gate, &g);
  assert_true(tn__given_holds(c, &g, gate));
  assert_int_equal(g.positive.n, 3);
  tn__map_init(&g.conditions, &c->scratch);
  for (uint32_t i = 0; i < 2; i++) /* the least of it is missing */
    tn__map_putp(&g.conditions, gate->src[i]->src[1], gate);
  assert_false(tn__given_holds(c, &g, gate));
  tn__given_find(c, NULL, tn__op2(c, OP_AND, gate->src[0]->src[1], gate->src[1]->src[1]), &g);
  assert_false(tn__given_holds(c, &g, gate));
  tn__map_putp(&g.conditions, tn__op2(c, OP_LT, r, tn__int(c, 5)), gate);
  assert_true(tn__given_holds(c, &g, gate));
}

static void shared_conditions(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "deep", deep_gates, NULL)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

/* What is made of gathers: each cut of a loaded index is needed, but where threads share work out, and loads have the
 * condition that it is inside as their gate: that is enough. */
typedef struct losing {
  tn_tensor *t;
  uint32_t lost, refused;
} losing;

static void lose_cuts(tn_ctx *c, void *arg) {
  losing *l = arg;
  tn__nodes in = {0}, all = {0};
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, &l->t->node, 1, &in)};
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  tn__topo(&c->scratch, &p.s->text, 1, &all);
  for (uint32_t i = 0; i < p.s->items.n; i++)
    for (uint32_t n = 0; n < all.n; n++) {
      tn_node *cut = all.v[n], *body = p.s->items.v[i].body;
      if ((cut->dtype != TN__INDEX && cut->dtype != TN_I64) || (cut->op != OP_MIN && cut->op != OP_MAX)) continue;
      tn_node *less = tn__substitute(c, body, &cut, &cut->src[tn__is_const(cut->src[0])], 1);
      if (less == body) continue;
      uint32_t accesses = 0, proved = 0;
      tn__sb open;
      tn__sb_init(&open, &c->scratch);
      tn__kernel *k = tn__lower(c, &c->scratch, less, &p.dev->target, NULL, 0);
      l->lost++;
      l->refused += tn__bounds_prove(c, k, &(tn__bounds){.nbuf = 0}, &accesses, &proved, &open) != NULL;
    }
}

static void each_cut_is_needed(void **state) {
  static const char *const devices[] = {"ref", "ref:cpu", "ref:sm_90", "ref:opencl"};
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1});
    assert_non_null(c);
    tn_tensor *x = tn_zeros(c, TN_F32, (tn_dim[]){30, 7}, 2), *i = tn_zeros(c, TN_I32, (tn_dim[]){50}, 1);
    tn_tensor *j = tn_zeros(c, TN_I64, (tn_dim[]){30, 4}, 2);
    tn_tensor *held[] = {x, i, j};
    assert_int_equal(tn_realize(held, 3), TN_OK);
    tn_tensor *made[] = {tn_take(x, i, 0), tn_take_along_axis(x, j, 1), tn_sum(tn_take(x, i, 0), (int[]){1}, 1, false),
                         tn_take(tn_softmax(x, 1), i, 0)};
    for (size_t m = 0; m < sizeof made / sizeof *made; m++) {
      losing l = {.t = made[m]};
      assert_non_null(made[m]);
      if (!tn__ctx_run(c, "lose", lose_cuts, &l)) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
      uint32_t needed = tn__device_get(c, 0)->target.group ? 0 : l.lost;
      if (!l.lost || l.refused != needed) fail_msg("%s, graph %zu: %u of %u refused", devices[d], m, l.refused, l.lost);
    }
    tn_ctx_close(c);
  }
}

/* ---- facts ---- */

static void check_facts(tn_ctx *c, void *arg) {
  (void)arg;
  for (int written = 0; written < 2; written++) {
    lin *l = lin_new(c, "facts");
    tn_node *out = lin_buf(l, TN_I32, true), *in = lin_buf(l, TN_I32, written);
    tn_node *r = lin_range(l, tn__int(c, 1), AX_GLOBAL, 0), *all[] = {require(c, in, REQ_DISTINCT)};
    l->k.require = all;
    l->k.nrequire = 1;
    lin_store(l, OP_STORE, out, r, tn__const_num(c, TN_I32, 1), NULL);
    if (written) lin_store(l, OP_STORE, in, r, tn__const_num(c, TN_I32, 1), NULL);
    lin_end(l, r);
    const char *why = tn__facts_check(&c->scratch, &l->k, &tn__device_get(c, 0)->target);
    if (!written) assert_null(why);
    else if (!why || !strstr(why, "requires something of a buffer that it stores to: 1")) fail_msg("%s", why);
  }
}

static void facts(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "facts", check_facts, NULL)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_name), cmocka_unit_test(drawn_forms), cmocka_unit_test(facts),
                                     cmocka_unit_test(nothing_for_granted), cmocka_unit_test(each_cut_is_needed),
                                     cmocka_unit_test(sums_that_wrap), cmocka_unit_test(sizes_of_any_name),
                                     cmocka_unit_test(shared_conditions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
