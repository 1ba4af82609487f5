/* The reverse pass in C beside the one that is proved in proofs/coq/Reverse.v: random programs over small integers,
 * differentiated by tn__vjp and evaluated by the oracle; as `test_prove_reverse FILE` it writes each as a Coq goal that
 * the proved pass, run on integers, gives the same numbers (tools/prove-coq compiles it).  Linear ops are written
 * as the matrices that the oracle finds, scalar ops with the rows of gradient.rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/sb.h"
#include "grad/grad_pass.h"
#include "rewrite/table.h"
#include "support/ctx.h"
#include "support/naive.h"

enum { PROGRAMS = 200, LEAVES = 3, STEPS = 8, NODES = LEAVES + STEPS, ELEMENTS = 12, PRODUCTS = 3 };

typedef struct program {
  tn_ctx *c;
  tn__sb out; /* the instructions */
  tn_node *node[NODES];
  bool used[NODES][LEAVES]; /* does the node depend on the leaf? */
  uint32_t n, products;
  double data[LEAVES][ELEMENTS], dy[ELEMENTS];
  naive_bind bind[LEAVES + 1];
} program;

static uint64_t state;
static uint32_t below(uint32_t n) {
  state = tn__hash_mix(state, 7);
  return (uint32_t)(state % n);
}

static uint32_t elements(const tn_node *x) {
  int64_t n = 1, d;
  for (uint32_t i = 0; i < x->rank; i++) n *= tn__const_int(x->dim[i], &d) ? d : 1;
  return (uint32_t)n;
}

static tn_node *leaf(tn_ctx *c, int64_t slot, tn_node *const *dim, uint32_t rank) {
  return tn__param(c, TN_F64, slot, -1, dim, rank);
}

/* ---- instructions ---- */

/* A template over integers. */
static void print_row(tn__sb *b, const tn__term *t) {
  if (t->form == TF_VAR) {
    if (t->slot == GRAD_G) tn__sb_putc(b, 'g');
    else tn__sb_printf(b, "(x %u%%nat)", t->slot);
    return;
  }
  assert_int_equal(t->form, TF_OP);
  tn__sb_puts(b, t->what == OP_NEG ? "(Z.opp" : t->what == OP_ADD ? "(Z.add" : t->what == OP_MUL ? "(Z.mul" : "(?");
  for (uint32_t i = 0; i < t->nkid; i++) {
    tn__sb_putc(b, ' ');
    print_row(b, t->kid[i]);
  }
  tn__sb_putc(b, ')');
}

static void print_scalar(program *p, int op) {
  static const char *const spelling[OP_COUNT] = {[OP_NEG] = "Z.opp (x 0%nat)",
                                                 [OP_ADD] = "Z.add (x 0%nat) (x 1%nat)",
                                                 [OP_MUL] = "Z.mul (x 0%nat) (x 1%nat)",
                                                 [OP_FMA] = "Z.add (Z.mul (x 0%nat) (x 1%nat)) (x 2%nat)"};
  tn__sb_printf(&p->out, "elementwise (fun x => %s) (fun k x g => match k with ", spelling[op]);
  const tn__ruleset *s = tn__rules_get(p->c, "gradient");
  for (uint32_t i = s->first[op]; i < s->first[op + 1]; i++) {
    const tn__rule *r = &s->rule[s->by_op[i]];
    tn__sb_printf(&p->out, "| %u%%nat => ", r->src);
    print_row(&p->out, r->rhs);
    tn__sb_putc(&p->out, ' ');
  }
  tn__sb_puts(&p->out, "| _ => 0 end)");
}

/* The op as a matrix, its columns being what it makes of unit tensors. */
static void print_linear(program *p, tn_node *y, tn_node *x) {
  uint32_t n = elements(y), m = elements(x);
  double unit[ELEMENTS], column[ELEMENTS][ELEMENTS];
  tn_node *e = leaf(p->c, 50, x->dim, x->rank), *z = tn__substitute(p->c, y, &x, &e, 1);
  for (uint32_t j = 0; j < m; j++) {
    naive_tensor t;
    memset(unit, 0, sizeof unit);
    unit[j] = 1;
    naive_eval(&z, 1, &(naive_bind){e, unit}, 1, &t);
    for (uint32_t i = 0; i < n; i++) column[j][i] = naive_get(&t, i);
    naive_free(&t);
  }
  tn__sb_printf(&p->out, "linear_op 0 Z.add Z.mul %u %u (matrix [", n, m);
  for (uint32_t i = 0; i < n; i++) {
    tn__sb_puts(&p->out, i ? "; [" : "[");
    for (uint32_t j = 0; j < m; j++) tn__sb_printf(&p->out, "%s%.0f", j ? "; " : "", column[j][i]);
    tn__sb_putc(&p->out, ']');
  }
  tn__sb_puts(&p->out, "])");
}

