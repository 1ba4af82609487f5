/* That what the engine builds as the gradient of a product of n elements, n a constant, is the tree of Adjoint.v
 * (product_tree): followed from its root, level by level, each element by index arithmetic. */
#include "grad/adjoint.h"
#include "prove/adjoint_read.h"
#include "prove/adjoint_whole.h"
#include "rewrite/rewrite.h"
#include <string.h>

enum { ALL_UP_TO = 130, LEVELS = 30, RANKS = 8, MOST_KEPT = RANKS - 1 };

typedef struct walk {
  tn_ctx *c;
  tn_node *x, *g;    /* x: [kept..., n]; g: [kept...] */
  uint32_t kept;
  int64_t n;
  const char *wrong; /* what is not as in the tree */
} walk;

/* A place along the axis, or in it; a size of 1 has one only. */
static tn_node *place(walk *w, int64_t size, uint32_t number) {
  return size == 1 ? tn__int(w->c, 0) : tn__range(w->c, tn__int(w->c, size), AX_LOOP, ROLE_OUTPUT, w->kept + number);
}

/* Where element (kept..., at...) of n is read: want[0..nwant) behind the kept ones, of a node that is no movement;
 * NULL: elsewhere. */
static tn_node *leads(walk *w, tn_node *n, tn_node *const *at, uint32_t nat, tn_node *const *want, uint32_t nwant) {
  tn_node *to[TN_MAX_RANK + 1], *gate = NULL;
  if (n->rank != w->kept + nat) return NULL;
  for (uint32_t i = 0; i < w->kept; i++) to[i] = tn__range(w->c, w->x->dim[i], AX_LOOP, ROLE_OUTPUT, i);
  memcpy(to + w->kept, at, nat * sizeof *at);
  n = tn__adjoint_follow(w->c, n, to, &gate);
  if (gate || n->rank != w->kept + nwant) return NULL;
  for (uint32_t i = 0; i < w->kept; i++)
    if (to[i] != tn__range(w->c, w->x->dim[i], AX_LOOP, ROLE_OUTPUT, i)) return NULL;
  for (uint32_t i = 0; i < nwant; i++)
    if (tn__simplify_index(w->c, to[w->kept + i]) != tn__simplify_index(w->c, want[i])) return NULL;
  return n;
}

/* Element k is in pair k / 2, as k mod 2. */
static tn_node *leads_to_pair(walk *w, tn_node *n, tn_node *const *at, uint32_t nat, tn_node *k) {
  tn_node *two = tn__int(w->c, 2);
  return leads(w, n, at, nat, (tn_node *[]){tn__op2(w->c, OP_IDIV, k, two), tn__op2(w->c, OP_MOD, k, two)}, 2);
}

/* x, and ones behind it. */
static bool is_filled(walk *w, tn_node *n, int64_t full) {
  tn_ctx *c = w->c;
  if (full == w->n) return n == w->x;
  tn_node *k = place(w, full, 0), *to[TN_MAX_RANK + 1] = {0}, *gate = NULL, *end = tn__int(c, w->n);
  if (n->op != OP_WHERE || n->src[0]->op != OP_LT) return false;
  /* where part 0 is below part 1 part 2, else part 3 */
  tn_node *part[] = {n->src[0]->src[0], n->src[0]->src[1], n->src[1], n->src[2]};
  for (int i = 0; i < 4; i++) {
    for (uint32_t j = 0; j < w->kept; j++) to[j] = tn__range(c, w->x->dim[j], AX_LOOP, ROLE_OUTPUT, j);
    to[w->kept] = k;
    part[i] = tn__adjoint_follow(c, part[i], to, &gate);
    if (i == 0 && (part[0]->op != OP_IOTA || to[0] != k)) return false;
    if (i == 2 && to[w->kept] != k) return false;
    for (uint32_t j = 0; i == 2 && j < w->kept; j++)
      if (to[j] != tn__range(c, w->x->dim[j], AX_LOOP, ROLE_OUTPUT, j)) return false;
  }
  return part[1] == tn__const_num(c, TN_I64, (double)w->n) && part[2] == w->x &&
         part[3] == tn__const_num(c, TN_F64, 1) && gate == tn__simplify_index(c, tn__op2(c, OP_LT, k, end));
}

