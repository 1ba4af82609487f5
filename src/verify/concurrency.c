#include "verify/concurrency.h"
#include "lower/lower.h"
#include "verify/barriers.h"
#include "verify/writers.h"

typedef struct walk {
  tn_ctx *c;
  tn__arena *a;
  const tn__kernel *k;
  uint32_t part, at;
  tn__nodes open; /* RANGEs around the instruction */
  const char *why;
} walk;

static bool complain(walk *w, const char *what) {
  tn__sb s;
  tn__sb_init(&s, w->a);
  tn__sb_printf(&s, "kernel %s, part %u, instruction %u: %s", w->k->name, w->part, w->at, what);
  w->why = tn__sb_str(&s);
  return false;
}

static bool at_once(const tn_node *range) {
  int64_t axis = range->ints[RANGE_AXIS];
  return range->hi > 0 && (axis == AX_GLOBAL || axis == AX_UPCAST || axis == AX_UNROLL);
}

static const tn_node *lanes_of(const walk *w) {
  for (uint32_t i = w->open.n; i && i--;)
    if (w->open.v[i]->ints[RANGE_AXIS] == AX_UPCAST) return w->open.v[i];
  return NULL;
}

/* The nodes that x is computed from, but not through memory */
static void find_direct(walk *w, tn_node *x, tn__map *seen) {
  tn__nodes todo = {0};
  tn__vec_push(w->a, &todo, x);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(seen, n)) continue;
    tn__map_putp(seen, n, n);
    for (uint32_t i = 0; n->op != OP_LOAD && n->op != OP_GETACC && n->op != OP_RANGE && i < n->nsrc; i++)
      tn__vec_push(w->a, &todo, n->src[i]);
  }
}

/* What may keep turns apart that meet through memory has to be said of it. */
static bool meet_through(walk *w, const char *who, tn_node *index) {
  tn__nodes all = {0};
  uint32_t i = 0;
  tn__topo(w->a, &index, 1, &all);
  while (i < all.n && !(all.v[i]->op == OP_LOAD && all.v[i]->src[0]->op == OP_PARAM)) i++;
  if (i == all.n) return complain(w, who);
  tn__sb s;
  tn__sb_init(&s, w->a);
  tn__sb_printf(&s, "%s, for all that is required of b%lld", who, (long long)all.v[i]->src[0]->ints[0]);
  return complain(w, tn__sb_str(&s));
}

/* Do turns of all ranges that may run at once store to places of their own, or only one of them, as the gate says? */
static bool check_store(walk *w, tn_node *n) {
  static const char *const met[AX_COUNT] = {[AX_GLOBAL] = "slices may store to one place",
                                            [AX_UPCAST] = "lanes may store to one place",
                                            [AX_UNROLL] = "neighbours may store to one place"};
  const tn_node *buf = n->src[0];
  if (tn__adds_at_once(&w->k->part[w->part], n)) return true;
  tn__map direct;
  tn__map_init(&direct, w->a);
  find_direct(w, n->src[1], &direct);
  if (tn__gate_of(n)) find_direct(w, tn__gate_of(n), &direct);
  for (uint32_t i = 0; i < w->open.n; i++) {
    tn_node *r = w->open.v[i];
    if (!at_once(r) || tn__map_getp(&direct, r)) continue;
    if (r->ints[RANGE_AXIS] == AX_GLOBAL && buf->op == OP_LOCAL) continue; /* each slice, or group, has its own */
    if (tn__adds_in_order(n, r) || tn__is_in_step(&w->k->part[w->part], n, r)) continue;
    if (w->k->nrequire && tn__writers_apart(w->c, w->k, w->part, w->at, &w->open, i)) continue;
    return meet_through(w, met[r->ints[RANGE_AXIS]], n->src[1]);
  }
  return true;
}

