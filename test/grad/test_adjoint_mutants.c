/* Would a wrong adjoint be noticed?  Of each linear op a few small graphs are made, and the engine's adjoint of each;
 * the adjoint is then changed in one place, in every way that the table below knows.  A change is refused where shapes
 * no longer fit, or else must have a witness: two elements such that the op takes so much of the one for the other, and
 * the adjoint gives another share back; or one at which it is not even linear.  (That the adjoints as they are hold for
 * all sizes is proved, prove/adjoint_coq.c.)  No change survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "grad/adjoint.h"
#include "rewrite/rewrite.h"
#include "support/naive.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LEAVES = 4 };

#define N(v) tn__int(c, v)
#define DIMS(...) (tn_node *[]){__VA_ARGS__}, (uint32_t)(sizeof((tn_node *[]){__VA_ARGS__}) / sizeof(tn_node *))
#define NODES(...) (tn_node *[]){__VA_ARGS__}
#define INTS(...) (int64_t[]){__VA_ARGS__}

/* ---- graphs: of x, which is by name source `k` of the op ---- */

static tn_node *param(tn_ctx *c, int slot, tn_node *const *dim, uint32_t rank) {
  return tn__param(c, TN_F64, slot, 0, dim, rank);
}
static tn_node *matrix(tn_ctx *c) { return param(c, 0, DIMS(N(3), N(4))); }
static tn_node *box(tn_ctx *c) { return param(c, 0, DIMS(N(2), N(3), N(4))); }
static tn_node *line(tn_ctx *c) { return param(c, 0, DIMS(N(9))); }
static tn_node *index_leaf(tn_ctx *c) { return tn__param(c, TN_I32, 3, 0, DIMS(N(5))); }

static tn_node *sum_rows(tn_ctx *c) { return tn__reduce(c, OP_SUM, matrix(c), INTS(0), 1); }
static tn_node *sum_two(tn_ctx *c) { return tn__reduce(c, OP_SUM, box(c), INTS(0, 2), 2); }
static tn_node *reshape(tn_ctx *c) { return tn__reshape(c, matrix(c), DIMS(N(2), N(6))); }
static tn_node *expand(tn_ctx *c) {
  return tn__expand(c, param(c, 0, DIMS(N(3), N(1), N(2))), NODES(N(3), N(4), N(2)));
}
static tn_node *permute(tn_ctx *c) { return tn__permute(c, box(c), INTS(1, 2, 0)); }
static tn_node *permute_alike(tn_ctx *c) { return tn__permute(c, param(c, 0, DIMS(N(3), N(3), N(3))), INTS(1, 2, 0)); }
static tn_node *pad(tn_ctx *c) { return tn__pad(c, matrix(c), NODES(N(1), N(2), N(3), N(1))); }
static tn_node *shrink(tn_ctx *c) { return tn__shrink(c, matrix(c), NODES(N(1), N(1)), NODES(N(1), N(2)), NULL); }
static tn_node *stride(tn_ctx *c) { return tn__shrink(c, line(c), NODES(N(1)), NODES(N(3)), INTS(2)); }
static tn_node *stride_to_end(tn_ctx *c) { return tn__shrink(c, line(c), NODES(N(2)), NODES(N(3)), INTS(3)); }
static tn_node *flip(tn_ctx *c) { return tn__flip(c, matrix(c), INTS(1), 1); }
static tn_node *flip_two(tn_ctx *c) { return tn__flip(c, box(c), INTS(0, 2), 2); }
static tn_node *window(tn_ctx *c) { return tn__window(c, line(c), 0, 3, 2, 1); }
static tn_node *window_dilated(tn_ctx *c) { return tn__window(c, param(c, 0, DIMS(N(2), N(10))), 1, 2, 2, 3); }
static tn_node *fold(tn_ctx *c) { return tn__fold(c, param(c, 0, DIMS(N(3), N(2))), N(9), 0, 2, 2, 3); }
static tn_node *gather(tn_ctx *c) { return tn__gather(c, matrix(c), index_leaf(c)); }
static tn_node *scatter_base(tn_ctx *c) {
  return tn__scatter(c, matrix(c), index_leaf(c), param(c, 1, DIMS(N(5), N(4))));
}
static tn_node *scatter_updates(tn_ctx *c) {
  return tn__scatter(c, param(c, 1, DIMS(N(3), N(2))), index_leaf(c), param(c, 0, DIMS(N(5), N(2))));
}
static tn_node *contract_left(tn_ctx *c) {
  return tn__contract(c, matrix(c), param(c, 1, DIMS(N(2), N(4))), 0, 1, 1, 1);
}
static tn_node *contract_right(tn_ctx *c) {
  return tn__contract(c, param(c, 1, DIMS(N(2), N(4))), matrix(c), 0, 1, 1, 1);
}
static tn_node *contract_square(tn_ctx *c) {
  return tn__contract(c, param(c, 0, DIMS(N(3), N(3))), param(c, 1, DIMS(N(3), N(3))), 0, 1, 1, 1);
}
static tn_node *contract_batched(tn_ctx *c) {
  return tn__contract(c, param(c, 1, DIMS(N(2), N(3), N(2))), param(c, 0, DIMS(N(2), N(4), N(2))), 1, 1, 1, 1);
}
static tn_node *contiguous(tn_ctx *c) {
  return tn__node_make(c, &(tn__make){.op = OP_CONTIG, .src = NODES(matrix(c)), .nsrc = 1});
}

