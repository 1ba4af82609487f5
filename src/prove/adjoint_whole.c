#include "prove/adjoint_whole.h"
#include "base/sb.h"
#include <stdio.h>
#include <string.h>

#include "grad/adjoint.h"
#include "prove/adjoint_read.h"

enum { RANKS = 8, ATOMS = 5 };

static const int64_t HUGE_SIZE = INT64_C(1) << 40;

/* Sizes n0, n1, ... */
static void sizes(tn_ctx *c, tn_node **n) {
  for (int i = 0; i < TN_MAX_RANK; i++) {
    char name[16];
    snprintf(name, sizeof name, "n%d", i);
    n[i] = tn__var(c, name, 1, HUGE_SIZE);
  }
}

static tn_node *f64(tn_ctx *c, int64_t slot, tn_node *const *dim, uint32_t rank) {
  return tn__param(c, TN_F64, slot, -1, dim, rank);
}

/* `of` says which one: n numbers. */
static void demand(tn_ctx *c, const char *op, bool as_proved, const char *what, const int64_t *of, uint32_t n) {
  tn__sb b;
  if (as_proved) return;
  tn__sb_init(&b, &c->scratch);
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(&b, " %lld", (long long)of[i]);
  tn__fail(c, TN_EGRAD, "the adjoint of %s, %s%s, is not the one that Adjoint.v is about", op, what,
           n ? tn__sb_str(&b) : "");
}

/* ---- permute: forth by a permutation, back by its inverse -------------------------------------------------------- */

static bool reads_by(const tn__reading *r, tn_node *const *dim, const int64_t *perm, bool forth) {
  bool good = !r->gate && !r->sums;
  for (uint32_t k = 0; k < r->rank; k++) {
    good &= r->dim[k] == dim[forth ? perm[k] : k];
    good &= forth ? r->place[perm[k]] == r->range[k] : r->place[k] == r->range[perm[k]];
  }
  return good;
}

/* The next in lexicographic order; false after the last. */
static bool next_permutation(int64_t *p, uint32_t n) {
  uint32_t i = n - 1, j = n - 1;
  while (i > 0 && p[i - 1] >= p[i]) i--;
  if (!i) return false;
  while (p[j] <= p[i - 1]) j--;
  int64_t t = p[i - 1];
  p[i - 1] = p[j], p[j] = t;
  for (j = n - 1; i < j; i++, j--) t = p[i], p[i] = p[j], p[j] = t;
  return true;
}

static uint32_t check_permute(tn_ctx *c, const char *op) {
  tn_node *n[TN_MAX_RANK];
  uint32_t tried = 0;
  sizes(c, n);
  for (uint32_t rank = 1; rank <= RANKS; rank++) {
    tn_node *x = f64(c, 0, n, rank);
    int64_t perm[RANKS];
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    do {
      tn__readings r = tn__adjoint_readings(c, tn__permute(c, x, perm), x);
      demand(c, op, reads_by(&r.one, n, perm, true) && reads_by(&r.many, n, perm, false), "axes", perm, rank);
      tried++;
    } while (next_permutation(perm, rank));
  }
  return tried;
}

/* ---- reshape ----------------------------------------------------------------------------------------------------- */

/* Sizes multiplied together where bit i of `cuts` does not part i from i + 1; a size of 1 in front if there is a bit
 * more. */
static uint32_t grouped(tn_ctx *c, tn_node *const *n, uint32_t atoms, uint32_t cuts, tn_node **dim) {
  uint32_t rank = 0;
  if (cuts >> (atoms - 1) & 1) dim[rank++] = tn__int(c, 1);
  dim[rank++] = n[0];
  for (uint32_t i = 1; i < atoms; i++)
    if (cuts >> (i - 1) & 1) dim[rank++] = n[i];
    else dim[rank - 1] = tn__mul(c, dim[rank - 1], n[i]);
  return rank;
}

