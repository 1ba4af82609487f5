#include "verify/graph.h"
#include "verify/rounding.h"
#include "ir/build.h"
#include <math.h>
#include <string.h>

typedef struct room {
  tn__val *v;
  size_t n;
} room;

typedef struct machine {
  tn__world *w;
  tn__arena *a;
  const tn__env *env;
  const tn__val *leaf;  /* elements of the only PARAM; NULL: each is an unknown */
  tn__map index;        /* node -> place in image, and in room */
  tn__image *image;
  room *room;           /* where each image lies */
  uint32_t *readers;    /* of each image: how many sources have yet to be read from it */
  tn__vec(room) spare;  /* of images that nobody reads any more */
} machine;

static uint64_t source_at(const machine *m, const tn_node *n, uint32_t k) {
  uint64_t at = 0;
  tn__map_get(&m->index, (uintptr_t)n->src[k], &at);
  return at;
}

static const tn__image *source(const machine *m, const tn_node *n, uint32_t k) { return &m->image[source_at(m, n, k)]; }

static int64_t size_of(const machine *m, tn_node *n) {
  int64_t v;
  return tn__const_int(n, &v) ? v : tn__eval_index(n, m->env, m->a);
}

/* The smallest of the spare ones that does: most images are read soon after they are made, so that a graph needs the
 * memory of a few at a time. */
static room take_room(machine *m, size_t n) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < m->spare.n; i++)
    if (m->spare.v[i].n >= n && (best == UINT32_MAX || m->spare.v[i].n < m->spare.v[best].n)) best = i;
  if (best == UINT32_MAX) return (room){tn__arena_alloc(m->a, n * sizeof(tn__val)), n};
  room r = m->spare.v[best];
  m->spare.v[best] = m->spare.v[--m->spare.n];
  return r;
}

static void make(machine *m, const tn_node *n, uint32_t i) {
  tn__image *t = &m->image[i];
  *t = (tn__image){.n = 1, .rank = n->rank, .dtype = n->dtype};
  for (uint32_t a = 0; a < n->rank; a++) t->n *= t->dim[a] = size_of(m, n->dim[a]);
  m->room[i] = take_room(m, (size_t)t->n + 1);
  t->v = m->room[i].v;
}

static void count_readers(machine *m, const tn_node *n) {
  for (uint32_t k = 0; k < n->nsrc; k++) m->readers[source_at(m, n, k)]++;
}

static void release_sources(machine *m, const tn_node *n) {
  for (uint32_t k = 0; k < n->nsrc; k++) {
    uint64_t at = source_at(m, n, k);
    if (!--m->readers[at]) tn__vec_push(m->a, &m->spare, m->room[at]);
  }
}

/* The next place, in row-major order. */
static void step(const tn__image *t, int64_t *at) {
  for (uint32_t a = t->rank; a && a--;) {
    if (++at[a] < t->dim[a]) return;
    at[a] = 0;
  }
}

static int64_t place(const tn__image *t, const int64_t *at) {
  int64_t i = 0;
  for (uint32_t a = 0; a < t->rank; a++) i = i * t->dim[a] + at[a];
  return i;
}

static tn__val zero(machine *m, int dtype) { return tn__val_bits(m->w, dtype, 0); }

static tn__val add(machine *m, int dtype, tn__val x, tn__val y) { return tn__val_collect(m->w, OP_ADD, dtype, x, y); }

/* ---- leaves and scalar functions ---- */

static void leaf(machine *m, const tn_node *n, tn__image *t) {
  for (int64_t i = 0; i < t->n; i++) {
    if (n->op == OP_PARAM) t->v[i] = m->leaf ? m->leaf[i] : tn__val_input(m->w, n->dtype, n->ints[0], i);
    else
      t->v[i] = tn__val_bits(m->w, n->dtype,
                             (uint64_t)(n->op == OP_CONST  ? n->ints[0]
                                        : n->op == OP_IOTA ? i
                                                           : size_of(m, (tn_node *)(uintptr_t)n)));
  }
}

