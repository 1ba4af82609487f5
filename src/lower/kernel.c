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

void tn__loops_pass(tn__arena *a, tn__nodes *open, tn_node *instruction) {
  if (instruction->op == OP_RANGE) tn__vec_push(a, open, instruction);
  if (instruction->op == OP_END && open->n) open->n--;
}
