#include "support/work.h"

enum { MOST = 64, LITTLE = 1 << 16 };

bool work_is_fair(double done, double asked) { return done <= MOST * asked + LITTLE; }

static double elements(const tn_node *n) {
  double v = 1;
  for (uint32_t i = 0; i < n->rank; i++) v *= (double)n->dim[i]->hi;
  return v;
}

static double asked_of(const tn_node *n, bool at_once) {
  double v = elements(n);
  if (n->op == OP_CONTRACT)
    for (uint32_t i = 0; i < (uint32_t)n->ints[3]; i++)
      v *= (double)n->src[0]->dim[n->ints[0] + n->ints[1] + (int64_t)i]->hi;
  if (tn__ops[n->op].group == G_REDUCE) v += elements(n->src[0]);
  if (n->op == OP_FOLD) v += elements(n->src[0]);
  if (n->op == OP_SCATTER) v += elements(n->src[2]) * (at_once ? (double)n->dim[0]->hi : 1);
  return v;
}

typedef struct sum {
  tn_node *sink;
  double work;
} sum;

static void add_up(tn_ctx *c, void *arg) {
  sum *s = arg;
  tn__nodes all = {0};
  bool at_once = tn__device_get(c, 0)->target.group > 0; /* where each place of a scatter may ask all updates */
  tn__topo(&c->scratch, &s->sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) s->work += asked_of(all.v[i], at_once);
}

double work_of_graph(tn_ctx *c, tn_node *sink) {
  sum s = {.sink = sink};
  tn__ctx_run(c, "work", add_up, &s);
  return s.work;
}

/* ---- kernels ---- */

static double turns(const tn_node *range) { return (double)range->src[0]->hi; }

static bool counts(const tn_node *n) {
  return n->op == OP_LOAD || n->op == OP_STORE || n->op == OP_STOREADD || n->op == OP_SETACC ||
         (tn__is_elementwise(n) && n->dtype != TN__INDEX);
}

/* What stands outside of the loop that groups share out is done by each of them.  (By each slice, too, but there are no
 * more of these than threads.) */
static double count_in_part(const tn__part *p, bool (*is_counted)(const tn_node *n)) {
  double times = 1, outside = 0, inside = 0, shares = p->global && p->group ? turns(p->global) : 1;
  bool in = false;
  double open[256];
  uint32_t depth = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if (n->op == OP_RANGE) {
      open[depth++] = times;
      times *= turns(n);
      in |= n == p->global;
    } else if (n->op == OP_END) {
      times = open[--depth];
      in &= n->src[0] != p->global;
    } else if (is_counted(n)) {
      *(in ? &inside : &outside) += times;
    }
  }
  return inside + outside * shares;
}

double work_of_kernel(const tn__kernel *k) {
  double work = 0;
  for (uint32_t p = 0; p < k->nparts; p++) work += count_in_part(&k->part[p], counts);
  return work;
}

static bool adds_up(const tn_node *n) { return n->op == OP_SETACC; }
static bool is_load(const tn_node *n) { return n->op == OP_LOAD; }

work_products work_of_products(const tn__kernel *k) {
  work_products w = {0};
  for (uint32_t i = 0; i < k->nparts; i++) {
    const tn__part *p = &k->part[i];
    const tn__tile_form *f = p->tile ? p->tile->form : NULL;
    double added = count_in_part(p, adds_up), fetched = count_in_part(p, is_load);
    if (f) fetched = added / (f->rows * f->cols) * (f->rows + f->cols);
    w.products += added;
    w.fetched += fetched;
  }
  return w;
}

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  double work;
} watched;

static tn__code *compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) watched.work += work_of_kernel(kernels[i]);
  return watched.real->compile(d, kernels, n);
}

void work_watch(tn__device *d) {
  watched.real = d->ops;
  watched.ops = *d->ops;
  watched.ops.compile = compile;
  d->ops = &watched.ops;
  watched.work = 0;
}

double work_taken(void) {
  double w = watched.work;
  watched.work = 0;
  return w;
}