static const struct {
  const char *name;
  tn_node *(*make)(tn_ctx *c);
  uint32_t k;
} graphs[] = {
    {"sum", sum_rows, 0},
    {"sum", sum_two, 0},
    {"reshape", reshape, 0},
    {"expand", expand, 0},
    {"permute", permute, 0},
    {"permute", permute_alike, 0},
    {"pad", pad, 0},
    {"shrink", shrink, 0},
    {"shrink", stride, 0},
    {"shrink", stride_to_end, 0},
    {"flip", flip, 0},
    {"flip", flip_two, 0},
    {"window", window, 0},
    {"window", window_dilated, 0},
    {"fold", fold, 0},
    {"gather", gather, 0},
    {"scatter", scatter_base, 0},
    {"scatter", scatter_updates, 2},
    {"contract", contract_left, 0},
    {"contract", contract_right, 1},
    {"contract", contract_square, 0},
    {"contract", contract_batched, 1},
    {"contiguous", contiguous, 0},
};
enum { GRAPHS = sizeof graphs / sizeof *graphs };

/* ---- changes of a node; NULL: not of this one ---- */

static tn_node *with(tn_ctx *c, tn_node *n, uint32_t at, tn_node *x) {
  tn_node *src[2 * TN_MAX_RANK + 1];
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[at] = x;
  return tn__node_with(c, n, src);
}
static tn_node *more(tn_ctx *c, tn_node *n, uint32_t at, int64_t by) {
  return with(c, n, at, tn__add(c, n->src[at], N(by)));
}
static tn_node *with_int(tn_ctx *c, tn_node *n, uint32_t at, int64_t by) {
  int64_t ints[TN_MAX_RANK];
  memcpy(ints, n->ints, n->nint * sizeof *ints);
  ints[at] += by;
  return tn__node_make(
      c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = n->src, .nsrc = n->nsrc, .ints = ints, .nint = n->nint});
}