static uint32_t check_reshape(tn_ctx *c, const char *op) {
  tn_node *n[TN_MAX_RANK], *from[TN_MAX_RANK], *to[TN_MAX_RANK];
  uint32_t tried = 0;
  sizes(c, n);
  for (uint32_t atoms = 1; atoms <= ATOMS; atoms++)
    for (uint32_t p = 0; p < 1u << atoms; p++)
      for (uint32_t q = 0; q < 1u << atoms; q++) {
        if (p == q) continue;
        uint32_t a = grouped(c, n, atoms, p, from), b = grouped(c, n, atoms, q, to);
        tn_node *x = f64(c, 0, from, a), *g = f64(c, 1, to, b), *e = tn__adjoint(c, tn__reshape(c, x, to, b), 0, g);
        demand(c, op, e->op == OP_RESHAPE && e->src[0] == g && e->rank == a && tn__dims_equal(c, e->dim, from, a),
               "groups", (int64_t[]){atoms, p, q}, 3);
        tried++;
      }
  return tried;
}

/* ---- gather and scatter: every rank of the source and of the index ----------------------------------------------- */

static uint32_t indexed(tn_ctx *c, const char *op, bool (*holds)(tn_ctx *c, tn_node *x, tn_node *at, tn_node *read)) {
  tn_node *n[TN_MAX_RANK], *m[TN_MAX_RANK];
  uint32_t tried = 0;
  sizes(c, n);
  for (uint32_t i = 0; i < TN_MAX_RANK; i++) m[i] = n[TN_MAX_RANK - 1 - i];
  for (uint32_t a = 1; a <= TN_MAX_RANK; a++)
    for (uint32_t b = 0; a - 1 + b <= TN_MAX_RANK && b <= TN_MAX_RANK; b++) {
      tn_node *x = f64(c, 0, n, a), *at = tn__param(c, TN_I64, 2, -1, m, b), *read = tn__gather(c, x, at);
      demand(c, op, holds(c, x, at, read), "ranks", (int64_t[]){a, b}, 2);
      tried++;
    }
  return tried;
}

static bool gathered_back(tn_ctx *c, tn_node *x, tn_node *at, tn_node *read) {
  tn_node *dy = f64(c, 3, read->dim, read->rank), *e = tn__adjoint(c, read, 0, dy);
  return e->op == OP_SCATTER && e->src[0] == tn__zeros_like(c, x) && e->src[1] == at && e->src[2] == dy;
}
static bool scattered_back(tn_ctx *c, tn_node *x, tn_node *at, tn_node *read) {
  tn_node *s = tn__scatter(c, x, at, f64(c, 3, read->dim, read->rank)), *ds = f64(c, 4, s->dim, s->rank),
          *e = tn__adjoint(c, s, 2, ds);
  return tn__adjoint(c, s, 0, ds) == ds && e->op == OP_GATHER && e->src[0] == ds && e->src[1] == at;
}
static uint32_t check_gather(tn_ctx *c, const char *op) { return indexed(c, op, gathered_back); }
static uint32_t check_scatter(tn_ctx *c, const char *op) { return indexed(c, op, scattered_back); }

/* ---- contraction: every number of axes in each group ------------------------------------------------------------- */

typedef struct group {
  tn_node *const *dim;
  int n;
} group;

/* A value whose axes are three groups. */
static tn_node *of_groups(tn_ctx *c, int64_t slot, group p, group q, group r) {
  tn_node *dim[TN_MAX_RANK];
  memcpy(dim, p.dim, (size_t)p.n * sizeof *dim);
  memcpy(dim + p.n, q.dim, (size_t)q.n * sizeof *dim);
  memcpy(dim + p.n + q.n, r.dim, (size_t)r.n * sizeof *dim);
  return f64(c, slot, dim, (uint32_t)(p.n + q.n + r.n));
}

/* The last two groups the other way round: [p, q, r] -> [p, r, q]. */
static tn_node *turned(tn_ctx *c, tn_node *x, int p, int q, int r) {
  int64_t perm[TN_MAX_RANK];
  for (int i = 0; i < p + q + r; i++) perm[i] = i < p ? i : i < p + r ? i + q : i - r;
  return tn__permute(c, x, perm);
}

