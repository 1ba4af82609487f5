/* Columns beside rows: a kernel of sums over the rows of what another one goes through row by row joins it.
 *
 * Needs all decided, kernels side by side joined.  A gradient of weights (sums over all rows) mostly reads what the
 * gradient of the rows reads, and statistics of the rows that the latter has at hand: one kernel then reads everything
 * once.  Such a kernel is made anew, from the stores of both, at the rows' ranges; if that works out they give way to
 * it, and what only they wanted is stored no more.  Only for devices with work groups, whose lowering lets a group go
 * through many rows and keep the sums (lower/row_sums.c); its results depend on how many that are. */
#include "rewrite/rewrite.h"
#include "schedule/remake.h"

enum {
  MIN_COLUMNS = 64,       /* fewer are summed up faster by themselves */
  UNIT_SHARE = 4,         /* of a unit's registers that a group's sums may take: the rest computes */
  ROWS_OF_UNIT = 16,      /* fewer rows for each unit leave the groups without work */
  MAX_TRIES = 16          /* kernels that one is tried to be joined with */
};


/* ---- the ranges ---- */

static bool ends_with(const tn_node *x, const tn_node *y) {
  if (x->nsrc <= y->nsrc) return false;
  for (uint32_t i = 0; i < y->nsrc; i++)
    if (x->src[x->nsrc - y->nsrc + i]->src[0] != y->src[i]->src[0]) return false;
  return true;
}

/* a's ranges are the rows' and then b's; or the rows' only, as those of a kernel that stores but one value a row: then
 * b's stand inside them. */
/* a choice: no is right */
static bool match_ranges(tn__fuse *f, tn__remake *p) {
  tn_node *x = tn__seed_of(f, p->a)->env, *y = tn__seed_of(f, p->b)->env, *env[32];
  bool whole = ends_with(x, y);
  uint32_t rows = whole ? x->nsrc - y->nsrc : x->nsrc, n = 0;
  double nrows = 1, columns = 1;
  if (!rows || rows + y->nsrc >= 32 || y->nsrc > TN_MAX_RANK) return false;
  for (; n < rows; n++) nrows *= (double)tn__size_guess((env[n] = x->src[n])->src[0]);
  for (uint32_t i = 0; i < y->nsrc; i++) {
    columns *= (double)tn__size_guess(y->src[i]->src[0]);
    env[n++] = whole ? x->src[rows + i]
                     : tn__range(f->c, y->src[i]->src[0], AX_LOOP, ROLE_OUTPUT, TN__FIRST_COLUMN + i);
  }
  p->env = whole ? x : tn__list(f->c, env, n);
  p->rows = tn__list(f->c, env, rows);
  return nrows >= (double)ROWS_OF_UNIT * f->dev->target.units && columns >= MIN_COLUMNS;
}

/* Does all that a kernel reduces, or stores beside its root, stand under the output ranges of `set`, or under all? */
/* a choice: no is right */
static bool nests_so(const tn__seed *g, uint32_t set) {
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != set && g->chain.v[i] != (1u << g->env->nsrc) - 1) return false;
  return true;
}

/* a choice: no is right */
static bool may_pair(tn__fuse *f, tn__remake *p) {
  const tn__seed *x = tn__seed_of(f, p->a), *y = tn__seed_of(f, p->b);
  if (p->a == p->b || x->alone || y->alone || y->rows || !x->roots.n || !y->roots.n) return false;
  if (x->roots.n + y->roots.n > TN__MAX_STORES || x->size + y->size > TN__MAX_KERNEL ||
      x->loops + y->loops > TN__MAX_LOOPS || !match_ranges(f, p) || (x->rows && x->rows != p->rows))
    return false;
  return nests_so(x, (1u << p->rows->nsrc) - 1) && nests_so(y, 0);
}

/* ---- what the new kernel wants ---- */

/* The sum n over all rows: its source is wanted in the rows' own loops. */
static bool sum_rows(tn__fuse *f, tn__remake *p, tn_node *n, tn__demand *d) {
  tn_node *x = n->src[0], *idx[TN_MAX_RANK], *r[TN_MAX_RANK];
  uint32_t row = 0;
  if (n->op != OP_SUM || d->gate || d->env != p->env) return false;
  for (uint32_t i = 0, a = 0, o = 0; i < x->rank; i++) {
    if (a == n->nint || n->ints[a] != i) {
      idx[i] = d->idx->src[o++];
      continue;
    }
    idx[i] = r[a++] = tn__is_int_const(x->dim[i], 1) ? tn__int(f->c, 0)
                      : row < p->rows->nsrc          ? p->rows->src[row++]
                                                     : NULL;
    if (!idx[i] || (idx[i]->op == OP_RANGE && idx[i]->src[0] != x->dim[i])) return false;
  }
  d->ranges = tn__list(f->c, r, n->nint);
  p->sums = true;
  tn__demand_child(f, n, d, 0, idx, NULL, d->env);
  return row == p->rows->nsrc;
}