static bool is_tree(walk *w, tn_node *root) {
  tn_ctx *c = w->c;
  uint32_t levels = 0;
  while (INT64_C(1) << levels < w->n) levels++;
  int64_t full = INT64_C(1) << levels;
  /* product: those of the level below */
  tn_node *k = place(w, w->n, 0), *two = tn__int(c, 2), *one = tn__int(c, 1), *product = NULL;
  w->wrong = "the root";
  tn_node *down = levels ? leads_to_pair(w, root, &k, 1, k) : leads(w, root, &k, 1, NULL, 0);
  for (uint32_t l = 0; l < levels; l++) {
    tn_node *at[] = {place(w, full >> (l + 1), 0), place(w, 2, 1)}, *in_both = tn__mul(c, at[0], two), *above = NULL,
            *up = NULL;
    tn_node *partner = tn__add(c, in_both, tn__sub(c, one, at[1]));
    w->wrong = "the way down";
    if (!down || down->op != OP_MUL) return false;
    for (int i = 0; i < 2 && !above; i++) { /* what the pair got; its partner */
      up = leads(w, down->src[1 - i], at, 2, &partner, 1);
      above = !up              ? NULL
              : l + 1 < levels ? leads_to_pair(w, down->src[i], at, 2, at[0])
                               : leads(w, down->src[i], at, 2, NULL, 0);
    }
    if (!above) return false;
    w->wrong = l ? "the way up" : "what fills up";
    if (l == 0 && !is_filled(w, up, full)) return false;
    if (l && (up->op != OP_PROD || up->nint != 1 || up->ints[0] != w->kept + 1)) return false;
    if (l) { /* products of the pairs of the level below: one level's places are twice the next one's */
      tn_node *m[] = {place(w, full >> l, 0), place(w, 2, 1)}, *itself = tn__add(c, tn__mul(c, m[0], two), m[1]);
      if (leads(w, up->src[0], m, 2, &itself, 1) != product) return false;
    }
    product = up;
    down = above;
  }
  w->wrong = "the top";
  return down == w->g;
}

static uint32_t check_size(tn_ctx *c, const char *op, uint32_t kept, int64_t n) {
  static const char *const names[MOST_KEPT] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6"};
  tn_node *dim[MOST_KEPT + 1];
  for (uint32_t i = 0; i < kept; i++) dim[i] = tn__var(c, names[i], 1, INT64_C(1) << 40);
  dim[kept] = tn__int(c, n);
  walk w = {.c = c,
            .kept = kept,
            .n = n,
            .x = tn__param(c, TN_F64, 0, -1, dim, kept + 1),
            .g = tn__param(c, TN_F64, 1, -1, dim, kept)};
  tn_node *e = tn__adjoint(c, tn__reduce(c, OP_PROD, w.x, (int64_t[]){kept}, 1), 0, w.g);
  if (!is_tree(&w, e))
    tn__fail(c, TN_EGRAD, "the adjoint of %s over %lld elements, %u axes kept, is not the tree of Adjoint.v: %s", op,
             (long long)n, kept, w.wrong);
  return 1;
}

/* Several axes are one: those that are kept first, the others last and together. */
static uint32_t check_set(tn_ctx *c, const char *op, uint32_t rank, uint32_t set) {
  tn_node *dim[RANKS], *flat[RANKS + 1];
  int64_t perm[RANKS], back[RANKS], axes[RANKS], size = 1;
  uint32_t kept = 0, n = 0;
  for (uint32_t i = 0; i < rank; i++) {
    dim[i] = tn__int(c, i + 2);
    if (set >> i & 1) axes[n++] = i, size *= i + 2;
    else flat[kept] = dim[i], perm[kept++] = i;
  }
  memcpy(perm + kept, axes, n * sizeof *axes);
  for (uint32_t i = 0; i < rank; i++) back[perm[i]] = i;
  tn_node *x = tn__param(c, TN_F64, 0, -1, dim, rank), *g = tn__param(c, TN_F64, 1, -1, flat, kept),
          *moved = tn__permute(c, x, perm);
  flat[kept] = tn__int(c, size);
  tn_node *line = tn__reduce(c, OP_PROD, tn__reshape(c, moved, flat, kept + 1), (int64_t[]){kept}, 1);
  tn_node *want = tn__permute(c, tn__reshape(c, tn__adjoint(c, line, 0, g), moved->dim, rank), back);
  if (tn__adjoint(c, tn__reduce(c, OP_PROD, x, axes, n), 0, g) != want)
    tn__fail(c, TN_EGRAD, "the adjoint of %s, rank %u, axes %#x, is not that over one axis", op, rank, set);
  return 1;
}

uint32_t tn__tree_check(tn_ctx *c, const char *op) {
  uint32_t tried = 0;
  for (uint32_t kept = 0; kept <= MOST_KEPT; kept++) {
    for (int64_t n = 1; n <= ALL_UP_TO; n++) tried += check_size(c, op, kept, n);
    for (uint32_t l = 8; l <= LEVELS; l++)
      for (int64_t by = -1; by <= 1; by++) tried += check_size(c, op, kept, (INT64_C(1) << l) + by);
  }
  for (uint32_t rank = 1; rank <= RANKS; rank++)
    for (uint32_t set = 1; set < 1u << rank; set++) tried += check_set(c, op, rank, set);
  return tried;
}