static bool contracted_back(tn_ctx *c, group b, group m, group n, group k) {
  tn_node *left = of_groups(c, 5, b, m, k), *right = of_groups(c, 6, b, n, k), *g = of_groups(c, 7, b, m, n);
  tn_node *y = tn__contract(c, left, right, b.n, m.n, n.n, k.n);
  tn_node *to_left = tn__contract(c, g, turned(c, right, b.n, n.n, k.n), b.n, m.n, k.n, n.n);
  tn_node *to_right = tn__contract(c, turned(c, g, b.n, m.n, n.n), turned(c, left, b.n, m.n, k.n), b.n, n.n, k.n, m.n);
  return tn__adjoint(c, y, 0, g) == to_left && tn__adjoint(c, y, 1, g) == to_right;
}

static uint32_t check_contract(tn_ctx *c, const char *op) {
  tn_node *dim[4][TN_MAX_RANK];
  uint32_t tried = 0;
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < RANKS; j++) {
      char name[16];
      snprintf(name, sizeof name, "%c%d", "bmnk"[i], j);
      dim[i][j] = tn__var(c, name, 1, HUGE_SIZE);
    }
  for (int b = 0; b <= RANKS; b++)
    for (int m = 0; b + m <= RANKS; m++)
      for (int n = 0; b + m + n <= RANKS; n++)
        for (int k = 0; b + m + k <= RANKS && b + n + k <= RANKS; k++) {
          bool holds =
              contracted_back(c, (group){dim[0], b}, (group){dim[1], m}, (group){dim[2], n}, (group){dim[3], k});
          demand(c, op, holds, "groups b m n k of", (int64_t[]){b, m, n, k}, 4);
          tried++;
        }
  return tried;
}

/* ---- extrema and products: every set of axes --------------------------------------------------------------------- */

typedef struct reduction {
  tn_node *x, *g;
  uint32_t naxes;
  int64_t axes[RANKS], perm[RANKS], back[RANKS]; /* perm: kept axes, then the others */
  uint32_t kept;
} reduction;

static reduction reduction_of(tn_ctx *c, tn_node *const *n, uint32_t rank, uint32_t set) {
  tn_node *dim[RANKS];
  reduction r = {.x = f64(c, 0, n, rank)};
  for (uint32_t i = 0; i < rank; i++)
    if (!(set >> i & 1)) dim[r.kept] = n[i], r.perm[r.kept++] = i;
    else r.axes[r.naxes++] = i;
  memcpy(r.perm + r.kept, r.axes, r.naxes * sizeof *r.axes);
  for (uint32_t i = 0; i < rank; i++) r.back[r.perm[i]] = i;
  r.g = f64(c, 1, dim, r.kept);
  return r;
}

/* v, of a reduction's shape, over the shape of what it reduced. */
static tn_node *spread(tn_ctx *c, const reduction *r, tn_node *v) {
  tn_node *dim[RANKS];
  memcpy(dim, r->x->dim, r->x->rank * sizeof *dim);
  for (uint32_t i = 0; i < r->naxes; i++) dim[r->axes[i]] = tn__int(c, 1);
  return tn__expand(c, tn__reshape(c, v, dim, r->x->rank), r->x->dim);
}

/* g is shared out by the mask over the sum of the mask (shares_convex). */
static bool shared(tn_ctx *c, const reduction *r, tn__op extremum) {
  tn_node *top = tn__reduce(c, extremum, r->x, r->axes, r->naxes), *mask = tn__op2(c, OP_EQ, r->x, spread(c, r, top));
  tn_node *share = tn__op2(c, OP_DIV, r->g, tn__reduce(c, OP_SUM, tn__cast(c, mask, TN_F64), r->axes, r->naxes));
  return tn__adjoint(c, top, 0, r->g) == tn__where(c, mask, spread(c, r, share), tn__zeros_like(c, r->x));
}
static bool maximum_shared(tn_ctx *c, const reduction *r) { return shared(c, r, OP_RMAX); }
static bool minimum_shared(tn_ctx *c, const reduction *r) { return shared(c, r, OP_RMIN); }

