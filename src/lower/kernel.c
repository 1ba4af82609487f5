/* What printers and checkers ask of a linear program. */
#include "lower/kernel.h"

enum { MOST = 64 }; /* nodes looked at before the answer is no */

/* a choice: no is right */
static bool is_multiple(const tn_node *n, int64_t of) {
  const tn_node *todo[MOST];
  int64_t k;
  todo[0] = n;
  for (uint32_t at = 0, count = 1; at < count; at++) {
    const tn_node *x = todo[at];
    if (tn__const_int(x, &k)) {
      if (k % of) return false;
      continue;
    }
    if (x->op == OP_MUL &&
        ((tn__const_int(x->src[0], &k) && k % of == 0) || (tn__const_int(x->src[1], &k) && k % of == 0)))
      continue;
    if ((x->op != OP_ADD && x->op != OP_NEG) || count + x->nsrc > MOST) return false;
    for (uint32_t s = 0; s < x->nsrc; s++) todo[count++] = x->src[s];
  }
  return true;
}

static bool depends(const tn_node *n, const tn_node *r) {
  const tn_node *todo[MOST]; /* each once, whoever has it as an operand */
  todo[0] = n;
  for (uint32_t at = 0, count = 1; at < count; at++) {
    if (todo[at] == r || count + todo[at]->nsrc > MOST) return true;
    for (uint32_t s = 0; s < todo[at]->nsrc; s++) {
      uint32_t seen = 0;
      while (seen < count && todo[seen] != todo[at]->src[s]) seen++;
      if (seen == count) todo[count++] = todo[at]->src[s];
    }
  }
  return false;
}

static bool counts_from(const tn_node *x, const tn_node *r) {
  if (x == r) return true;
  return x->op == OP_ADD && (x->src[0] == r) != (x->src[1] == r) && !depends(x->src[x->src[0] == r], r);
}

/* a choice: no is right */
bool tn__ends_within(const tn_node *gate, const tn_node *r) {
  return gate->op == OP_LT && counts_from(gate->src[0], r) && !depends(gate->src[1], r);
}

/* a choice: no is right */
bool tn__is_packed(const tn_node *access, const tn_node *r) {
  const tn_node *index = access->src[1];
  const tn_node *gate = tn__gate_of(access);
  int64_t extent;
  if (!tn__const_int(r->src[0], &extent) || extent < 1) return false;
  if (gate && depends(gate, r) && !tn__ends_within(gate, r)) return false;
  if (index == r) return true;
  if (index->op != OP_ADD || (index->src[0] == r) == (index->src[1] == r)) return false;
  return is_multiple(index->src[index->src[0] == r], extent);
}

int64_t tn__wide_bytes(const tn_node *access, const tn_node *r) {
  int64_t extent;
  if (!tn__const_int(r->src[0], &extent) || extent < 1 || extent > TN__WIDE * TN__MOST_PIECES) return 0;
  int64_t bytes = extent * (int64_t)tn__size_of(access->src[0]->dtype);
  return bytes & (bytes - 1) || bytes > TN__WIDE * TN__MOST_PIECES ? 0 : bytes;
}

int64_t tn__stepped_share(const tn__part *p, const tn_node *local, const tn_node *lanes) {
  int64_t size, threads;
  if (p->subgroup < 1 || !tn__const_int(lanes->src[0], &threads) || threads < 1 || threads % p->subgroup) return 0;
  threads /= p->subgroup;
  if (!tn__const_int(local->src[0], &size) || size % threads) return 0;
  size /= threads;
  return size & (size - 1) ? 0 : size;
}

/* Is it lanes / by * share? */
/* a choice: no is right */
static bool is_start_of(const tn_node *x, const tn_node *lanes, int64_t by, int64_t share) {
  const tn_node *which = x->op == OP_MUL && tn__is_int_const(x->src[1], share) ? x->src[0] : NULL;
  return which && which->op == OP_IDIV && which->src[0] == lanes && tn__is_int_const(which->src[1], by);
}