static tn_node *no_sum(tn_ctx *c, tn_node *n) {
  return n->op == OP_SUM ? tn__reduce(c, OP_RMAX, n->src[0], n->ints, n->nint) : NULL;
}
static tn_node *half_a_sum(tn_ctx *c, tn_node *n) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  if (n->op != OP_SUM) return NULL;
  tn_node *x = n->src[0];
  for (uint32_t i = 0; i < x->rank; i++) begin[i] = N(0), size[i] = x->dim[i];
  size[n->ints[0]] = tn__sub(c, size[n->ints[0]], N(1));
  return tn__reduce(c, OP_SUM, tn__shrink(c, x, begin, size, NULL), n->ints, n->nint);
}
static tn_node *to_first(tn_ctx *c, tn_node *n) {
  tn_node *lohi[2 * TN_MAX_RANK];
  /* zeros stay zeros */
  if (n->op != OP_EXPAND || (n->src[0]->op == OP_RESHAPE && n->src[0]->src[0]->op == OP_CONST)) return NULL;
  for (uint32_t i = 0; i < n->rank; i++) lohi[2 * i] = N(0), lohi[2 * i + 1] = tn__sub(c, n->dim[i], n->src[0]->dim[i]);
  return tn__pad(c, n->src[0], lohi);
}
static tn_node *by_columns(tn_ctx *c, tn_node *n) {
  int64_t back[TN_MAX_RANK];
  uint32_t rank = n->op == OP_RESHAPE ? n->src[0]->rank : 0;
  for (uint32_t i = 0; i < rank; i++) back[i] = rank - 1 - i;
  return rank > 1 ? tn__reshape(c, tn__permute(c, n->src[0], back), n->dim, n->rank) : NULL;
}
static tn_node *no_permute(tn_ctx *c, tn_node *n) {
  return n->op == OP_PERMUTE ? tn__reshape(c, n->src[0], n->dim, n->rank) : NULL;
}
static tn_node *other_way(tn_ctx *c, tn_node *n) {
  int64_t back[TN_MAX_RANK];
  for (uint32_t i = 0; n->op == OP_PERMUTE && i < n->rank; i++) back[n->ints[i]] = i;
  return n->op == OP_PERMUTE && memcmp(back, n->ints, n->rank * sizeof *back) ? tn__permute(c, n->src[0], back) : NULL;
}
static tn_node *swap_axes(tn_ctx *c, tn_node *n) {
  int64_t perm[TN_MAX_RANK];
  if (n->op != OP_PERMUTE) return NULL;
  memcpy(perm, n->ints, n->rank * sizeof *perm);
  int64_t last = perm[n->rank - 1];
  perm[n->rank - 1] = perm[n->rank - 2], perm[n->rank - 2] = last;
  return tn__permute(c, n->src[0], perm);
}
static tn_node *pad_before(tn_ctx *c, tn_node *n) { return n->op == OP_PAD ? more(c, more(c, n, 1, 1), 2, -1) : NULL; }
static tn_node *pad_behind(tn_ctx *c, tn_node *n) { return n->op == OP_PAD ? more(c, more(c, n, 1, -1), 2, 1) : NULL; }
static tn_node *pad_turned(tn_ctx *c, tn_node *n) {
  return n->op == OP_PAD && n->src[1] != n->src[2] ? with(c, with(c, n, 1, n->src[2]), 2, n->src[1]) : NULL;
}
static tn_node *begin_on(tn_ctx *c, tn_node *n) { return n->op == OP_SHRINK ? more(c, n, 1, 1) : NULL; }
static tn_node *begin_back(tn_ctx *c, tn_node *n) { return n->op == OP_SHRINK ? more(c, n, 1, -1) : NULL; }
static tn_node *no_flip(tn_ctx *c, tn_node *n) { return (void)c, n->op == OP_FLIP ? n->src[0] : NULL; }
static tn_node *flip_other(tn_ctx *c, tn_node *n) {
  return n->op == OP_FLIP && n->rank > 1 ? tn__flip(c, n->src[0], INTS(n->ints[0] ? 0 : 1), 1) : NULL;
}
static bool is_window(const tn_node *n) { return n->op == OP_WINDOW || n->op == OP_FOLD; }
static tn_node *stride_more(tn_ctx *c, tn_node *n) { return is_window(n) ? with_int(c, n, 2, 1) : NULL; }
static tn_node *stride_less(tn_ctx *c, tn_node *n) {
  return is_window(n) && n->ints[2] > 1 ? with_int(c, n, 2, -1) : NULL;
}
static tn_node *dilation_more(tn_ctx *c, tn_node *n) { return is_window(n) ? with_int(c, n, 3, 1) : NULL; }
static tn_node *dilation_less(tn_ctx *c, tn_node *n) {
  return is_window(n) && n->ints[3] > 1 ? with_int(c, n, 3, -1) : NULL;
}
static tn_node *stride_for_dilation(tn_ctx *c, tn_node *n) {
  return is_window(n) && n->ints[2] != n->ints[3]
             ? with_int(c, with_int(c, n, 2, n->ints[3] - n->ints[2]), 3, n->ints[2] - n->ints[3])
             : NULL;
}
static tn_node *turned_window(tn_ctx *c, tn_node *n) {
  return n->op == OP_FOLD     ? with(c, n, 0, tn__flip(c, n->src[0], INTS(n->ints[0] + 1), 1))
         : n->op == OP_WINDOW ? tn__flip(c, n, INTS(n->ints[0] + 1), 1)
                              : NULL;
}
static bool is_indexed(const tn_node *n) { return n->op == OP_GATHER || n->op == OP_SCATTER; }
static tn_node *shifted(tn_ctx *c, tn_node *n, double by) {
  return with(
      c, n, 1,
      tn__add(c, n->src[1], tn__scalar_to(c, tn__const_num(c, n->src[1]->dtype, by), n->src[1]->dim, n->src[1]->rank)));
}
static tn_node *index_on(tn_ctx *c, tn_node *n) { return is_indexed(n) ? shifted(c, n, 1) : NULL; }
static tn_node *index_back(tn_ctx *c, tn_node *n) { return is_indexed(n) ? shifted(c, n, -1) : NULL; }
static tn_node *base_of_ones(tn_ctx *c, tn_node *n) {
  return n->op == OP_SCATTER ? with(c, n, 0, tn__scalar_to(c, tn__const_num(c, n->dtype, 1), n->dim, n->rank)) : NULL;
}
static tn_node *swap_operands(tn_ctx *c, tn_node *n) {
  return n->op == OP_CONTRACT
             ? tn__contract(c, n->src[1], n->src[0], (int)n->ints[0], (int)n->ints[2], (int)n->ints[1], (int)n->ints[3])
             : NULL;
}

