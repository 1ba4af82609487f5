#include "support/naive.h"
#include "ir/eval.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct naive_machine {
  tn__mem mem;
  tn__arena arena;
  tn__nodes order;
  tn__map index;     /* node -> place in order */
  naive_tensor *val; /* by place; bits are NULL before the node's turn and after its last use */
  uint32_t *uses;
  const naive_bind *bind;
  uint32_t nbind;
  tn__env env;       /* the VARs */
  naive_watch *watch;
} machine;

_Noreturn static void give_up(const tn_node *n, const char *why) {
  fprintf(stderr, "naive_eval: %s: %s\n", tn__ops[n->op].text, why);
  abort();
}

static uint64_t place(const machine *m, const tn_node *n) {
  uint64_t at = 0;
  tn__map_get(&m->index, (uint64_t)(uintptr_t)n, &at);
  return at;
}

static const naive_tensor *source(const machine *m, const tn_node *n, uint32_t k) {
  return &m->val[place(m, n->src[k])];
}

static int64_t size_of(machine *m, tn_node *n) { return tn__eval_index(n, &m->env, &m->arena); }

static const void *bound(const machine *m, const tn_node *leaf) {
  for (uint32_t i = 0; i < m->nbind; i++)
    if (m->bind[i].leaf == leaf) return m->bind[i].data;
  give_up(leaf, "this leaf is not bound");
}

static void make(machine *m, const tn_node *n, naive_tensor *t) {
  t->dtype = n->dtype;
  t->rank = n->rank;
  t->n = 1;
  for (uint32_t i = 0; i < n->rank; i++) {
    t->dim[i] = size_of(m, n->dim[i]);
    if (t->dim[i] < 0) give_up(n, "a size is negative");
    t->n *= t->dim[i];
  }
  t->bits = malloc((size_t)(t->n ? t->n : 1) * sizeof *t->bits);
  if (!t->bits) give_up(n, "out of memory");
}

static void copy(const naive_tensor *x, naive_tensor *t) {
  if (t->n) memcpy(t->bits, x->bits, (size_t)t->n * sizeof *t->bits);
}

static uint64_t add(int dtype, uint64_t a, uint64_t b) { return tn__eval(OP_ADD, dtype, dtype, (uint64_t[]){a, b}); }

static int64_t as_int(int dtype, uint64_t bits) { return (int64_t)tn__eval_cast(dtype, TN_I64, bits); }

/* Row-major strides. */
static void strides(const naive_tensor *t, int64_t *s) {
  int64_t step = 1;
  for (uint32_t i = t->rank; i-- > 0;) {
    s[i] = step;
    step *= t->dim[i];
  }
}

/* ---- leaves and scalar functions --------------------------------------------------------------------------------- */

static void leaf(machine *m, const tn_node *n, naive_tensor *t) {
  if (n->op == OP_CONST) {
    t->bits[0] = (uint64_t)n->ints[0];
  } else if (n->op == OP_VAR) {
    t->bits[0] = (uint64_t)size_of(m, (tn_node *)(uintptr_t)n);
  } else if (n->op == OP_IOTA) {
    for (int64_t i = 0; i < t->n; i++) t->bits[i] = (uint64_t)i;
  } else {
    const char *data = bound(m, n);
    size_t size = tn__size_of(n->dtype);
    for (int64_t i = 0; i < t->n; i++) t->bits[i] = tn__eval_load(n->dtype, data + (size_t)i * size);
  }
}

