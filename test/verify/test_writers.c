/* Stores by turns that may run at once: what verify/writers.h says of drawn nests of loops, against a count of all
 * turns by this test's own arithmetic; mistakes as they are made, each refused by name; and what a solver is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/ctx.h"
#include "support/linear.h"
#include "verify/writers.h"

enum { DRAWS = 4000, MOST = 4, ROOM = 1024 };

typedef struct loop {
  int axis, extent;
  int64_t step, split, low; /* moves the address by step * (i / split) + low * (i mod split); split 0: by step * i */
} loop;

typedef struct nest { /* loops from the outermost, and a store in the innermost */
  int group, loops, barrier; /* barrier: behind the store, in this loop; -1: none */
  bool local;                /* to memory that a group shares */
  int gate, bound;           /* only where the counter of loop `gate` is below the bound; -1: always */
  loop loop[MOST];
} nest;

/* ---- the nest as a kernel ---- */

typedef struct asking {
  const nest *n;
  tn__writers count;
  char why[200], open[4000];
} asking;

static tn_node *address_of(lin *l, const nest *n, tn_node *const *r) {
  tn_ctx *c = l->c;
  tn_node *sum = tn__int(c, 0);
  for (int i = 0; i < n->loops; i++) {
    const loop *x = &n->loop[i];
    tn_node *split = tn__int(c, x->split ? x->split : 1);
    tn_node *high = x->split ? tn__op2(c, OP_IDIV, r[i], split) : r[i];
    sum = tn__op2(c, OP_ADD, sum, tn__op2(c, OP_MUL, high, tn__int(c, x->step)));
    if (x->split)
      sum = tn__op2(c, OP_ADD, sum, tn__op2(c, OP_MUL, tn__op2(c, OP_MOD, r[i], split), tn__int(c, x->low)));
  }
  return sum;
}

static void ask(tn_ctx *c, void *arg) {
  asking *q = arg;
  const nest *n = q->n;
  lin *l = lin_new(c, "drawn");
  tn_node *r[MOST], *buf = n->local ? lin_local(l, TN_F32, 1000) : lin_buf(l, TN_F32, true);
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  l->k.part[0].group = n->group;
  for (int i = 0; i < n->loops; i++) r[i] = lin_range(l, tn__int(c, n->loop[i].extent), n->loop[i].axis, i);
  lin_store(l, OP_STORE, buf, address_of(l, n, r), tn__const_num(c, TN_F32, 1),
            n->gate < 0 ? NULL : tn__op2(c, OP_LT, r[n->gate], tn__int(c, n->bound)));
  for (int i = n->loops; i-- > 0;) {
    if (n->barrier == i) lin_barrier(l, 0);
    lin_end(l, r[i]);
  }
  const char *why = tn__writers_prove(c, &l->k, NULL, &q->count, &open);
  snprintf(q->why, sizeof q->why, "%s", why ? why : "");
  snprintf(q->open, sizeof q->open, "%s", tn__sb_str(&open));
}

static asking answer(const nest *n) {
  asking q = {.n = n};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "ask", ask, &q)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
  return q;
}

/* ---- the same by counting ---- */

static int64_t place(const nest *n, const int *at) {
  int64_t sum = 0;
  for (int i = 0; i < n->loops; i++) {
    const loop *x = &n->loop[i];
    sum += x->split ? at[i] / x->split * x->step + at[i] % x->split * x->low : at[i] * x->step;
  }
  return sum;
}

/* Do turns of loop `by` meet?  A turn of one runs with every turn of the loops inside it, and on groups of those around
 * it, too, but for the slices' and those that wait at a barrier, which orders what a group shares. */
static bool meet_at(const nest *n, int by) {
  int all = 1, turns = 0;
  static int at[ROOM][MOST];
  static int64_t where[ROOM];
  bool threads = n->group && n->loop[by].axis == AX_UPCAST;
  for (int i = 0; i < n->loops; i++) all *= n->loop[i].extent;
  for (int t = 0; t < all; t++) {
    for (int i = n->loops, rest = t; i-- > 0; rest /= n->loop[i].extent) at[turns][i] = rest % n->loop[i].extent;
    if (n->gate >= 0 && at[turns][n->gate] >= n->bound) continue;
    where[turns] = place(n, at[turns]);
    turns++;
  }
  for (int x = 0; x < turns; x++)
    for (int y = 0; y < x; y++) {
      bool together = where[x] == where[y] && at[x][by] != at[y][by];
      for (int i = 0; i < by; i++) {
        bool waits = !threads || n->loop[i].axis == AX_GLOBAL || (n->local && n->barrier == i);
        together &= !waits || at[x][i] == at[y][i];
      }
      if (together) return true;
    }
  return false;
}

