/* Do whole-tensor ops give the elements that proofs/coq/Elements.v says they give, of which the rows TENSOR of
 * ir/intervals.def are proved?  Drawn tensors of every op that has such a row are computed by the oracle and by the
 * device; as `test_prove_elements FILE` this writes each as a Coq goal that the op of Elements.v gives the same sizes
 * and elements, and that wrong rows have no proof (tools/prove-coq compiles it). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"
#include "prove/prove.h"
#include "support/device.h"
#include "support/graph.h"

enum { DRAWN = 12, LONGEST = 3, MOST_AXES = 4, WHY = 600 };
static const int dtypes[] = {TN_BOOL, TN_I8, TN_U8, TN_I32, TN_I64, TN_U64};

typedef struct drawn {
  tn_ctx *c;
  int op;
  graph g;
  graph_dice dice;
  tn__sb *term;      /* the result in Coq */
  tn_node *result;   /* NULL: this draw made no such op */
  int64_t shown[TN_MAX_RANK]; /* its sizes in Coq: reduced axes stay, of size 1 */
  uint32_t rank;
} drawn;

static uint32_t roll(drawn *d, uint32_t n) { return graph_roll(&d->dice, n); }
static void say(drawn *d, const char *s) { tn__sb_puts(d->term, s); }
static int64_t dim(const tn_node *n, uint32_t i) { return n->dim[i]->ints[0]; }

static void list(tn__sb *b, const int64_t *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) tn__sb_printf(b, "%s%lld", i ? "; " : "[", (long long)v[i]);
  tn__sb_puts(b, n ? "]" : "[]");
}

static void sizes(drawn *d, const tn_node *n) {
  int64_t v[TN_MAX_RANK];
  for (uint32_t i = 0; i < n->rank; i++) v[i] = dim(n, i);
  list(d->term, v, n->rank);
}

/* A source with these sizes, as a list of elements in Coq. */
static tn_node *source(drawn *d, int dtype, tn_node *const *dims, uint32_t rank) {
  tn_node *x = graph_leaf(d->c, &d->g, &d->dice, dtype, dims, rank, roll(d, 2));
  int64_t n = 1, *v;
  for (uint32_t i = 0; i < rank; i++) n *= dim(x, i);
  v = tn__alloc(d->c, ((size_t)n + 1) * sizeof *v);
  for (int64_t i = 0; i < n; i++)
    v[i] = (int64_t)tn__eval_load(dtype, (char *)d->g.data[x->ints[0]] + (size_t)i * tn__size_of(dtype));
  say(d, "(from_list "), sizes(d, x), say(d, " "), list(d->term, v, n), say(d, ")");
  return x;
}

static int any_dtype(drawn *d) { return dtypes[roll(d, sizeof dtypes / sizeof *dtypes)]; }

static uint32_t any_sizes(drawn *d, tn_node **dims, uint32_t least) {
  uint32_t rank = least + roll(d, MOST_AXES + 1 - least);
  for (uint32_t i = 0; i < rank; i++) dims[i] = tn__int(d->c, roll(d, 8) ? 1 + roll(d, LONGEST) : 0);
  return rank;
}

static tn_node *any_source(drawn *d, uint32_t least) {
  tn_node *dims[TN_MAX_RANK];
  uint32_t rank = any_sizes(d, dims, least);
  return source(d, any_dtype(d), dims, rank);
}

static void result(drawn *d, tn_node *y) {
  if (y->op != d->op && d->op != OP_RANGE) return;
  d->result = y;
  d->rank = y->rank;
  for (uint32_t i = 0; i < y->rank; i++) d->shown[i] = dim(y, i);
}

/* ---- one op each: the source, the arguments, both sides ---- */

static void draw_where(drawn *d) {
  tn_node *dims[TN_MAX_RANK];
  uint32_t rank = any_sizes(d, dims, 0);
  int dtype = any_dtype(d);
  say(d, "where_ ");
  tn_node *p = source(d, TN_BOOL, dims, rank), *x = source(d, dtype, dims, rank), *y = source(d, dtype, dims, rank);
  result(d, tn__where(d->c, p, x, y));
}