static void scalar(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *x[3] = {0};
  uint64_t arg[3] = {0};
  for (uint32_t k = 0; k < n->nsrc; k++) {
    x[k] = source(m, n, k);
    if (x[k]->n != t->n) give_up(n, "sources of different shapes");
  }
  int sdtype = x[n->op == OP_WHERE]->dtype;
  for (int64_t i = 0; i < t->n; i++) {
    for (uint32_t k = 0; k < n->nsrc; k++) arg[k] = x[k]->bits[i];
    t->bits[i] = tn__eval(n->op, n->dtype, sdtype, arg);
  }
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* Walks x in row-major order; `step[a]` moves the place in t, 0 along reduced axes. */
static void reduce(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *x = source(m, n, 0);
  int64_t out[TN_MAX_RANK], step[TN_MAX_RANK] = {0}, at[TN_MAX_RANK] = {0}, to = 0;
  uint32_t kept = 0, r = 0;
  int op = tn__ops[n->op].combine, dtype = n->dtype;
  if (!n->nint) { /* over no axes: x itself, -0 included */
    copy(x, t);
    return;
  }
  strides(t, out);
  for (uint32_t a = 0; a < x->rank; a++) {
    if (r < n->nint && n->ints[r] == (int64_t)a) r++;
    else step[a] = out[kept++];
  }
  for (int64_t i = 0; i < t->n; i++) t->bits[i] = tn__eval_reduce_init(op, dtype);
  for (int64_t i = 0; i < x->n; i++) {
    t->bits[to] = tn__eval(op, dtype, dtype, (uint64_t[]){t->bits[to], x->bits[i]});
    for (uint32_t a = x->rank; a-- > 0;) {
      to += step[a];
      if (++at[a] < x->dim[a]) break;
      to -= step[a] * x->dim[a];
      at[a] = 0;
    }
  }
}

/* ---- movement: t[i] = x[base + sum of i[a]*step[a]], 0 where some i[a] is outside first[a] .. last[a]-1 ---------- */

typedef struct view {
  int64_t base, step[TN_MAX_RANK], first[TN_MAX_RANK], last[TN_MAX_RANK];
} view;

static void make_view(machine *m, const tn_node *n, const naive_tensor *x, const naive_tensor *t, view *v) {
  int64_t s[TN_MAX_RANK];
  strides(x, s);
  memset(v, 0, sizeof *v);
  for (uint32_t a = 0; a < t->rank; a++) v->last[a] = t->dim[a];
  for (uint32_t a = 0; a < t->rank; a++) {
    switch ((tn__op)n->op) {
    case OP_EXPAND: v->step[a] = x->dim[a] == t->dim[a] ? s[a] : 0; break;
    case OP_PERMUTE: v->step[a] = s[n->ints[a]]; break;
    case OP_FLIP: v->step[a] = s[a]; break;
    case OP_PAD:
      v->step[a] = s[a];
      v->first[a] = size_of(m, n->src[1 + 2 * a]);
      v->last[a] = v->first[a] + x->dim[a];
      v->base -= v->first[a] * s[a];
      break;
    case OP_SHRINK:
      v->step[a] = s[a] * n->ints[a];
      v->base += size_of(m, n->src[1 + a]) * s[a];
      break;
    case OP_WINDOW: { /* ints {axis, size, stride, dilation} */
      uint32_t axis = (uint32_t)n->ints[0];
      v->step[a] = a == axis ? s[a] * n->ints[2] : a == axis + 1 ? s[axis] * n->ints[3] : s[a > axis ? a - 1 : a];
      break;
    }
    default: give_up(n, "no view");
    }
  }
  for (uint32_t i = 0; n->op == OP_FLIP && i < n->nint; i++) {
    int64_t a = n->ints[i];
    v->base += v->step[a] * (x->dim[a] - 1);
    v->step[a] = -v->step[a];
  }
}

static void move(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *x = source(m, n, 0);
  view v;
  int64_t at[TN_MAX_RANK] = {0};
  make_view(m, n, x, t, &v);
  int64_t from = v.base;
  uint32_t outside = 0; /* axes along which the place is outside */
  for (uint32_t a = 0; a < t->rank; a++) outside += v.first[a] > 0 || v.last[a] <= 0;
  for (int64_t i = 0; i < t->n; i++) {
    t->bits[i] = outside ? 0 : x->bits[from];
    for (uint32_t a = t->rank; a-- > 0;) {
      bool was = at[a] >= v.first[a] && at[a] < v.last[a], is;
      from += v.step[a];
      if (++at[a] == t->dim[a]) {
        from -= v.step[a] * t->dim[a];
        at[a] = 0;
      }
      is = at[a] >= v.first[a] && at[a] < v.last[a];
      outside += was;
      outside -= is;
      if (at[a]) break;
    }
  }
}

/* The adjoint of window: the window's view of the result, written through instead of read. */
static void fold(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *g = source(m, n, 0);
  int64_t s[TN_MAX_RANK], at[TN_MAX_RANK] = {0}, to = 0, step[TN_MAX_RANK];
  uint32_t axis = (uint32_t)n->ints[0];
  strides(t, s);
  for (uint32_t a = 0; a < g->rank; a++)
    step[a] = a == axis ? s[a] * n->ints[2] : a == axis + 1 ? s[axis] * n->ints[3] : s[a > axis ? a - 1 : a];
  memset(t->bits, 0, (size_t)t->n * sizeof *t->bits);
  for (int64_t i = 0; i < g->n; i++) {
    t->bits[to] = add(n->dtype, t->bits[to], g->bits[i]);
    for (uint32_t a = g->rank; a-- > 0;) {
      to += step[a];
      if (++at[a] < g->dim[a]) break;
      to -= step[a] * g->dim[a];
      at[a] = 0;
    }
  }
}

/* Is what it hands on its second source? */
static bool tells_second(const tn_node *n) { return n->op == OP_ASSIGN || n->op == OP_EITHER; }

static void same(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *x = source(m, n, tells_second(n));
  if (x->n != t->n) give_up(n, "source and result differ in size");
  copy(x, t);
}

/* Two ways to the same bits */
static void either(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *quick = source(m, n, 0), *x = source(m, n, 1);
  bool is_plane = false; /* what else they may be is carried over for one of them alone */
  same(m, n, t);
  for (int p = 0; p < NAIVE_PLANES; p++) is_plane |= x->plane[p] && x->bits == x->plane[p];
  if (!is_plane && (quick->n != x->n || memcmp(quick->bits, x->bits, (size_t)x->n * sizeof *x->bits)))
    give_up(n, "its two ways differ");
}

/* ---- whole tensors ----------------------------------------------------------------------------------------------- */

static int64_t row_size(const naive_tensor *x) {
  int64_t row = 1;
  for (uint32_t a = 1; a < x->rank; a++) row *= x->dim[a];
  return row;
}

static void gather(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *x = source(m, n, 0), *idx = source(m, n, 1);
  int64_t row = row_size(x);
  for (int64_t i = 0; i < idx->n; i++) {
    int64_t j = as_int(idx->dtype, idx->bits[i]);
    bool inside = j >= 0 && j < x->dim[0];
    for (int64_t r = 0; r < row; r++) t->bits[i * row + r] = inside ? x->bits[j * row + r] : 0;
  }
}

static void scatter(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *idx = source(m, n, 1), *upd = source(m, n, 2);
  int64_t row = row_size(t);
  copy(source(m, n, 0), t);
  for (int64_t i = 0; i < idx->n; i++) {
    int64_t j = as_int(idx->dtype, idx->bits[i]);
    if (j < 0 || j >= t->dim[0]) continue;
    for (int64_t r = 0; r < row; r++) {
      uint64_t *sum = &t->bits[j * row + r], x = upd->bits[i * row + r];
      bool adds = tn__combines_by(n) == OP_ADD && upd->dtype == n->dtype;
      *sum = adds ? add(n->dtype, *sum, x) : tn__eval_combined(tn__combines_by(n), n->dtype, upd->dtype, *sum, x);
    }
  }
}

static void contract(machine *m, const tn_node *n, naive_tensor *t) {
  const naive_tensor *a = source(m, n, 0), *b = source(m, n, 1);
  int acc = tn__dtype_acc(n->dtype);
  int64_t nb = 1, nm = 1, nn = 1, nk = 1;
  uint32_t batch = (uint32_t)n->ints[0], rows = (uint32_t)n->ints[1];
  for (uint32_t i = 0; i < a->rank; i++) *(i < batch ? &nb : i < batch + rows ? &nm : &nk) *= a->dim[i];
  for (uint32_t i = 0; i < (uint32_t)n->ints[2]; i++) nn *= b->dim[batch + i];
  for (int64_t i = 0; i < nb * nm * nn; i++) {
    int64_t col = i % nn, row = i / nn % nm, bat = i / nn / nm;
    const uint64_t *x = a->bits + (bat * nm + row) * nk, *y = b->bits + (bat * nn + col) * nk;
    uint64_t sum = tn__eval_reduce_init(OP_ADD, acc);
    for (int64_t k = 0; k < nk; k++) {
      uint64_t arg[2] = {x[k], y[k]};
      if (acc != n->dtype)
        for (int j = 0; j < 2; j++) arg[j] = tn__eval_cast(n->dtype, acc, arg[j]);
      sum = add(acc, sum, tn__eval(OP_MUL, acc, acc, arg));
    }
    t->bits[i] = acc == n->dtype ? sum : tn__eval_cast(acc, n->dtype, sum);
  }
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */

typedef void (*evaluate_fn)(machine *, const tn_node *, naive_tensor *);
static const evaluate_fn evaluate[OP_COUNT] = {
    [OP_CONST] = leaf,  [OP_STORAGE] = leaf, [OP_PARAM] = leaf,    [OP_VAR] = leaf,         [OP_IOTA] = leaf,
    [OP_SUM] = reduce,  [OP_PROD] = reduce,  [OP_RMAX] = reduce,   [OP_RMIN] = reduce,      [OP_RESHAPE] = same,
    [OP_EXPAND] = move, [OP_PERMUTE] = move, [OP_PAD] = move,      [OP_SHRINK] = move,      [OP_FLIP] = move,
    [OP_WINDOW] = move, [OP_FOLD] = fold,    [OP_GATHER] = gather, [OP_SCATTER] = scatter,  [OP_CONTRACT] = contract,
    [OP_DETACH] = same, [OP_CONTIG] = same,  [OP_ASSIGN] = same,   [OP_PERMUTATION] = same,
    [OP_DISTINCT] = same, [OP_SPANS] = same,  [OP_EITHER] = either,
};

static const bool carries[OP_COUNT] = {
    [OP_RESHAPE] = true, [OP_EXPAND] = true, [OP_PERMUTE] = true, [OP_PAD] = true,    [OP_SHRINK] = true,
    [OP_FLIP] = true,    [OP_WINDOW] = true, [OP_GATHER] = true,  [OP_DETACH] = true, [OP_CONTIG] = true,
    [OP_ASSIGN] = true,  [OP_PERMUTATION] = true, [OP_DISTINCT] = true, [OP_SPANS] = true,
    [OP_EITHER] = true,
};

void naive_planes(naive_tensor *t) {
  for (int p = 0; p < NAIVE_PLANES; p++)
    if (!(t->plane[p] = calloc((size_t)(t->n ? t->n : 1), sizeof *t->plane[p]))) abort();
}

/* What movement does to values it does to what else they may be. */
static void carry(machine *m, const tn_node *n, naive_tensor *t) {
  naive_tensor *x = &m->val[place(m, n->src[tells_second(n)])];
  uint64_t *from = x->bits, *to = t->bits;
  if (!x->plane[0]) return;
  naive_planes(t);
  for (int p = 0; p < NAIVE_PLANES; p++) {
    x->bits = x->plane[p];
    t->bits = t->plane[p];
    evaluate[n->op](m, n, t);
  }
  x->bits = from;
  t->bits = to;
}

void naive_with(machine *m, const tn_node *n, uint64_t *const *x, const naive_tensor *t, uint64_t *out) {
  naive_tensor was[3], to = *t;
  to.dtype = n->dtype;
  to.bits = out;
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++) was[k] = *source(m, n, k);
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++) {
    naive_tensor *s = &m->val[place(m, n->src[k])];
    if (x[k]) s->bits = x[k], s->dtype = n->dtype;
  }
  evaluate[n->op](m, n, &to);
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++) m->val[place(m, n->src[k])] = was[k];
}