static const struct {
  const char *what;
  tn_node *(*change)(tn_ctx *c, tn_node *n);
} changes[] = {
    {"a sum becomes a maximum", no_sum},
    {"a sum leaves out the last one", half_a_sum},
    {"only the first place gets it", to_first},
    {"a reshape goes by columns", by_columns},
    {"a permute is lost", no_permute},
    {"a permute goes the other way", other_way},
    {"two axes change places", swap_axes},
    {"padding is 1 more before", pad_before},
    {"padding is 1 more behind", pad_behind},
    {"padding is on the other side", pad_turned},
    {"a slice begins 1 on", begin_on},
    {"a slice begins 1 before", begin_back},
    {"a flip is lost", no_flip},
    {"another axis is flipped", flip_other},
    {"a stride is 1 more", stride_more},
    {"a stride is 1 less", stride_less},
    {"a dilation is 1 more", dilation_more},
    {"a dilation is 1 less", dilation_less},
    {"stride and dilation change places", stride_for_dilation},
    {"a window is turned round", turned_window},
    {"an index is 1 on", index_on},
    {"an index is 1 back", index_back},
    {"sums begin from 1", base_of_ones},
    {"operands change places", swap_operands},
};
/* So of the result. */
static tn_node *negated(tn_ctx *c, tn_node *n) { return tn__neg(c, n); }
static tn_node *doubled(tn_ctx *c, tn_node *n) { return tn__add(c, n, n); }
static tn_node *nothing(tn_ctx *c, tn_node *n) { return tn__zeros_like(c, n); }
static const struct {
  const char *what;
  tn_node *(*change)(tn_ctx *c, tn_node *n);
} ends[] = {{"the other sign", negated}, {"twice as much", doubled}, {"nothing", nothing}};
enum { CHANGES = sizeof changes / sizeof *changes, ENDS = sizeof ends / sizeof *ends };

static const char *what_is(uint32_t change) {
  return change < CHANGES ? changes[change].what : ends[change - CHANGES].what;
}

/* ---- the two matrices ---- */