static void draw_count(drawn *d) {
  int64_t n = roll(d, 6);
  tn__sb_printf(d->term, "%s %lld", d->op == OP_RANGE ? "range" : "iota", (long long)n);
  result(d, tn__iota(d->c, tn__int(d->c, n)));
}

/* Which of the axes, as a list for the node and a function for Coq. */
static uint32_t some_axes(drawn *d, const tn_node *x, int64_t *axes) {
  uint32_t n = 0;
  say(d, " (Axes (fun k => match k with ");
  for (uint32_t i = 0; i < x->rank; i++)
    if (roll(d, 2)) axes[n++] = i, tn__sb_printf(d->term, "%u%%nat => true | ", i);
  say(d, "_ => false end))");
  return n;
}

static void draw_extreme(drawn *d) {
  static const char *const best[2][2] = {{"Z.min", "Z.max"}, {"below_sign Z.min", "below_sign Z.max"}};
  tn__sb *all = d->term, x, axes;
  bool max = d->op == OP_RMAX;
  int64_t ints[TN_MAX_RANK];
  tn__sb_init(&x, &d->c->scratch), tn__sb_init(&axes, &d->c->scratch);
  d->term = &x;
  tn_node *y, *s = any_source(d, 1);
  d->term = &axes;
  uint32_t n = some_axes(d, s, ints), k = 0;
  d->term = all;
  for (uint32_t i = 0; i < n; i++)
    if (!dim(s, (uint32_t)ints[i])) return; /* of nothing: refused */
  tn__sb_printf(d->term, "chosen (%s) (%lld) %u %s %s", best[s->dtype == TN_U64][max],
                (long long)tn__eval_reduce_init(max ? OP_MAX : OP_MIN, s->dtype), s->rank, tn__sb_str(&x),
                tn__sb_str(&axes));
  y = tn__reduce(d->c, (tn__op)d->op, s, ints, n);
  result(d, y);
  d->rank = s->rank;
  for (uint32_t i = 0; i < s->rank; i++) d->shown[i] = k < n && ints[k] == i ? k++, 1 : dim(s, i);
}

/* The same elements on other axes: of sizes in another order, one of them split off. */
static void draw_reshape(drawn *d) {
  tn_node *dims[TN_MAX_RANK];
  tn__sb *all = d->term, x;
  tn__sb_init(&x, &d->c->scratch);
  d->term = &x;
  tn_node *s = any_source(d, 0);
  d->term = all;
  uint32_t rank = s->rank, cut = rank ? roll(d, rank) : 0;
  for (uint32_t i = 0; i < rank; i++) dims[i] = s->dim[(i + cut) % rank];
  if (rank > 1 && roll(d, 2)) rank--, dims[rank - 1] = tn__int(d->c, dims[rank - 1]->ints[0] * dims[rank]->ints[0]);
  else dims[rank++] = tn__int(d->c, 1);
  tn_node *y = tn__reshape(d->c, s, dims, rank);
  tn__sb_printf(d->term, "reshaped %u %s %u (sizes ", s->rank, tn__sb_str(&x), rank);
  sizes(d, y), say(d, ")");
  result(d, y);
}

static void draw_expand(drawn *d) {
  tn_node *dims[TN_MAX_RANK];
  say(d, "expand ");
  tn_node *s = any_source(d, 1);
  for (uint32_t i = 0; i < s->rank; i++) dims[i] = dim(s, i) == 1 ? tn__int(d->c, roll(d, LONGEST + 1)) : s->dim[i];
  tn_node *y = tn__expand(d->c, s, dims);
  say(d, " (sizes "), sizes(d, y), say(d, ")");
  result(d, y);
}

static void draw_permute(drawn *d) {
  int64_t to[TN_MAX_RANK], from[TN_MAX_RANK];
  say(d, "permute ");
  tn_node *s = any_source(d, 2);
  for (uint32_t i = 0; i < s->rank; i++) to[i] = i;
  for (uint32_t i = s->rank; i-- > 1;) {
    uint32_t j = roll(d, i + 1);
    int64_t t = to[i];
    to[i] = to[j], to[j] = t;
  }
  for (uint32_t i = 0; i < s->rank; i++) from[to[i]] = i;
  say(d, " (Perm (moved "), list(d->term, to, s->rank), say(d, ") (moved "), list(d->term, from, s->rank);
  say(d, ") F T)"); /* that each undoes the other: they do */
  result(d, tn__permute(d->c, s, to));
}