void naive_again(machine *m, const tn_node *n, tn__op as, double *const *x, const naive_tensor *t, double *out) {
  tn_node like = *n;
  uint64_t *bits[3] = {0};
  like.op = (uint8_t)as;
  like.dtype = TN_F64;
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++) bits[k] = (uint64_t *)x[k];
  naive_with(m, &like, bits, t, (uint64_t *)out);
}

static void bind_vars(machine *m) {
  tn_node **key = tn__arena_alloc(&m->arena, (m->nbind + 1) * sizeof *key);
  int64_t *val = tn__arena_alloc(&m->arena, (m->nbind + 1) * sizeof *val);
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->nbind; i++) {
    if (m->bind[i].leaf->op != OP_VAR) continue;
    key[n] = (tn_node *)(uintptr_t)m->bind[i].leaf;
    val[n++] = *(const int64_t *)m->bind[i].data;
  }
  m->env = (tn__env){key, val, n};
}

/* One use of each source of n is over; arrays without any left go. */
static void release(machine *m, const tn_node *n) {
  for (uint32_t k = 0; k < n->nsrc; k++) {
    uint64_t at = place(m, n->src[k]);
    if (--m->uses[at]) continue;
    naive_free(&m->val[at]);
  }
}

/* The node's bits, and what else they may be. */
static void evaluate_node(machine *m, const tn_node *n, naive_tensor *t) {
  evaluate_fn fn = tn__is_elementwise(n) ? scalar : evaluate[n->op];
  naive_tensor *x[3] = {0};
  if (!fn) give_up(n, "not an op of tensor graphs");
  make(m, n, t);
  fn(m, n, t);
  if (!m->watch) return;
  if (carries[n->op]) carry(m, n, t);
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++) x[k] = &m->val[place(m, n->src[k])];
  m->watch->look(m->watch, m, n, x, t);
}