static bool meet(const nest *n) {
  for (int i = 0; i < n->loops; i++) {
    int axis = n->loop[i].axis;
    if (axis == AX_LOOP || n->loop[i].extent < 2 || (axis == AX_GLOBAL && n->local)) continue;
    if (meet_at(n, i)) return true;
  }
  return false;
}

/* ---- drawing ---- */

static int below(uint64_t *seed, int n) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (int)((*seed >> 33) % (uint64_t)n);
}

/* Loops over the digits of an address, as they should be: slices, a loop, lanes, neighbours, some of them left out */
static nest draw(uint64_t *seed) {
  static const int kind[MOST] = {AX_GLOBAL, AX_LOOP, AX_UPCAST, AX_UNROLL};
  nest n = {.gate = -1, .barrier = -1};
  int64_t width = 1;
  bool done[MOST] = {0};
  n.group = below(seed, 2) * 32;
  for (int i = 0; i < MOST; i++)
    if (below(seed, 4) || (i == MOST - 1 && !n.loops))
      n.loop[n.loops++] = (loop){.axis = kind[i], .extent = 1 + below(seed, 5)};
  for (int k = 0; k < n.loops; k++) { /* digits in any order */
    int i = below(seed, n.loops);
    while (done[i]) i = (i + 1) % n.loops;
    done[i] = true;
    n.loop[i].step = width;
    width = width * n.loop[i].extent + below(seed, 3);
  }
  if (n.loops && !below(seed, 4)) { /* of which one is written as two */
    loop *x = &n.loop[below(seed, n.loops)];
    x->split = 2;
    x->low = x->step;
    x->step *= 2;
  }
  if (n.loops && !below(seed, 4)) n.gate = below(seed, n.loops), n.bound = 1 + below(seed, 4);
  if (n.group && n.loops && !below(seed, 3)) n.barrier = 0;
  n.local = !below(seed, 4);
  return n;
}

enum { AS_IT_SHOULD_BE, NO_COUNTER, LONGER, SHORT_STEP, MISTAKES };

static void plant(nest *n, int mistake, uint64_t *seed) {
  loop *x = &n->loop[below(seed, n->loops)];
  switch (mistake) {
  case NO_COUNTER: x->step = x->low = 0; break;
  case LONGER: x->extent++; break;
  case SHORT_STEP: x->step -= x->step > 0; break;
  default: break;
  }
}

static void drawn(void **state) {
  int refused[MISTAKES] = {0}, left = 0;
  uint64_t seed = 11;
  (void)state;
  for (int i = 0; i < DRAWS; i++) {
    nest n = draw(&seed);
    int mistake = n.loops ? i % MISTAKES : AS_IT_SHOULD_BE;
    plant(&n, mistake, &seed);
    asking q = answer(&n);
    if ((q.why[0] != 0) != meet(&n)) fail_msg("draw %d, mistake %d: %s", i, mistake, q.why[0] ? q.why : "not refused");
    refused[mistake] += q.why[0] != 0;
    if (!q.why[0]) left += (int)(q.count.stores - q.count.by_form - q.count.by_trying);
  }
  assert_int_equal(refused[AS_IT_SHOULD_BE], 0);
  for (int m = AS_IT_SHOULD_BE + 1; m < MISTAKES; m++)
    if (refused[m] < DRAWS / 40) fail_msg("mistake %d was made %d times", m, refused[m]);
  assert_int_equal(left, 0); /* all are small enough to be tried */
}

/* ---- by name ---- */

#define LOOPS(...) {__VA_ARGS__}, .loops = sizeof((loop[]){__VA_ARGS__}) / sizeof(loop)