/* 0, 1, ... along an axis of `dim`. */
static tn_node *along(tn_ctx *c, tn_node *const *dim, uint32_t rank, uint32_t axis) {
  tn_node *flat[RANKS + 1];
  for (uint32_t i = 0; i < rank; i++) flat[i] = i == axis ? dim[i] : tn__int(c, 1);
  return tn__expand(c, tn__reshape(c, tn__iota(c, dim[axis]), flat, rank), dim);
}

/* With what is reduced as one axis, last: an element gets g times the product in which it is replaced by 1
 * (slope_product). */
static bool others(tn_ctx *c, const reduction *r) {
  tn_node *moved = tn__permute(c, r->x, r->perm), *n = tn__int(c, 1), *dim[RANKS + 1], *row[RANKS + 1], *one = n;
  uint32_t kept = r->kept;
  for (uint32_t i = 0; i < r->naxes; i++) n = tn__mul(c, n, r->x->dim[r->axes[i]]);
  memcpy(dim, moved->dim, kept * sizeof *dim);
  memcpy(row, moved->dim, kept * sizeof *row);
  dim[kept] = dim[kept + 1] = row[kept + 1] = n, row[kept] = one;
  tn_node *flat = tn__reshape(c, moved, dim, kept + 1),
          *square = tn__expand(c, tn__reshape(c, flat, row, kept + 2), dim);
  tn_node *self = tn__op2(c, OP_EQ, along(c, dim, kept + 2, kept), along(c, dim, kept + 2, kept + 1));
  tn_node *table = tn__where(c, self, tn__scalar_to(c, tn__const_num(c, TN_F64, 1), dim, kept + 2), square);
  tn_node *product = tn__reduce(c, OP_PROD, table, (int64_t[]){kept + 1}, 1),
          *g = tn__expand(c, tn__reshape(c, r->g, row, kept + 1), dim);
  tn_node *want = tn__permute(c, tn__reshape(c, tn__mul(c, g, product), moved->dim, moved->rank), r->back);
  return tn__adjoint(c, tn__reduce(c, OP_PROD, r->x, r->axes, r->naxes), 0, r->g) == want;
}

static uint32_t reduced(tn_ctx *c, const char *op, bool (*holds)(tn_ctx *c, const reduction *r)) {
  tn_node *n[TN_MAX_RANK];
  uint32_t tried = 0;
  sizes(c, n);
  for (uint32_t rank = 1; rank <= RANKS; rank++)
    for (uint32_t set = 1; set < 1u << rank; set++) {
      reduction r = reduction_of(c, n, rank, set);
      demand(c, op, holds(c, &r), "axes", r.axes, r.naxes);
      tried++;
    }
  return tried;
}
static uint32_t check_maximum(tn_ctx *c, const char *op) { return reduced(c, op, maximum_shared); }
static uint32_t check_minimum(tn_ctx *c, const char *op) { return reduced(c, op, minimum_shared); }
static uint32_t check_product(tn_ctx *c, const char *op) { return reduced(c, op, others); }

const tn__whole_op tn__whole_ops[] = {
    {"permute", "as built", "permutations, ranks 1 to 8", check_permute},
    {"reshape", "as built", "pairs of groupings of 1 to 5 sizes", check_reshape},
    {"gather", "as built", "ranks of source and index", check_gather},
    {"scatter", "as built", "ranks of source and index", check_scatter},
    {"contract", "as built", "numbers of axes in each group, up to rank 8", check_contract},
    {"rmax", "as built", "sets of axes, ranks 1 to 8", check_maximum},
    {"rmin", "as built", "sets of axes, ranks 1 to 8", check_minimum},
    {"prod", "as built", "sets of axes, ranks 1 to 8", check_product},
    {"prod", "as built in pairs", "constant sizes and sets of axes of constant size", tn__tree_check},
};
const uint32_t tn__whole_nops = sizeof tn__whole_ops / sizeof *tn__whole_ops;