void naive_eval(tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, naive_tensor *out) {
  naive_eval_watched(root, nroot, bind, nbind, out, NULL);
}

static uint64_t *copy_of(const uint64_t *v, int64_t n) {
  uint64_t *to = malloc((size_t)(n ? n : 1) * sizeof *to);
  if (!to) abort();
  if (n) memcpy(to, v, (size_t)n * sizeof *to);
  return to;
}

void naive_eval_watched(tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, naive_tensor *out,
                        naive_watch *watch) {
  machine m = {.bind = bind, .nbind = nbind, .watch = watch};
  tn__arena_init(&m.arena, &m.mem);
  bind_vars(&m);
  tn__topo(&m.arena, root, nroot, &m.order);
  tn__map_init(&m.index, &m.arena);
  m.val = tn__arena_zalloc(&m.arena, m.order.n * sizeof *m.val);
  m.uses = tn__arena_zalloc(&m.arena, m.order.n * sizeof *m.uses);
  for (uint32_t i = 0; i < m.order.n; i++) {
    tn__map_put(&m.index, (uint64_t)(uintptr_t)m.order.v[i], i);
    for (uint32_t k = 0; k < m.order.v[i]->nsrc; k++) m.uses[place(&m, m.order.v[i]->src[k])]++;
  }
  for (uint32_t i = 0; i < nroot; i++) m.uses[place(&m, root[i])]++;
  for (uint32_t i = 0; i < m.order.n; i++) {
    const tn_node *n = m.order.v[i];
    evaluate_node(&m, n, &m.val[i]);
    release(&m, n);
  }
  for (uint32_t i = 0; i < nroot; i++) {
    uint64_t at = place(&m, root[i]);
    out[i] = m.val[at];
    out[i].bits = copy_of(out[i].bits, out[i].n);
    for (int p = 0; p < NAIVE_PLANES; p++)
      if (out[i].plane[p]) out[i].plane[p] = copy_of(out[i].plane[p], out[i].n);
  }
  for (uint32_t i = 0; i < m.order.n; i++) naive_free(&m.val[i]);
  tn__arena_free(&m.arena);
}

void naive_free(naive_tensor *t) {
  free(t->bits);
  for (int p = 0; p < NAIVE_PLANES; p++) free(t->plane[p]);
  *t = (naive_tensor){0};
}

double naive_get(const naive_tensor *t, int64_t i) { return tn__eval_to_double(t->dtype, t->bits[i]); }