static const struct named {
  const char *what;
  nest n;
  const char *want; /* "": nothing is wrong */
  uint32_t by_form, by_trying;
} named[] = {
    {"rows and lanes",
     {.loop = LOOPS({AX_GLOBAL, 7, 64, 0, 0}, {AX_UPCAST, 64, 1, 0, 0}), .gate = -1, .barrier = -1}, "", 2, 0},
    {"lanes without their number",
     {.loop = LOOPS({AX_GLOBAL, 7, 64, 0, 0}, {AX_UPCAST, 64, 0, 0, 0}), .gate = -1, .barrier = -1},
     "lanes 0 and 1 store to one place, element 0 of b0", 1, 0},
    {"one column too many",
     {.loop = LOOPS({AX_GLOBAL, 7, 64, 0, 0}, {AX_UPCAST, 65, 1, 0, 0}), .gate = -1, .barrier = -1},
     "slices 0 and 1 store to one place, element 64 of b0", 0, 0},
    {"one column too many, which a gate keeps out",
     {.loop = LOOPS({AX_GLOBAL, 7, 64, 0, 0}, {AX_UPCAST, 65, 1, 0, 0}), .gate = 1, .bound = 64, .barrier = -1}, "", 2,
     0},
    {"as many columns as a gate lets in, and one",
     {.loop = LOOPS({AX_GLOBAL, 7, 64, 0, 0}, {AX_UPCAST, 66, 1, 0, 0}), .gate = 1, .bound = 65, .barrier = -1},
     "slices 0 and 1 store to one place, element 64 of b0", 0, 0},
    {"steps of two and of three, few of each",
     {.loop = LOOPS({AX_GLOBAL, 3, 2, 0, 0}, {AX_UPCAST, 2, 3, 0, 0}), .gate = -1, .barrier = -1}, "", 1, 1},
    {"rows closer than they are long",
     {.loop = LOOPS({AX_GLOBAL, 100, 63, 0, 0}, {AX_LOOP, 64, 1, 0, 0}), .gate = -1, .barrier = -1},
     "slices 0 and 1 store to one place, element 63 of b0", 0, 0},
    {"threads that are ahead of others, up to the barrier",
     {.loop = LOOPS({AX_LOOP, 8, 1, 0, 0}, {AX_UPCAST, 32, 1, 0, 0}), .group = 32, .local = true, .gate = -1,
      .barrier = 0}, "", 1, 0},
    {"threads that are ahead of others, and no barrier",
     {.loop = LOOPS({AX_LOOP, 8, 1, 0, 0}, {AX_UPCAST, 32, 1, 0, 0}), .group = 32, .local = true, .gate = -1,
      .barrier = -1}, "lanes 1 and 0 store to one place, element 1 of local0", 0, 0},
    {"a counter in two digits",
     {.loop = LOOPS({AX_GLOBAL, 4096, 2, 32, 8192}), .gate = -1, .barrier = -1}, "", 1, 0},
};

static void names(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    asking q = answer(&named[i].n);
    if (named[i].want[0] ? !strstr(q.why, named[i].want) : q.why[0] != 0)
      fail_msg("%s: it says \"%s\"", named[i].what, q.why);
    if (q.count.by_form != named[i].by_form || q.count.by_trying != named[i].by_trying)
      fail_msg("%s: %u by form, %u by trying", named[i].what, q.count.by_form, q.count.by_trying);
  }
}

/* Too many turns to try, and a form that says nothing: 2 r and 3 r' of more than 10,000 each */
static void left_to_a_solver(void **state) {
  static const nest n = {.loop = LOOPS({AX_GLOBAL, 20000, 30000, 0, 0}, {AX_UPCAST, 10000, 2, 5000, 1}), .gate = -1,
                         .barrier = -1};
  (void)state;
  asking q = answer(&n);
  assert_string_equal(q.why, "");
  assert_int_equal(q.count.stores, 2);
  assert_int_equal(q.count.by_form, 1);
  assert_non_null(strstr(q.open, "(distinct x"));
  assert_null(strchr(strchr(q.open, '\n') + 1, '\n'));
}

/* ---- digits that are written in other ways ---- */