static void draw_shrink(drawn *d) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  int64_t b[TN_MAX_RANK], n[TN_MAX_RANK], step[TN_MAX_RANK];
  say(d, "shrink ");
  tn_node *s = any_source(d, 1);
  for (uint32_t i = 0; i < s->rank; i++) {
    int64_t of = dim(s, i);
    b[i] = roll(d, (uint32_t)of + 1), step[i] = 1 + roll(d, 2);
    n[i] = roll(d, (uint32_t)((of - b[i] + step[i] - 1) / step[i]) + 1);
    begin[i] = tn__int(d->c, b[i]), size[i] = tn__int(d->c, n[i]);
  }
  say(d, " (Part (numbers "), list(d->term, b, s->rank), say(d, ") (sizes "), list(d->term, n, s->rank);
  say(d, ") (sizes "), list(d->term, step, s->rank), say(d, "))");
  result(d, tn__shrink(d->c, s, begin, size, step));
}

static void draw_flip(drawn *d) {
  int64_t axes[TN_MAX_RANK];
  say(d, "flip ");
  tn_node *s = any_source(d, 1);
  result(d, tn__flip(d->c, s, axes, some_axes(d, s, axes)));
}

static void draw_window(drawn *d) {
  say(d, "window ");
  tn_node *s = any_source(d, 1);
  uint32_t axis = roll(d, s->rank);
  int64_t size = 1 + roll(d, 3), stride = 1 + roll(d, 2), dilation = 1 + roll(d, 2);
  tn__sb_printf(d->term, " %u %lld %lld %lld", axis, (long long)size, (long long)stride, (long long)dilation);
  result(d, tn__window(d->c, s, axis, size, stride, dilation));
}

static void draw_same(drawn *d) {
  say(d, d->op == OP_DETACH ? "detach " : "contig ");
  result(d, tn__op1(d->c, (tn__op)d->op, any_source(d, 0)));
}

/* Integers that are none serve as well: only a schedule relies on them. */
static void draw_known(drawn *d, tn__op op) {
  tn_node *dims[TN_MAX_RANK];
  uint32_t rank = any_sizes(d, dims, 0);
  say(d, "contig ");
  result(d, tn__op1(d->c, op, source(d, roll(d, 2) ? TN_I32 : TN_I64, dims, rank)));
}

static void draw_permutation(drawn *d) { draw_known(d, OP_PERMUTATION); }
static void draw_distinct(drawn *d) { draw_known(d, OP_DISTINCT); }
static void draw_spans(drawn *d) { draw_known(d, OP_SPANS); }

static void draw_assign(drawn *d) {
  tn_node *dims[TN_MAX_RANK];
  uint32_t rank = any_sizes(d, dims, 0);
  int dtype = any_dtype(d);
  say(d, "assign ");
  tn_node *x = source(d, dtype, dims, rank), *y = source(d, dtype, dims, rank);
  result(d, tn__op2(d->c, OP_ASSIGN, x, y));
}

static void draw_pad(drawn *d) {
  tn_node *lohi[2 * TN_MAX_RANK];
  int64_t lo[TN_MAX_RANK], hi[TN_MAX_RANK];
  tn__sb *all = d->term, x;
  tn__sb_init(&x, &d->c->scratch);
  d->term = &x;
  tn_node *s = any_source(d, 1);
  d->term = all;
  for (uint32_t i = 0; i < s->rank; i++) {
    lo[i] = roll(d, 3), hi[i] = roll(d, 3);
    lohi[2 * i] = tn__int(d->c, lo[i]), lohi[2 * i + 1] = tn__int(d->c, hi[i]);
  }
  tn__sb_printf(d->term, "pad 0 %u %s (Pads (numbers ", s->rank, tn__sb_str(&x));
  list(d->term, lo, s->rank), say(d, ") (numbers "), list(d->term, hi, s->rank), say(d, "))");
  result(d, tn__pad(d->c, s, lohi));
}