typedef struct table {
  uint32_t rows, columns;
  double v[MOST][MOST];
  double ramp[MOST]; /* what all of ramp_at() gives at once */
} table;

static double ramp_at(uint32_t i) { return (double)(i * 5 % 7) - 3.5; }

/* What of[] is where leaf `x`, of n elements, is 1 at one element and 0 else; the others hold small integers.
 * transposed: columns are x's. */
static void tabulate(tn_node *of, tn_node *x, uint32_t n, bool transposed, table *t) {
  static const int32_t at[] = {2, 0, 2, 7, 1}; /* one twice, one outside */
  double other[MOST], unit[MOST] = {0};
  tn__mem mem = {0};
  tn__arena a;
  tn__nodes all = {0};
  tn__arena_init(&a, &mem);
  for (int i = 0; i < MOST; i++) other[i] = i * 7 % 11 - 4.5;
  tn__topo(&a, &of, 1, &all);
  naive_bind bind[LEAVES];
  uint32_t nbind = 0;
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM)
      bind[nbind++] = (naive_bind){all.v[i], all.v[i] == x               ? (const void *)unit
                                             : all.v[i]->dtype == TN_I32 ? (const void *)at
                                                                         : (const void *)other};
  naive_tensor zero, y;
  naive_eval(&of, 1, bind, nbind, &zero); /* a base, say, stays as it is */
  for (uint32_t i = 0; i < n; i++) {
    unit[i] = 1;
    naive_eval(&of, 1, bind, nbind, &y);
    unit[i] = 0;
    assert_true(y.n <= MOST);
    for (int64_t j = 0; j < y.n; j++)
      *(transposed ? &t->v[i][j] : &t->v[j][i]) = naive_get(&y, j) - (transposed ? 0 : naive_get(&zero, j));
    t->rows = transposed ? n : (uint32_t)y.n;
    t->columns = transposed ? (uint32_t)y.n : n;
    naive_free(&y);
  }
  for (uint32_t i = 0; i < n; i++) unit[i] = ramp_at(i);
  naive_eval(&of, 1, bind, nbind, &y);
  for (int64_t j = 0; j < y.n; j++) t->ramp[j] = naive_get(&y, j);
  naive_free(&y);
  naive_free(&zero);
  tn__arena_free(&a);
}

static uint32_t elements(const tn_node *n) {
  uint32_t k = 1;
  for (uint32_t i = 0; i < n->rank; i++) k *= (uint32_t)n->dim[i]->ints[0];
  return k;
}

static bool same_table(const table *a, const table *b, uint32_t *row, uint32_t *column) {
  for (*row = 0; *row < a->rows; ++*row)
    for (*column = 0; *column < a->columns; ++*column)
      if (a->v[*row][*column] != b->v[*row][*column]) return false;
  return true;
}

/* Does the adjoint give of many at once what it gives of each? */
static bool adds_up(const table *a, uint32_t *column) {
  for (*column = 0; *column < a->columns; ++*column) {
    double sum = 0;
    for (uint32_t r = 0; r < a->rows; r++) sum += a->v[r][*column] * ramp_at(r);
    if (sum != a->ramp[*column]) return false;
  }
  return true;
}

/* ---- planting ---- */

typedef struct trial {
  /* change: of `changes`, then of `ends`; place: the how-many-th node that it can be made in */
  uint32_t graph, change, place;
  bool as_is;
  /* what came of it; no adjoint: it cannot be made in so many nodes */
  tn_node *op, *x, *g, *adjoint;
} trial;

typedef struct making {
  tn_ctx *c;
  tn_node *(*change)(tn_ctx *c, tn_node *n);
  tn_node *n, *made;
} making;

static void make_change(void *arg) {
  making *m = arg;
  m->made = m->change(m->c, m->n);
}