/* lead * (t / by) + middle * ((t / low) mod (by / low)) + (factor * t + more * r + shift) mod rest, of 128 threads and
 * two neighbours r of each */
typedef struct digits {
  int lead, by, middle, low, factor, more, shift, rest, last;
  uint32_t told; /* of both loops, by form */
  bool meet;
} digits;

typedef struct asking_digits {
  const digits *d;
  tn__writers count;
  bool met;
} asking_digits;

static void ask_digits(tn_ctx *c, void *arg) {
  asking_digits *q = arg;
  const digits *d = q->d;
  lin *l = lin_new(c, "digits");
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  l->k.part[0].group = 128;
  tn_node *t = lin_range(l, tn__int(c, 128), AX_UPCAST, 0), *r = lin_range(l, tn__int(c, 2), AX_UNROLL, 1);
  tn_node *lead = tn__mul(c, tn__op2(c, OP_IDIV, t, tn__int(c, d->by)), tn__int(c, d->lead));
  tn_node *rest = tn__add(c, tn__mul(c, t, tn__int(c, d->factor)), tn__mul(c, r, tn__int(c, d->more)));
  rest = tn__op2(c, OP_MOD, tn__add(c, rest, tn__int(c, d->shift)), tn__int(c, d->rest));
  tn_node *at = tn__add(c, lead, tn__mul(c, rest, tn__int(c, d->last)));
  if (d->low > 1) {
    tn_node *middle = tn__op2(c, OP_IDIV, t, tn__int(c, d->low));
    middle = tn__op2(c, OP_MOD, middle, tn__int(c, d->by / d->low));
    at = tn__add(c, at, tn__mul(c, middle, tn__int(c, d->middle)));
  }
  if (!d->more) at = tn__add(c, tn__mul(c, at, tn__int(c, 2)), r);
  lin_store(l, OP_STORE, lin_buf(l, TN_F32, true), at, tn__const_num(c, TN_F32, 1), NULL);
  lin_end(l, r);
  lin_end(l, t);
  q->met = tn__writers_prove(c, &l->k, NULL, &q->count, &open) != NULL;
}

static void other_digits(void **s) {
  static const digits all[] = {
      {.lead = 8, .by = 3, .factor = 1, .shift = 0, .rest = 3, .last = 1, .told = 2},
      {.lead = 8, .by = 3, .factor = 1, .shift = 6, .rest = 3, .last = 1, .told = 2},
      {.lead = 8, .by = 3, .factor = 4, .shift = 3, .rest = 3, .last = 1, .told = 2},
      {.lead = 8, .by = 4, .factor = 1, .shift = 6, .rest = 3, .last = 1, .meet = true},
      {.lead = 8, .by = 3, .factor = 3, .shift = 0, .rest = 3, .last = 1, .meet = true},
      {.lead = 72, .by = 57, .middle = 1, .low = 3, .factor = 1, .rest = 3, .last = 24, .told = 2},
      {.lead = 72, .by = 57, .middle = 1, .low = 3, .factor = 1, .shift = 3, .rest = 3, .last = 24, .told = 2},
      {.lead = 72, .by = 57, .middle = 1, .low = 19, .factor = 1, .rest = 3, .last = 24, .meet = true},
      {.lead = 1, .by = 16, .factor = 2, .more = 1, .rest = 32, .last = 40, .told = 1},
      {.lead = 1, .by = 16, .factor = 2, .more = 1, .rest = 16, .last = 40, .meet = true},
      {.lead = 1, .by = 16, .factor = 2, .more = 2, .rest = 32, .last = 40, .meet = true},
  };
  (void)s;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    asking_digits q = {.d = &all[i]};
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
    assert_non_null(c);
    if (!tn__ctx_run(c, "ask", ask_digits, &q)) fail_msg("%s", tn_last_error(c)->text);
    tn_ctx_close(c);
    bool right = all[i].meet ? q.met : !q.met && q.count.by_form == all[i].told;
    if (!right)
      fail_msg("digits %zu: %u by form, %s", i, (unsigned)q.count.by_form, q.met ? "some meet" : "none are met");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drawn),
      cmocka_unit_test(names),
      cmocka_unit_test(left_to_a_solver),
      cmocka_unit_test(other_digits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