static void append(program *p, tn_node *y, const uint32_t *arg, uint32_t nargs) {
  tn__sb_puts(&p->out, " [");
  for (uint32_t i = 0; i < nargs; i++) {
    tn__sb_printf(&p->out, "%s%u%%nat", i ? "; " : "", arg[i]);
    for (uint32_t l = 0; l < LEAVES; l++) p->used[p->n][l] |= p->used[arg[i]][l];
  }
  tn__sb_puts(&p->out, "]");
  p->node[p->n++] = y;
}

static void begin_instruction(program *p) { tn__sb_printf(&p->out, "%sIns (", p->n > LEAVES ? ";\n    " : ""); }

/* An earlier node of the shape of `like` (itself at worst). */
static uint32_t alike(program *p, uint32_t like) {
  for (int i = 0; i < 8; i++) {
    uint32_t k = below(p->n);
    if (p->node[k]->rank == p->node[like]->rank &&
        tn__dims_equal(p->c, p->node[k]->dim, p->node[like]->dim, p->node[k]->rank))
      return k;
  }
  return like;
}

static void scalar_step(program *p) {
  static const tn__op ops[] = {OP_NEG, OP_ADD, OP_MUL, OP_FMA};
  tn__op op = ops[below(4)];
  if ((op == OP_MUL || op == OP_FMA) && p->products++ >= PRODUCTS) op = OP_ADD;
  uint32_t n = tn__ops[op].max_src, arg[3];
  arg[0] = below(p->n);
  for (uint32_t i = 1; i < n; i++) arg[i] = alike(p, arg[0]);
  tn_node *src[3];
  for (uint32_t i = 0; i < n; i++) src[i] = p->node[arg[i]];
  begin_instruction(p);
  print_scalar(p, (int)op);
  tn__sb_puts(&p->out, ")");
  append(p, tn__node_make(p->c, &(tn__make){.op = op, .src = src, .nsrc = n}), arg, n);
}

/* [m, k] x [n, k] -> [m, n] */
static bool contract_step(program *p) {
  uint32_t a = below(p->n), b = below(p->n);
  const tn_node *x = p->node[a], *w = p->node[b];
  int64_t m, n, k, l;
  if (x->rank != 2 || w->rank != 2 || !tn__const_int(x->dim[0], &m) || !tn__const_int(x->dim[1], &k) ||
      !tn__const_int(w->dim[0], &n) || !tn__const_int(w->dim[1], &l) || k != l || m * n > ELEMENTS ||
      p->products++ >= PRODUCTS)
    return false;
  begin_instruction(p);
  tn__sb_printf(
      &p->out, "contract_op 0 Z.add Z.mul %d %d (fun i k => i / %d * %d + k)%%nat (fun i k => i mod %d * %d + k)%%nat)",
      (int)(m * n), (int)k, (int)n, (int)k, (int)n, (int)k);
  append(p, tn__contract(p->c, p->node[a], p->node[b], 0, 1, 1, 1), (uint32_t[]){a, b}, 2);
  return true;
}

static tn_node *moved(program *p, tn_node *x, uint32_t axis, int64_t size) {
  tn_ctx *c = p->c;
  tn_node *dim[3], *zero = tn__int(c, 0), *lohi[6], *begin[3];
  int64_t step[3] = {1, 1, 1};
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = x->dim[i], begin[i] = zero, lohi[2 * i] = lohi[2 * i + 1] = zero;
  switch (below(9)) {
  case 0: return tn__reduce(c, OP_SUM, x, (int64_t[]){axis}, 1);
  case 1: return x->rank == 2 ? tn__permute(c, x, (int64_t[]){1, 0}) : x;
  case 2: lohi[2 * axis] = tn__int(c, below(2)), lohi[2 * axis + 1] = tn__int(c, 1); return tn__pad(c, x, lohi);
  case 3:
    if (size < 2) return x;
    begin[axis] = tn__int(c, 1), dim[axis] = tn__int(c, size / 2), step[axis] = 1 + (int64_t)below(2);
    return tn__shrink(c, x, begin, dim, step);
  case 4: return tn__flip(c, x, (int64_t[]){axis}, 1);
  case 5: return tn__reshape(c, x, (tn_node *[]){tn__int(c, elements(x))}, 1);
  case 6: return tn__reshape(c, x, (tn_node *[]){tn__int(c, elements(x)), tn__int(c, 1)}, 2);
  case 7: return size < 2 || x->rank > 1 ? x : tn__window(c, x, axis, 2, 1 + below(2), 1);
  default: dim[axis] = tn__int(c, 2 + below(2)); return size == 1 ? tn__expand(c, x, dim) : x;
  }
}

static bool linear_step(program *p) {
  uint32_t a = below(p->n);
  tn_node *x = p->node[a];
  int64_t size;
  if (!x->rank) return false;
  uint32_t axis = below(x->rank);
  if (!tn__const_int(x->dim[axis], &size)) return false;
  tn_node *y = moved(p, x, axis, size);
  if (y == x || elements(y) > ELEMENTS || !elements(y) || y->rank > 2) return false;
  begin_instruction(p);
  print_linear(p, y, x);
  tn__sb_puts(&p->out, ")");
  append(p, y, &a, 1);
  return true;
}

/* ---- a program ---- */