/* a choice: no is right */
bool tn__is_in_step(const tn__part *p, const tn_node *access, const tn_node *lanes) {
  const tn_node *at = access->src[1];
  if (!tn__is_stepped(access->src[0]) || access->op == OP_STORE || !lanes || lanes->ints[RANGE_AXIS] != AX_UPCAST)
    return false;
  int64_t share = tn__stepped_share(p, access->src[0], lanes);
  for (int s = 0; s < 2 && at->op == OP_ADD; s++)
    if (is_start_of(at->src[s], lanes, p->subgroup, share)) return at->src[!s]->lo >= 0 && at->src[!s]->hi < share;
  return lanes->hi < p->subgroup && at->lo >= 0 && at->hi < share;
}

bool tn__hangs_on(tn__arena *a, tn_node *n, const tn_node *range) {
  tn__nodes all = {0};
  tn__topo(a, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i] == range) return true;
  return false;
}

/* ---- updates in order ---- */

/* What is added up to an index */
static void terms_of(tn__arena *a, tn_node *x, tn__nodes *terms) {
  if (x->op == OP_ADD) {
    terms_of(a, x->src[0], terms);
    terms_of(a, x->src[1], terms);
  } else tn__vec_push(a, terms, x);
}

/* Takes the one of the terms that is `factor * by`: which factor?  NULL: none is, or more are. */
static tn_node *take_multiple(tn__nodes *terms, int64_t by) {
  tn_node *factor = NULL;
  for (uint32_t i = terms->n; i && i--;) {
    tn_node *x = terms->v[i], *of = by == 1 ? x : x->op == OP_MUL && tn__is_int_const(x->src[1], by) ? x->src[0] : NULL;
    if (!of) continue;
    if (factor) return NULL;
    factor = of;
    terms->v[i] = terms->v[--terms->n];
  }
  return factor;
}

static bool are_same(const tn__nodes *x, const tn__nodes *y) {
  bool same = x->n == y->n;
  for (uint32_t i = 0; i < x->n && same; i++) {
    uint32_t j = 0;
    while (j < y->n && y->v[j] != x->v[i]) j++;
    same = j < y->n;
  }
  return same;
}

/* What all of the gate's conditions are, by whether they hang on the lanes' counter */
static void sort_conditions(tn__arena *a, tn_node *gate, const tn_node *lanes, tn__nodes *without, tn__nodes *with) {
  tn__nodes todo = {0};
  tn__vec_push(a, &todo, gate);
  while (todo.n) {
    tn_node *x = todo.v[--todo.n];
    if (x->op == OP_AND) {
      tn__vec_push(a, &todo, x->src[0]);
      tn__vec_push(a, &todo, x->src[1]);
      continue;
    }
    if (tn__hangs_on(a, x, lanes)) tn__vec_push(a, with, x);
    else tn__vec_push(a, without, x);
  }
}

bool tn__stores_itself(const tn_node *store) {
  if (store->op != OP_STORE) return false;
  tn_node *x = store->src[2];
  bool same = x->op == OP_LOAD && x->src[0] == store->src[0] && x->src[1] == store->src[1];
  return same && tn__gate_of(x) == tn__gate_of(store);
}