static void draw_gather(drawn *d) {
  tn_node *dims[TN_MAX_RANK];
  say(d, "gather ");
  tn_node *x = any_source(d, 1);
  uint32_t rank = roll(d, 3);
  for (uint32_t i = 0; i < rank; i++) dims[i] = tn__int(d->c, roll(d, LONGEST + 1));
  tn__sb_printf(d->term, " %u ", rank);
  result(d, tn__gather(d->c, x, source(d, roll(d, 2) ? TN_I32 : TN_I64, dims, rank)));
}

static void (*const draw[OP_COUNT])(drawn *d) = {
    [OP_WHERE] = draw_where,   [OP_IOTA] = draw_count,      [OP_RANGE] = draw_count,   [OP_RMAX] = draw_extreme,
    [OP_RMIN] = draw_extreme,  [OP_RESHAPE] = draw_reshape, [OP_EXPAND] = draw_expand, [OP_PERMUTE] = draw_permute,
    [OP_SHRINK] = draw_shrink, [OP_FLIP] = draw_flip,       [OP_WINDOW] = draw_window, [OP_DETACH] = draw_same,
    [OP_CONTIG] = draw_same,   [OP_ASSIGN] = draw_assign,   [OP_PAD] = draw_pad,       [OP_GATHER] = draw_gather,
    [OP_PERMUTATION] = draw_permutation,
    [OP_DISTINCT] = draw_distinct, [OP_SPANS] = draw_spans,
};

/* ---- a draw: the graph, run; the goal ---- */

static void make(tn_ctx *c, void *arg) {
  drawn *d = arg;
  d->c = c;
  draw[d->op](d);
  if (d->result) d->g.sink = tn__node_keep(tn__sink(c, &d->result, 1, NULL));
}

static void goal(drawn *d, FILE *f) {
  naive_tensor t;
  tn__arena a;
  tn__sb b;
  tn__arena_init(&a, &d->c->mem);
  tn__sb_init(&b, &a);
  graph_values(d->c, &d->g, d->g.sink->src, 1, &t);
  tn__sb_printf(&b, "Goal %sshown %u (%s) =\n  (", d->op == OP_PERMUTE ? "forall F T, " : "", d->rank,
                tn__sb_str(d->term));
  list(&b, d->shown, d->rank);
  tn__sb_puts(&b, ", ");
  list(&b, (int64_t *)t.bits, t.n);
  tn__sb_puts(&b, ").\nProof. intros. vm_compute. reflexivity. Qed.\n");
  if (f) fputs(tn__sb_str(&b), f);
  naive_free(&t);
  tn__arena_free(&a);
}

static bool try(tn_ctx *c, int op, uint64_t seed, FILE *f) {
  char why[WHY] = "";
  tn__arena a;
  tn__sb term;
  tn__arena_init(&a, &c->mem);
  tn__sb_init(&term, &a);
  drawn d = {.op = op, .dice.state = seed, .term = &term};
  if (!tn__ctx_run(c, "draw", make, &d)) fail_msg("%s: %s", tn__ops[op].text, tn_last_error(c)->text);
  bool good = d.result;
  if (good && !graph_agrees(c, &d.g, why, sizeof why)) fail_msg("%s: %s", tn__ops[op].text, why);
  if (good) goal(&d, f);
  graph_free(c, &d.g);
  tn__arena_free(&a);
  return good;
}

static uint32_t try_all(FILE *f) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  uint32_t all = 0;
  if (!c) fail_msg("no context");
  for (size_t i = 0; i < tn__element_row_count; i++) {
    int op = tn__element_rows[i].op;
    uint32_t n = 0;
    if (!draw[op]) fail_msg("%s has a row TENSOR and is not drawn here", tn__ops[op].text);
    for (uint64_t seed = 1; n < DRAWN && seed < 20 * DRAWN; seed++) n += try(c, op, seed << 8 | (uint64_t)i, f);
    if (n < DRAWN) fail_msg("%s was drawn %u times only", tn__ops[op].text, n);
    all += n;
  }
  tn_ctx_close(c);
  return all;
}