static void make(program *p) {
  for (uint32_t l = 0; l < LEAVES; l++) {
    tn_node *dim[2] = {tn__int(p->c, 2 + below(2)), tn__int(p->c, 2)};
    tn_node *x = leaf(p->c, l, dim, 1 + below(2));
    for (uint32_t i = 0; i < ELEMENTS; i++) p->data[l][i] = (double)below(7) - 3;
    p->bind[l] = (naive_bind){x, p->data[l]};
    p->node[p->n] = x;
    p->used[p->n++][l] = true;
  }
  while (p->n < NODES) {
    uint32_t what = below(10);
    if (what < 4) scalar_step(p);
    else if (what < 6) (void)contract_step(p);
    else (void)linear_step(p);
  }
}

static void numbers(tn__sb *b, const double *v, uint32_t n) {
  tn__sb_putc(b, '[');
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(b, "%s%.0f", i ? "; " : "", v[i]);
  tn__sb_putc(b, ']');
}

/* The goal that the proved pass gives what tn__vjp gives. */
static void goal(program *p, tn__sb *b) {
  tn_node *y = p->node[NODES - 1], *dy = leaf(p->c, 60, y->dim, y->rank), *x[LEAVES], *g[LEAVES];
  uint32_t n = 0, which[LEAVES];
  for (uint32_t i = 0; i < ELEMENTS; i++) p->dy[i] = (double)below(5) - 2;
  p->bind[LEAVES] = (naive_bind){dy, p->dy};
  for (uint32_t l = 0; l < LEAVES; l++)
    if (p->used[NODES - 1][l]) x[n] = p->node[l], which[n++] = l;
  tn__vjp(p->c, y, dy, x, n, g);
  naive_tensor t[LEAVES];
  naive_eval(g, n, p->bind, LEAVES + 1, t);
  tn__sb_printf(b, "Goal gradients [");
  for (uint32_t i = 0; i < NODES; i++) tn__sb_printf(b, "%s%u%%nat", i ? "; " : "", elements(p->node[i]));
  tn__sb_printf(b, "]\n  [%s]\n  [", tn__sb_str(&p->out));
  for (uint32_t l = 0; l < LEAVES; l++) tn__sb_puts(b, l ? "; " : ""), numbers(b, p->data[l], elements(p->node[l]));
  tn__sb_puts(b, "] ");
  numbers(b, p->dy, elements(y));
  tn__sb_puts(b, " [");
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(b, "%s%u%%nat", i ? "; " : "", which[i]);
  tn__sb_puts(b, "] =\n  [");
  for (uint32_t i = 0; i < n; i++) {
    double v[ELEMENTS];
    for (int64_t e = 0; e < t[i].n; e++) v[e] = naive_get(&t[i], e);
    tn__sb_puts(b, i ? "; " : "");
    numbers(b, v, (uint32_t)t[i].n);
    naive_free(&t[i]);
  }
  tn__sb_puts(b, "].\nProof. vm_compute. reflexivity. Qed.\n");
}

typedef struct batch {
  tn_ctx *c;
  FILE *file;
  uint32_t made;
} batch;

static void write_all(void *arg) {
  batch *w = arg;
  state = 2024;
  for (; w->made < PROGRAMS; w->made++) {
    program p = {.c = w->c};
    tn__sb b;
    tn__sb_init(&p.out, &w->c->scratch);
    tn__sb_init(&b, &w->c->scratch);
    make(&p);
    goal(&p, &b);
    if (w->file) fputs(tn__sb_str(&b), w->file);
  }
}

static int write_file(FILE *f, uint32_t *made) {
  tn_ctx c;
  tn_status status;
  if (!test_ctx_open(&c)) return 1;
  if (f)
    fputs(
        "From Coq Require Import ZArith List.\nFrom Tenet Require Import Reverse.\nImport ListNotations.\nOpen Scope "
        "Z_scope.\n"
        "Definition matrix (a : list (list Z)) i j := nth j (nth i a []) 0.\n"
        "Definition gradients (sizes : list nat) (p : list (ins (T := Z))) (x : list (list Z)) (dy : list Z) (wanted : "
        "list nat) :=\n"
        "  let size i := nth i sizes 0%nat in let out := (length x + length p - 1)%nat in\n"
        "  let g := back 0 Z.add size p (length x) (matrix x) (fun i e => if Nat.eqb i out then nth e dy 0 else 0) in\n"
        "  map (fun i => map (g i) (seq 0 (size i))) wanted.\n",
        f);
  batch w = {&c, f, 0};
  bool ok = tn__mem_try(&c.mem, write_all, &w, &status);
  if (!ok) print_error("%s\n", tn_last_error(&c)->text);
  *made = w.made;
  tn__rules_close(&c);
  return test_ctx_close(&c) || !ok;
}

static void programs(void **unused) {
  (void)unused;
  uint32_t made;
  assert_int_equal(write_file(NULL, &made), 0);
  assert_int_equal(made, PROGRAMS);
}

int main(int argc, char **argv) {
  if (argc == 2) {
    uint32_t made;
    FILE *f = fopen(argv[1], "w");
    return !f || write_file(f, &made) || fclose(f);
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