/* Such a loop, of places or of updates, that ends in this op */
/* a choice: no is right */
static bool take_turns(tn__arena *a, const tn__part *p, uint32_t start, int axis, int op, tn__turns *out) {
  tn_node *turn = p->ins[start];
  int64_t columns;
  *out = (tn__turns){.start = start};
  if (turn->op != OP_RANGE || turn->ints[RANGE_AXIS] != axis || !tn__const_int(turn->src[0], &out->count)) return false;
  if (out->count > TN__MOST_TURNS) return false;
  uint32_t i = start + 1;
  for (; i < p->n && !(p->ins[i]->op == OP_END && p->ins[i]->src[0] == turn); i++) {
    tn_node *n = p->ins[i];
    bool plain = tn__is_elementwise(n) || (n->op == OP_LOAD && n->src[0]->op == OP_PARAM), lane = n->op == OP_RANGE;
    if (out->store ? n->op != OP_END || n->src[0] != out->lanes : !plain && !lane && n->op != op) return false;
    if (lane && (out->lanes || n->ints[RANGE_AXIS] != AX_UPCAST)) return false;
    if (lane) out->lanes = n;
    if (n->op == op) out->store = n;
  }
  out->end = i;
  tn_node *store = out->store, *gate = store ? tn__gate_of(store) : NULL;
  if (!store || !out->lanes || !tn__const_int(out->lanes->src[0], &columns)) return false;
  if (columns < 1 || p->group % columns || columns % p->subgroup) return false;
  int dtype = store->src[0]->dtype;
  if (store->src[0]->op != OP_PARAM || (dtype != TN_F32 && dtype != TN_F64)) return false;
  if (store->src[2]->dtype != dtype) return false;
  for (i = start; i < out->end; i++)
    if (p->ins[i]->op == OP_LOAD && p->ins[i]->src[0] == store->src[0] &&
        (p->ins[i] != store->src[2] || !tn__stores_itself(store)))
      return false;
  if (gate) sort_conditions(a, gate, out->lanes, &out->wanted, &out->inside);
  for (i = 0; i < out->inside.n; i++)
    if (tn__hangs_on(a, out->inside.v[i], turn)) return false;
  return true;
}

/* Both store to places that are a number of elements apart, as many as the first loop has turns, and are alike else. */
/* a choice: no is right */
static bool are_even(tn__arena *a, const tn__part *p, const tn__owned *o) {
  const tn_node *turn = p->ins[o->begin.start];
  tn__nodes begin = {0}, add = {0};
  int64_t step = 0;
  terms_of(a, o->begin.store->src[1], &begin);
  terms_of(a, o->add.store->src[1], &add);
  for (uint32_t i = 0; i < begin.n; i++) {
    const tn_node *x = begin.v[i];
    if (x == turn) step = 1;
    else if (x->op == OP_MUL && x->src[0] == turn && tn__const_int(x->src[1], &step)) continue;
    else if (tn__hangs_on(a, begin.v[i], turn)) return false;
  }
  if (step < 1 || take_multiple(&begin, step) != turn) return false;
  const tn_node *place = take_multiple(&add, step); /* NULL: the first of each class, whatever the update */
  return (!place || (place->lo >= 0 && place->hi < o->begin.count)) && are_same(&begin, &add);
}

/* a choice: no is right */
bool tn__owns_places(tn__arena *a, const tn__part *p, uint32_t start, tn__owned *out) {
  if (!p->owns || p->group < 1 || p->group % p->subgroup || p->across || p->together > 1) return false;
  if (!take_turns(a, p, start, AX_LOOP, OP_STORE, &out->begin)) return false;
  uint32_t next = out->begin.end + 1;
  while (next < p->n && tn__is_elementwise(p->ins[next])) next++;
  if (next >= p->n || !take_turns(a, p, next, AX_ORDER, OP_STOREADD, &out->add)) return false;
  const tn_node *x = out->begin.store, *y = out->add.store;
  if (x->src[0] != y->src[0] || tn__combines_by(y) != OP_ADD) return false;
  if (out->begin.lanes != out->add.lanes || !are_same(&out->begin.inside, &out->add.inside)) return false;
  out->begun = tn__stores_itself(x);
  return out->begin.count > 1 && are_even(a, p, out);
}

void tn__loops_pass(tn__arena *a, tn__nodes *open, tn_node *instruction) {
  if (instruction->op == OP_RANGE) tn__vec_push(a, open, instruction);
  if (instruction->op == OP_END && open->n) open->n--;
}