/* ---- wrong rows ---- */

/* One token for another: in what an element is, and in its bounds; each makes a row that is false. */
static const struct {
  const char *from, *to;
  bool of_element, of_bounds;
} mistakes[] = {
    {"x", "0", true, false},     {"x", "y", true, false},     {"x", "minus(x, 1)", true, false},
    {"y", "x", true, false},     {"y", "0", true, false},     {"y", "minus(y, 1)", true, false},
    {"z", "y", true, false},     {"z", "0", true, false},     {"0", "1", true, false},
    {"least", "most", true, true}, {"most", "least", true, true},
    {"a.lo", "plus(a.lo, 1)", false, true}, {"a.hi", "minus(a.hi, 1)", false, true},
    {"b.lo", "plus(b.lo, 1)", false, true}, {"b.hi", "minus(b.hi, 1)", false, true},
    {"c.lo", "plus(c.lo, 1)", false, true}, {"c.hi", "minus(c.hi, 1)", false, true},
    {"all.lo", "plus(all.lo, 1)", false, true}, {"all.hi", "minus(all.hi, 1)", false, true},
};

/* The next place of a token, no part of a longer one. */
static const char *token(const char *s, const char *word) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz.0123456789";
  for (const char *at = s; (at = strstr(at, word)); at++)
    if ((at == s || !strchr(letters, at[-1])) && (!at[strlen(word)] || !strchr(letters, at[strlen(word)]))) return at;
  return NULL;
}

static void attempt(FILE *f, tn__arena *a, const tn__element_row *r, bool wrong) {
  fprintf(f, "Goal %s.\nProof. intros. %ssolve [%s]. Abort.\n", tn__element_statement(a, r), wrong ? "Fail " : "",
          tn__element_tactic(r));
}

/* Every place of every token of one text of the row; how many. */
static uint32_t change(FILE *f, tn__arena *a, const tn__element_row *r, int part) {
  const char *text = part == 0 ? r->element : part == 1 ? r->lower : r->upper;
  uint32_t n = 0;
  for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++) {
    if (!(part ? mistakes[k].of_bounds : mistakes[k].of_element)) continue;
    for (const char *at = text; (at = token(at, mistakes[k].from)); at++, n++) {
      tn__element_row m = *r;
      tn__sb b;
      tn__sb_init(&b, a);
      tn__sb_printf(&b, "%.*s%s%s", (int)(at - text), text, mistakes[k].to, at + strlen(mistakes[k].from));
      *(part == 0 ? &m.element : part == 1 ? &m.lower : &m.upper) = tn__sb_str(&b);
      attempt(f, a, &m, true);
    }
  }
  return n;
}

static int write_file(const char *path) {
  FILE *f = fopen(path, "w");
  tn__mem mem = {0};
  tn__arena a;
  uint32_t wrong = 0;
  if (!f) return 1;
  fputs("From Tenet Require Import Elements.\nImport ListNotations.\n"
        "Definition unsigned (v : Z) := v mod 2 ^ 64.\n"
        "Definition below_sign (best : Z -> Z -> Z) (x y : Z) :=\n"
        "  if best (unsigned x) (unsigned y) =? unsigned x then x else y.\n"
        "Definition moved (l : list Z) (k : nat) := Z.to_nat (nth k l (Z.of_nat k)).\n",
        f);
  tn__arena_init(&a, &mem);
  for (size_t i = 0; i < tn__element_row_count; i++) {
    attempt(f, &a, &tn__element_rows[i], false);
    for (int part = 0; part < 3; part++) wrong += change(f, &a, &tn__element_rows[i], part);
  }
  tn__arena_free(&a);
  uint32_t n = try_all(f);
  printf("%u drawn tensors, %u wrong rows\n", n, wrong);
  return fclose(f);
}

static void tensors_are_what_is_computed(void **state) {
  (void)state;
  try_all(NULL);
}

int main(int argc, char **argv) {
  if (argc == 2) return write_file(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(tensors_are_what_is_computed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