/* A place where the kernel wants n.  False if it cannot be computed there, or is stored for another row. */
static bool inline_place(tn__fuse *f, tn__remake *p, tn_node *n, tn__info *in, tn__demand *d) {
  bool opaque = false;
  uint32_t set = tn__ranges_in(f, d->idx, d->gate, d->env, &opaque), rows = (1u << p->rows->nsrc) - 1;
  if (in->buf >= 0 && in->kernel == p->a && !tn__remake_had(f, p, in, d)) return false;
  if (n->op == OP_CONTRACT || n->op == OP_FOLD || n->op == OP_SCATTER) return false;
  if (tn__ops[n->op].group == G_REDUCE) {
    if (opaque || d->env->nsrc > 31) return false;
    if (!(set & rows)) return sum_rows(f, p, n, d);
    if (set != rows) return false;
  }
  tn__demand_inline(f, n, in, d);
  return true;
}

/* n stands in memory, and is large: a row of it is read once if it is read where a reads it, too. */
/* a choice: either is right */
static bool loads_rows(tn__fuse *f, tn__remake *p, const tn__info *in) {
  bool both = tn__remake_demands(f, in, p->a) && tn__remake_demands(f, in, p->b);
  for (int i = tn__demand_last(f, in, p->k); both && i >= 0; i = in->want.v[i].before)
    if (!tn__remake_had(f, p, in, &in->want.v[i])) return false;
  p->shares |= both;
  return true;
}

static bool visit(tn__fuse *f, tn__remake *p, uint32_t at, double volume) {
  tn_node *n = f->order.v[at];
  tn__info *in = &f->info[at];
  bool large = tn__numel_guess(n) >= volume, good = true;
  if (in->buf >= 0 && in->kernel != p->a && in->kernel != p->b) return !large || loads_rows(f, p, in);
  p->shares |= large && in->buf >= 0 && in->kernel == p->a && tn__remake_demands(f, in, p->b);
  for (int i = tn__demand_last(f, in, p->k); good && i >= 0; i = in->want.v[i].before)
    good = inline_place(f, p, n, in, &in->want.v[i]);
  for (uint32_t s = 0; s < n->nsrc; s++) tn__remake_note(f, p, n->src[s]);
  return good && tn__seed_of(f, p->k)->size <= TN__MAX_KERNEL;
}

/* Follows what the roots want, from the top of the graph on. */
static bool walk(tn__fuse *f, tn__remake *p) {
  double volume = 1;
  for (uint32_t i = 0; i < p->env->nsrc; i++) volume *= (double)tn__size_guess(p->env->src[i]->src[0]);
  while (p->todo.n)
    if (!visit(f, p, tn__heap_pop(&p->todo), volume)) return false;
  return p->sums && p->shares;
}

/* A place of kernel b by the new kernel's ranges: b's own are the last of them, those it sums over are the rows'.
 * NULL: they are not. */
static tn_node *moved(tn__fuse *f, const tn__remake *p, tn_node *idx) {
  const tn_node *own = tn__seed_of(f, p->b)->env;
  tn_node *from[2 * TN_MAX_RANK], *to[2 * TN_MAX_RANK];
  uint32_t n = 0, row = 0;
  for (; n < own->nsrc; n++) {
    from[n] = own->src[n];
    to[n] = p->env->src[p->env->nsrc - own->nsrc + n];
  }
  for (uint32_t i = 0; i < idx->nsrc; i++) {
    tn_node *x = idx->src[i];
    if (x->op != OP_RANGE || x->ints[RANGE_AXIS] != AX_REDUCE) continue;
    if (row == p->rows->nsrc || p->rows->src[row]->src[0] != x->src[0]) return NULL;
    from[n] = x;
    to[n++] = p->rows->src[row++];
  }
  return tn__substitute(f->c, idx, from, to, n);
}