/* The adjoint with one node changed; NULL: there is none for this place.  Throws where shapes do not fit. */
static tn_node *changed(tn_ctx *c, const trial *t, tn_node *right) {
  tn__nodes all = {0};
  uint32_t seen = 0;
  tn_status status;
  if (t->change >= CHANGES) return t->place ? NULL : ends[t->change - CHANGES].change(c, right);
  tn__topo(&c->scratch, &right, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    making m = {.c = c, .change = changes[t->change].change, .n = all.v[i]};
    if (m.n->op == OP_PARAM || m.n->op == OP_CONST || m.n->dtype == TN__INDEX) continue;
    bool good = tn__mem_try(&c->mem, make_change, &m, &status);
    if ((good && !m.made) || seen++ < t->place) continue;
    if (!good) tn__mem_throw(&c->mem, status);
    return tn__substitute(c, right, &m.n, &m.made, 1);
  }
  return NULL;
}

static void plant(tn_ctx *c, void *arg) {
  trial *t = arg;
  t->op = graphs[t->graph].make(c);
  t->x = t->op->src[graphs[t->graph].k];
  t->g = tn__param(c, TN_F64, 2, 0, t->op->dim, t->op->rank);
  tn_node *right = tn__adjoint(c, t->op, graphs[t->graph].k, t->g);
  t->adjoint = t->as_is ? right : changed(c, t, right);
  if (t->adjoint && (t->adjoint->rank != t->x->rank || !tn__dims_equal(c, t->adjoint->dim, t->x->dim, t->x->rank))) {
    t->adjoint = NULL;
    tn__fail(c, TN_ESHAPE, "the adjoint has another shape");
  }
}

typedef enum result { NONE, REFUSED, WITNESSED, SURVIVED } result;

static result try_change(tn_ctx *c, trial *t) {
  static table want, got;
  uint32_t row, column;
  c->depth++; /* what is made stays */
  bool made = tn__ctx_run(c, "plant", plant, t);
  result r = REFUSED;
  tn_clear_error(c);
  if (made && !t->adjoint) r = NONE;
  else if (made) {
    tabulate(t->op, t->x, elements(t->x), false, &want);
    tabulate(t->adjoint, t->g, elements(t->g), true, &got);
    bool same = same_table(&want, &got, &row, &column), print = getenv("MUTANTS_PRINT") != NULL;
    r = same && adds_up(&got, &column) ? SURVIVED : WITNESSED;
    const char *what = what_is(t->change);
    if (r == WITNESSED && print && !same)
      fprintf(stderr, "%s, %s: element %u takes %g of element %u, which gets %g\n", graphs[t->graph].name, what, row,
              want.v[row][column], column, got.v[row][column]);
    if (r == WITNESSED && print && same)
      fprintf(stderr, "%s, %s: element %u gets %g of many at once, which is not the sum\n", graphs[t->graph].name, what,
              column, got.ramp[column]);
  }
  c->depth--;
  return r;
}

static void wrong_adjoints(void **s) {
  (void)s;
  uint32_t refused = 0, witnessed = 0, survived = 0, of[CHANGES + ENDS] = {0};
  for (uint32_t i = 0; i < GRAPHS; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
    assert_non_null(c);
    if (try_change(c, &(trial){.graph = i, .as_is = true}) != SURVIVED)
      fail_msg("%s: the adjoint as it is is wrong", graphs[i].name);
    for (uint32_t k = 0; k < CHANGES + ENDS; k++)
      for (uint32_t place = 0;; place++) {
        result r = try_change(c, &(trial){.graph = i, .change = k, .place = place});
        if (r == NONE) break;
        refused += r == REFUSED, witnessed += r == WITNESSED, survived += r == SURVIVED;
        of[k]++;
        if (r == SURVIVED) print_error("graph %u, %s: %s: nobody notices\n", i, graphs[i].name, what_is(k));
      }
    tn_ctx_close(c);
  }
  print_message("%u wrong adjoints: %u have a witness, %u are refused for their shape, %u survive\n",
                refused + witnessed + survived, witnessed, refused, survived);
  for (uint32_t k = 0; k < CHANGES + ENDS; k++)
    if (!of[k]) fail_msg("%s: never planted", what_is(k));
  assert_int_equal(survived, 0);
  assert_int_equal(refused + witnessed, 141); /* docs/trust.md states it */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_adjoints)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