/* Rules of mode fast assume that no divisor is 0 (x / x is 1): where one is, the quotient may be anything. */
static void scalar(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *x[3] = {0};
  tn__val arg[3];
  bool assumes = n->op == OP_DIV && m->w->c->mode == TN_MODE_FAST;
  int as = m->w->numeric && tn__is_float(n->dtype) ? TN_F64 : n->dtype;
  for (uint32_t k = 0; k < n->nsrc; k++) x[k] = source(m, n, k);
  for (int64_t i = 0; i < t->n; i++) {
    for (uint32_t k = 0; k < n->nsrc; k++) arg[k] = x[k]->v[i];
    t->v[i] = tn__val_eval(m->w, n->op, n->dtype, x[n->op == OP_WHERE]->dtype, arg);
    if (!assumes || !tn__val_same(as, arg[1], zero(m, n->dtype))) continue;
    m->w->rounded = true;
    if (m->w->numeric) t->v[i].off = INFINITY;
  }
}

/* ---- movement: where an element comes from ---- */

static void window_place(const tn_node *n, const int64_t *at, uint32_t rank, int64_t *from) {
  uint32_t axis = (uint32_t)n->ints[0];
  for (uint32_t a = 0, k = 0; k < rank; a++, k++) {
    from[a] = at[k];
    if (k == axis) from[a] = at[k] * n->ints[2] + at[k + 1] * n->ints[3], k++;
  }
}

/* arg: the numbers among n's sources.  False: from outside of x. */
static bool come_from(const tn_node *n, const tn__image *x, const tn__image *t, const int64_t *arg, const int64_t *at,
                      int64_t *from) {
  for (uint32_t a = 0; a < t->rank && n->op != OP_WINDOW; a++) {
    switch ((tn__op)n->op) {
    case OP_EXPAND: from[a] = x->dim[a] == t->dim[a] ? at[a] : 0; break;
    case OP_PERMUTE: from[n->ints[a]] = at[a]; break;
    case OP_PAD: from[a] = at[a] - arg[2 * a]; break;
    case OP_SHRINK: from[a] = arg[a] + at[a] * n->ints[a]; break;
    default: from[a] = at[a];
    }
  }
  if (n->op == OP_WINDOW) window_place(n, at, t->rank, from);
  for (uint32_t i = 0; n->op == OP_FLIP && i < n->nint; i++)
    from[n->ints[i]] = x->dim[n->ints[i]] - 1 - from[n->ints[i]];
  for (uint32_t a = 0; a < x->rank; a++)
    if (from[a] < 0 || from[a] >= x->dim[a]) return false;
  return true;
}

static void move(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *x = source(m, n, 0);
  int64_t at[TN_MAX_RANK] = {0}, from[TN_MAX_RANK], arg[2 * TN_MAX_RANK];
  for (uint32_t i = 1; i < n->nsrc; i++) arg[i - 1] = size_of(m, n->src[i]);
  for (int64_t i = 0; i < t->n; i++, step(t, at))
    t->v[i] = come_from(n, x, t, arg, at, from) ? x->v[place(x, from)] : zero(m, n->dtype);
}

static void same(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *x = source(m, n, n->op == OP_ASSIGN);
  if (t->n) memcpy(t->v, x->v, (size_t)t->n * sizeof *t->v);
}

/* ---- what adds up ---- */

static void reduce(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *x = source(m, n, 0);
  int op = tn__ops[n->op].combine;
  int64_t at[TN_MAX_RANK] = {0}, to[TN_MAX_RANK];
  for (int64_t i = 0; i < t->n; i++) t->v[i] = tn__val_bits(m->w, n->dtype, tn__eval_reduce_init(op, n->dtype));
  for (int64_t i = 0; i < x->n; i++, step(x, at)) {
    uint32_t kept = 0, r = 0;
    for (uint32_t a = 0; a < x->rank; a++) {
      if (r < n->nint && n->ints[r] == (int64_t)a) r++;
      else to[kept++] = at[a];
    }
    tn__val *sum = &t->v[place(t, to)];
    *sum = tn__val_collect(m->w, op, n->dtype, *sum, x->v[i]);
  }
}

static void fold(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *g = source(m, n, 0);
  int64_t at[TN_MAX_RANK] = {0}, to[TN_MAX_RANK];
  for (int64_t i = 0; i < t->n; i++) t->v[i] = zero(m, n->dtype);
  for (int64_t i = 0; i < g->n; i++, step(g, at)) {
    window_place(n, at, g->rank, to);
    tn__val *sum = &t->v[place(t, to)];
    *sum = add(m, n->dtype, *sum, g->v[i]);
  }
}