/* Wants what a kernel stores. */
static bool want_roots(tn__fuse *f, tn__remake *p, int from) {
  for (uint32_t i = 0; i < tn__seed_of(f, from)->roots.n; i++) {
    tn_node *n = tn__seed_of(f, from)->roots.v[i];
    const tn__info *in = tn__info_of(f, n);
    if (tn__remake_drops(f, p, in)) continue;
    tn_node *idx = in->want.v[in->host].idx;
    if (from == p->b && !(idx = moved(f, p, idx))) return false;
    tn__demand_put(f, n, p->k, idx, NULL, p->env);
    tn__remake_note(f, p, n);
    tn__vec_push(f->a, &tn__seed_of(f, p->k)->roots, n);
  }
  return true;
}

static bool is_sum(tn__fuse *f, const tn__remake *p, const tn_node *n) {
  const tn__info *in = tn__info_of(f, n);
  int at = in ? tn__demand_last(f, in, p->k) : -1;
  const tn_node *ranges = at >= 0 && n->op == OP_SUM ? in->want.v[at].ranges : NULL;
  for (uint32_t i = 0; ranges && i < ranges->nsrc; i++) /* axes of one element, without a range, may come first */
    if (ranges->src[i] == p->rows->src[0]) return true;
  return false;
}

/* Is it made of sums over the rows? */
/* a choice: no is right */
static bool rests_on_sums(tn__fuse *f, const tn__remake *p, tn_node *root) {
  tn__nodes todo = {0};
  f->searches++;
  tn__vec_push(f->a, &todo, root);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    tn__info *in = tn__info_of(f, n);
    if (!in || tn__demand_last(f, in, p->k) < 0 || in->seen == f->searches) continue;
    in->seen = f->searches;
    if (is_sum(f, p, n)) return true;
    for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(f->a, &todo, n->src[s]);
  }
  return false;
}

/* A sum of what another sum over the rows gives would go through them a second time. */
/* a choice: no is right */
static bool in_one_pass(tn__fuse *f, const tn__remake *p) {
  for (uint32_t i = 0; i < p->seen.n; i++) {
    tn_node *n = f->order.v[p->seen.v[i]];
    if (is_sum(f, p, n) && rests_on_sums(f, p, n->src[0])) return false;
  }
  return true;
}

/* Bytes of all sums over the rows.  A store may be made of several, and want one of them in several places: lowering
 * keeps each of these by itself. */
static double bytes_of_sums(tn__fuse *f, const tn__remake *p) {
  double bytes = 0;
  for (uint32_t i = 0; i < p->seen.n; i++) {
    const tn_node *n = f->order.v[p->seen.v[i]];
    if (is_sum(f, p, n))
      bytes += tn__remake_demands(f, tn__info_of(f, n), p->k) * tn__numel_guess(n) *
               (double)tn__size_of(tn__dtype_acc(n->dtype));
  }
  return bytes;
}

/* Is anything reduced for each row?  The sums over the rows then stand beside that in one loop, for which they are kept
 * in a group's memory; of others each goes through the rows by itself. */
/* a choice: yes is right */
static bool reduces_rows(tn__fuse *f, const tn__remake *p) {
  for (uint32_t i = 0; i < p->seen.n; i++) {
    const tn_node *n = f->order.v[p->seen.v[i]];
    const tn__info *in = &f->info[p->seen.v[i]];
    bool loaded = in->buf >= 0 && in->kernel != p->a && in->kernel != p->b;
    if (!loaded && tn__is_reduction(n) && !is_sum(f, p, n)) return true;
  }
  return false;
}

/* Each store is one of all rows, or of sums over them that a group can keep. */
/* a choice: no is right */
static bool fits(tn__fuse *f, const tn__remake *p) {
  const tn__seed *g = tn__seed_of(f, p->k);
  const tn__target *t = &f->dev->target;
  uint32_t rows = (1u << p->rows->nsrc) - 1;
  for (uint32_t i = 0; i < g->roots.n; i++) {
    tn_node *n = g->roots.v[i];
    const tn__info *in = tn__info_of(f, n);
    bool opaque = false;
    uint32_t set = tn__ranges_in(f, in->want.v[tn__demand_last(f, in, p->k)].idx, NULL, p->env, &opaque) & rows;
    if (set == rows) continue;
    if (set || !rests_on_sums(f, p, n)) return false;
  }
  double bytes = bytes_of_sums(f, p);
  return bytes * UNIT_SHARE <= (double)t->registers && (bytes <= tn__target_room(t) || !reduces_rows(f, p));
}