/* A value that lanes set is one of each lane, or was begun in the lane. */
static bool check_acc(walk *w, const tn_node *n) {
  const tn__part *p = &w->k->part[w->part];
  const tn_node *lanes = lanes_of(w);
  if (!lanes || n->nsrc > 2) return true;
  for (uint32_t i = w->at; i && i-- && p->ins[i] != lanes;)
    if (p->ins[i] == n->src[0]) return true;
  return complain(w, "all lanes set one accumulator");
}

static bool check_range(walk *w, const tn_node *n) {
  int64_t axis = n->ints[RANGE_AXIS];
  int group = w->k->part[w->part].group;
  if (axis == AX_GLOBAL && w->open.n) return complain(w, "the slices' loop is not outermost");
  if (axis == AX_UPCAST && lanes_of(w)) return complain(w, "lanes within lanes");
  return axis != AX_UPCAST || !group || n->hi < group || complain(w, "more lanes than the group has threads");
}

static bool check(walk *w, tn_node *n) {
  switch (n->op) {
  case OP_RANGE: return check_range(w, n);
  case OP_STORE: case OP_STOREADD: return check_store(w, n);
  case OP_SETACC: return check_acc(w, n);
  case OP_BARRIER: return !lanes_of(w) || complain(w, "a barrier that not all threads pass");
  default: return true;
  }
}

/* Parts that run at once have slots for themselves, but for those that none of them stores to.  That two slots are of
 * one buffer, as of spans, is not seen here: validation of the schedule does.  owner: by slot, the number of the part
 * that accessed it last, from 1 on. */
static bool check_abreast(walk *w, uint32_t *owner) {
  const tn__part *p = &w->k->part[w->part];
  for (w->at = 0; w->at < p->n; w->at++) {
    const tn_node *n = p->ins[w->at];
    if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) continue;
    uint32_t *o = &owner[n->src[0]->ints[0]];
    bool other = *o && *o != w->part + 1;
    if (other && w->k->buf_written[n->src[0]->ints[0]]) return complain(w, "a part beside it has the buffer, too");
    *o = w->part + 1;
  }
  return true;
}

/* Stages are of one launch, and all its threads come by wherever those of a part meet. */
static bool check_stages(walk *w, uint32_t first, uint32_t end) {
  int threads = tn__threads_of_launch(w->k, first);
  for (w->part = first; w->part < end; w->part++) {
    const tn__part *p = &w->k->part[w->part];
    if (p->abreast || p->behind != (w->part > first)) return complain(w, "a part that is no stage, among stages");
    if (tn__meets(p) && tn__threads_of_block(p) < threads)
      return complain(w, "threads meet in a stage that not all have");
  }
  return true;
}

static const char *check_launches(tn_ctx *c, const tn__kernel *k) {
  for (uint32_t p = 0, end; p < k->nparts; p = end) {
    end = tn__launch_end(k, p);
    walk stages = {.c = c, .a = &c->scratch, .k = k};
    if (tn__has_stages(k, p) && !check_stages(&stages, p, end)) return stages.why;
    if (tn__has_stages(k, p)) continue;
    uint32_t *owner = tn__arena_zalloc(&c->scratch, (k->nbuf + 1) * sizeof *owner);
    for (walk w = {.c = c, .a = &c->scratch, .k = k, .part = p}; w.part < end; w.part++)
      if (!check_abreast(&w, owner)) return w.why;
  }
  return NULL;
}

const char *tn__concurrency_check(tn_ctx *c, const tn__kernel *k) {
  const char *wrong = check_launches(c, k);
  for (uint32_t p = 0; p < k->nparts && !wrong; p++) {
    walk w = {.c = c, .a = &c->scratch, .k = k, .part = p};
    for (; w.at < k->part[p].n; w.at++) {
      if (!check(&w, k->part[p].ins[w.at])) return w.why;
      tn__loops_pass(w.a, &w.open, k->part[p].ins[w.at]);
    }
    wrong = tn__barriers_check(c, k, p);
  }
  return wrong;
}