static void contract(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *a = source(m, n, 0), *b = source(m, n, 1);
  int acc = tn__dtype_acc(n->dtype);
  uint32_t batch = (uint32_t)n->ints[0], rows = (uint32_t)n->ints[1];
  int64_t nm = 1, nn = 1, nk = 1;
  for (uint32_t i = batch; i < a->rank; i++) *(i < batch + rows ? &nm : &nk) *= a->dim[i];
  for (uint32_t i = 0; i < (uint32_t)n->ints[2]; i++) nn *= b->dim[batch + i];
  for (int64_t i = 0; i < t->n; i++) {
    const tn__val *x = a->v + i / nn * nk, *y = b->v + (i / nn / nm * nn + i % nn) * nk;
    tn__val sum = tn__val_bits(m->w, acc, tn__eval_reduce_init(OP_ADD, acc));
    for (int64_t k = 0; k < nk; k++) {
      tn__val p = tn__val_eval(m->w, OP_CAST, acc, n->dtype, &x[k]),
              q = tn__val_eval(m->w, OP_CAST, acc, n->dtype, &y[k]);
      sum = add(m, acc, sum, tn__val_collect(m->w, OP_MUL, acc, p, q));
    }
    t->v[i] = tn__val_eval(m->w, OP_CAST, n->dtype, acc, &sum);
  }
}

/* ---- by index ---- */

static int64_t row_size(const tn__image *x) {
  int64_t row = 1;
  for (uint32_t a = 1; a < x->rank; a++) row *= x->dim[a];
  return row;
}

static int64_t index_at(const tn__image *idx, int64_t i) {
  return (int64_t)tn__eval_cast(idx->dtype, TN_I64, idx->v[i].v);
}

/* In a numeric world: it may be another one. */
static bool is_open(const machine *m, const tn__image *idx, int64_t i) { return m->w->numeric && idx->v[i].off > 0; }

static void gather(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *x = source(m, n, 0), *idx = source(m, n, 1);
  int64_t row = row_size(x);
  for (int64_t i = 0; i < t->n; i++) {
    int64_t j = index_at(idx, i / row);
    t->v[i] = j >= 0 && j < x->dim[0] ? x->v[j * row + i % row] : zero(m, n->dtype);
    if (is_open(m, idx, i / row)) t->v[i].off = INFINITY;
  }
}

/* In a numeric world updates may be off by a rounding of their dtype: kernels may add whole numbers of its least one
 * (schedule/fixed.c), and such numbers have more digits than that. */
static void scatter(machine *m, const tn_node *n, tn__image *t) {
  const tn__image *base = source(m, n, 0), *idx = source(m, n, 1), *upd = source(m, n, 2);
  int64_t row = row_size(t);
  bool open = false;
  if (t->n) memcpy(t->v, base->v, (size_t)t->n * sizeof *t->v);
  for (int64_t i = 0; i < upd->n; i++) {
    int64_t j = index_at(idx, i / row);
    open |= is_open(m, idx, i / row);
    if (j < 0 || j >= t->dim[0]) continue;
    tn__val *sum = &t->v[j * row + i % row], x = upd->v[i];
    if (m->w->numeric && tn__is_float(n->dtype)) x.off += tn__rounding_to(upd->dtype, tn__val_number(x));
    *sum = tn__val_combined(m->w, tn__combines_by(n), n->dtype, upd->dtype, *sum, x);
  }
  for (int64_t i = 0; open && i < t->n; i++) t->v[i].off = INFINITY;
}

/* Places that are said to differ.  Inputs may be drawn that make them otherwise, be they what the graph made before. */
static void places(machine *m, const tn_node *n, tn__image *t) {
  tn__map seen;
  same(m, n, t);
  tn__map_init(&seen, m->a);
  for (int64_t i = 0; i < t->n; i++) {
    uint64_t at = (uint64_t)index_at(t, i);
    m->w->unkept |= tn__map_get(&seen, at, NULL);
    tn__map_put(&seen, at, 1);
  }
}