static bool join(tn__fuse *f, tn__depends *d, int a, int b) {
  tn__remake p = {.a = a, .b = b, .k = (int)f->seeds.n, .small = -1};
  if (!may_pair(f, &p) || tn__depends_on(f, d, a, b, -1) || tn__depends_on(f, d, b, a, a)) return false;
  tn__seed g = {.env = p.env, .rows = p.rows, .first = p.k, .chain = tn__seed_of(f, a)->chain};
  g.loops = p.env->nsrc + p.rows->nsrc;
  tn__vec_push(f->a, &f->seeds, g);
  f->searches++;
  if (!want_roots(f, &p, a) || !want_roots(f, &p, b) || !walk(f, &p) || !in_one_pass(f, &p) || !fits(f, &p)) {
    tn__remake_give_up(f, &p);
    return false;
  }
  tn__depends_join(f, d, a, b, p.k);
  tn__remake_take_over(f, &p);
  return true;
}

/* Kernels that go through what b reads */
/* a choice: either is right */
static void join_some(tn__fuse *f, tn__depends *d, int b) {
  int tries = 0;
  for (uint32_t i = 0; i < d->loads.v[b].n; i++) {
    const tn__info *in = &f->info[d->loads.v[b].v[i]];
    if (in->kernel >= 0 && join(f, d, in->kernel, b)) return;
    for (uint32_t j = in->want.n; tries < MAX_TRIES && j && j--;) {
      int a = in->want.v[j].k;
      if (a == b || !tn__remake_alive(f, a) || (j + 1 < in->want.n && in->want.v[j + 1].k == a)) continue;
      tries++;
      if (join(f, d, a, b)) return;
    }
  }
}

void tn__fuse_row_sums(tn__fuse *f) {
  uint32_t before = f->seeds.n;
  if (!f->dev->target.group || f->c->mode == TN_MODE_STRICT) return;
  tn__depends d;
  tn__depends_find(f, &d);
  for (uint32_t b = 0; b < before; b++)
    if (tn__remake_alive(f, (int)b) && !tn__seed_of(f, (int)b)->alone) join_some(f, &d, (int)b);
  if (f->seeds.n > before) tn__remake_tidy(f);
}

/* ---- the kernel's body ---- */

/* What a group does for rows and what it adds up share their loops only once that is known to work (lower/row_sums.c):
 * up to there the sums have loops of their own.  Those over the rows stand for the rows' loops by their roles: the
 * first ROW_SUM, by number, for the first ROW, and so on. */
void tn__columns_apart(tn__fuse *f, const tn__seed *g, tn__nodes *stores) {
  tn__nodes all = {0}, from = {0}, to = {0}, own = {0}, sums = {0};
  for (uint32_t i = 0; i < stores->n; i++) {
    bool row = false;
    for (uint32_t s = 3; s < stores->v[i]->nsrc; s++) row |= stores->v[i]->src[s] == g->rows->src[0];
    if (!row) tn__vec_push(f->a, &sums, stores->v[i]);
  }
  if (!sums.n) return;
  tn__topo(f->a, sums.v, sums.n, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i];
    if (x->op != OP_RANGE || x->ints[RANGE_AXIS] != AX_REDUCE) continue;
    tn__vec_push(f->a, &from, x);
    tn__vec_push(f->a, &to, tn__range(f->c, x->src[0], AX_REDUCE, (tn__role)x->ints[RANGE_ROLE], f->next_range++));
  }
  for (uint32_t s = 0; s < g->rows->nsrc; s++) {
    tn_node *x = g->rows->src[s];
    tn__vec_push(f->a, &from, x);
    tn__vec_push(f->a, &to, tn__range(f->c, x->src[0], AX_REDUCE, ROLE_ROW_SUM, f->next_range++));
    tn__vec_push(f->a, &own, tn__range(f->c, x->src[0], AX_LOOP, ROLE_ROW, x->ints[RANGE_ID]));
  }
  for (uint32_t i = 0, s = 0; i < stores->n; i++) {
    bool sum = s < sums.n && stores->v[i] == sums.v[s];
    stores->v[i] = sum ? tn__substitute(f->c, sums.v[s++], from.v, to.v, from.n)
                       : tn__substitute(f->c, stores->v[i], g->rows->src, own.v, own.n);
  }
}