/* So numbers that are said to be in order. */
static void in_order(machine *m, const tn_node *n, tn__image *t) {
  same(m, n, t);
  for (int64_t i = 1; i < t->n; i++) m->w->unkept |= index_at(t, i) < index_at(t, i - 1);
}

/* ---- the machine ---- */

typedef void (*evaluate_fn)(machine *, const tn_node *, tn__image *);
static const evaluate_fn evaluate[OP_COUNT] = {
    [OP_CONST] = leaf,   [OP_PARAM] = leaf,    [OP_VAR] = leaf,        [OP_IOTA] = leaf,         [OP_SUM] = reduce,
    [OP_PROD] = reduce,  [OP_RMAX] = reduce,   [OP_RMIN] = reduce,     [OP_RESHAPE] = same,      [OP_EXPAND] = move,
    [OP_PERMUTE] = move, [OP_PAD] = move,      [OP_SHRINK] = move,     [OP_FLIP] = move,         [OP_WINDOW] = move,
    [OP_FOLD] = fold,    [OP_GATHER] = gather, [OP_SCATTER] = scatter, [OP_CONTRACT] = contract, [OP_DETACH] = same,
    [OP_CONTIG] = same,  [OP_ASSIGN] = same,   [OP_PERMUTATION] = places,
    [OP_DISTINCT] = places, [OP_SPANS] = in_order, [OP_EITHER] = same,
};

double tn__graph_work(tn_ctx *c, tn_node *sink, const tn__env *env) {
  machine m = {.a = &c->scratch, .env = env};
  tn__nodes order = {0};
  double work = 0;
  tn__topo(m.a, &sink, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    const tn_node *n = order.v[i];
    double size = 1, steps = 1;
    for (uint32_t a = 0; a < n->rank; a++) size *= (double)size_of(&m, n->dim[a]);
    for (uint32_t a = n->op == OP_CONTRACT ? (uint32_t)(n->ints[0] + n->ints[1]) : UINT32_MAX;
         a < (n->nsrc ? n->src[0]->rank : 0); a++)
      steps *= (double)size_of(&m, n->src[0]->dim[a]);
    work += size * steps;
  }
  return work;
}

static void run(tn__world *w, tn_node *sink, const tn__env *env, const tn__val *given, tn__image *out) {
  machine m = {.w = w, .a = &w->c->scratch, .env = env, .leaf = given};
  tn__nodes order = {0};
  tn__topo(m.a, sink->src, sink->nsrc, &order);
  tn__map_init(&m.index, m.a);
  m.image = tn__arena_alloc(m.a, (order.n + 1) * sizeof *m.image);
  m.room = tn__arena_alloc(m.a, (order.n + 1) * sizeof *m.room);
  m.readers = tn__arena_zalloc(m.a, (order.n + 1) * sizeof *m.readers);
  for (uint32_t i = 0; i < order.n; i++) {
    tn__map_put(&m.index, (uintptr_t)order.v[i], i);
    count_readers(&m, order.v[i]);
  }
  count_readers(&m, sink); /* never read, so that what it wants stays */
  for (uint32_t i = 0; i < order.n; i++) {
    const tn_node *n = order.v[i];
    make(&m, n, i);
    (tn__is_elementwise(n) ? scalar : evaluate[n->op])(&m, n, &m.image[i]);
    release_sources(&m, n);
  }
  for (uint32_t i = 0; i < sink->nsrc; i++) out[i] = *source(&m, sink, i);
}

void tn__graph_run(tn__world *w, tn_node *sink, const tn__env *env, tn__image *out) { run(w, sink, env, NULL, out); }

int64_t *tn__graph_moved(tn__world *w, tn_node *moved, int64_t n, int64_t count) {
  tn__image out;
  tn__val *number = tn__alloc(w->c, ((size_t)n + 1) * sizeof *number);
  int64_t *from = tn__alloc(w->c, ((size_t)count + 1) * sizeof *from);
  for (int64_t i = 0; i < n; i++) number[i] = (tn__val){.kind = TN__VAL_BITS, .v = (uint64_t)i};
  run(w, tn__sink(w->c, &moved, 1, "moved"), &(tn__env){0}, number, &out);
  for (int64_t i = 0; i < out.n && i < count; i++) from[i] = (int64_t)out.v[i].v;
  return out.n == count ? from : NULL;
}
