/* Dtypes of a row's terms: what must have the same dtype is joined, each class admits what its ops and conditions
 * admit, and the assignments are counted through. */
#include "prove/prove.h"
#include "ir/shape.h"
#include <stdio.h>
#include <string.h>

enum { ALL = (1 << (TN__INDEX + 1)) - 1, ONLY_BOOL = 1 << TN_BOOL, ONLY_INDEX = 1 << TN__INDEX };

static uint32_t of_class(uint32_t cls) {
  uint32_t m = 0;
  if (cls == TN__ONLY_INDEX) return ONLY_INDEX;
  for (int d = 0; d <= TN__INDEX; d++)
    if (tn__dtypes[d].cls & cls) m |= 1u << d;
  return m;
}

static uint8_t root(const tn__typing *t, uint8_t i) {
  while (t->up[i] != i) i = t->up[i];
  return i;
}

static uint8_t fresh(tn__typing *t, uint32_t admits) {
  uint8_t i = (uint8_t)t->classes++;
  t->up[i] = i;
  t->admits[i] = admits;
  return i;
}

static void join(tn__typing *t, uint8_t a, uint8_t b) {
  a = root(t, a), b = root(t, b);
  if (a == b) return;
  t->up[b] = a;
  t->admits[a] &= t->admits[b];
}

static void admit(tn__typing *t, uint8_t i, uint32_t mask) { t->admits[root(t, i)] &= mask; }

static bool visit(tn__typing *t, const tn__rule *r, const tn__term *x, uint8_t cls);

static bool visit_new(tn__typing *t, const tn__rule *r, const tn__term *x, uint32_t mask, uint8_t *cls) {
  *cls = fresh(t, mask);
  return visit(t, r, x, *cls);
}

static bool visit_op(tn__typing *t, const tn__rule *r, const tn__term *x, uint8_t cls) {
  const tn__op_info *op = &tn__ops[x->what];
  uint8_t below;
  switch (op->dtype_rule) {
  case DT_FLOAT: admit(t, cls, of_class(TN__C_FLOAT)); break;
  case DT_INT: admit(t, cls, of_class(TN__C_INT)); break;
  case DT_LOGIC: admit(t, cls, of_class(TN__C_INT | TN__C_BOOL)); break;
  case DT_BOOL:
    admit(t, cls, ONLY_BOOL);
    below = fresh(t, ALL);
    return visit(t, r, x->kid[0], below) && visit(t, r, x->kid[1], below);
  case DT_WHERE:
    return visit_new(t, r, x->kid[0], ONLY_BOOL, &below) && visit(t, r, x->kid[1], cls) && visit(t, r, x->kid[2], cls);
  case DT_GIVEN:
  case DT_BITCAST: return op->group == G_CAST && visit_new(t, r, x->kid[0], ALL, &below);
  case DT_SAME: break;
  default: return false;
  }
  for (uint32_t i = 0; i < x->nkid; i++)
    if (!visit(t, r, x->kid[i], cls)) return false;
  return true;
}

/* Types the term as of class cls. */
static bool visit(tn__typing *t, const tn__rule *r, const tn__term *x, uint8_t cls) {
  if (t->n == TN__MAX_TYPED || t->classes + 4 >= TN__MAX_TYPED) return false;
  t->term[t->n] = x;
  t->of[t->n++] = cls;
  switch (x->form) {
  case TF_VAR:
    if (r->is_arg[x->slot]) return false;
    if (t->slot[x->slot] == 255)
      t->slot[x->slot] = cls, admit(t, cls, r->cls[x->slot] ? of_class(r->cls[x->slot]) : ALL);
    join(t, t->slot[x->slot], cls);
    return true;
  case TF_NUM: return true;
  case TF_OP: return tn__ops[x->what].group <= G_CAST && visit_op(t, r, x, cls);
  case TF_AS: return visit(t, r, x->kid[0], cls) && visit(t, r, x->kid[1], cls);
  case TF_FN: admit(t, cls, ~(uint32_t)of_class(TN__C_FLOAT)); return true;
  case TF_SPLIT:
  case TF_SPLIT_ALL:
  case TF_PARTS:
  case TF_PICK:
    admit(t, cls, ONLY_INDEX);
    for (uint32_t i = 0; i < x->nkid; i++)
      if (!visit(t, r, x->kid[i], cls)) return false;
    return true;
  default: return false;
  }
}

static void admit_index(tn__typing *t, const tn__term *x) {
  if (x->form == TF_VAR && t->slot[x->slot] != 255) admit(t, t->slot[x->slot], ONLY_INDEX);
  for (uint32_t i = 0; i < x->nkid; i++) admit_index(t, x->kid[i]);
}

bool tn__typing_infer(const tn__rule *r, tn__typing *t) {
  t->n = t->classes = 0;
  memset(t->slot, 255, sizeof t->slot);
  uint8_t top = fresh(t, r->mode == TN_MODE_FAST ? of_class(TN__C_FLOAT) : ALL); /* as the matcher has it */
  if (!visit(t, r, r->lhs, top) || !visit(t, r, r->rhs, top)) return false;
  for (uint32_t i = 0; i < r->ncond; i++)
    for (int k = 0; k < tn__cond_args[r->cond[i].kind] && tn__table_about_index(&r->cond[i]); k++)
      admit_index(t, r->cond[i].arg[k]);
  for (uint32_t i = 0; i < t->classes; i++)
    if (t->up[i] == i && !t->admits[i]) return false;
  return true;
}

int tn__typing_of(const tn__typing *t, const tn__term *x) {
  if (x->form == TF_VAR) return t->dtype[root(t, t->slot[x->slot])];
  for (uint32_t i = 0; i < t->n; i++)
    if (t->term[i] == x) return t->dtype[root(t, t->of[i])];
  return TN__INDEX; /* of conditions and hints: integers */
}

static bool allowed(const tn__rule *r, const tn__typing *t) {
  for (uint32_t i = 0; i < t->n; i++) {
    const tn__term *x = t->term[i];
    uint64_t number;
    if (x->form == TF_NUM && !tn__table_bits(x, tn__typing_of(t, x), &number)) return false; /* it matches nothing */
    bool bits = x->form == TF_OP && x->what == OP_BITCAST;
    if (bits && (tn__typing_of(t, x) == TN__INDEX || tn__typing_of(t, x->kid[0]) == TN__INDEX ||
                 tn__size_of(tn__typing_of(t, x)) != tn__size_of(tn__typing_of(t, x->kid[0]))))
      return false;
  }
  for (uint32_t i = 0; i < r->ncond; i++)
    if (r->cond[i].kind == TC_EXACT_CAST &&
        !tn__table_exact_cast(tn__typing_of(t, r->cond[i].arg[0]), tn__typing_of(t, r->cond[i].arg[1])))
      return false;
  return true;
}

/* The least dtype above `after` that class i admits; -1: none. */
static int next_dtype(const tn__typing *t, uint32_t i, int after) {
  for (int d = after + 1; d <= TN__INDEX; d++)
    if (t->admits[i] >> d & 1) return d;
  return -1;
}

bool tn__typing_first(const tn__rule *r, tn__typing *t) {
  for (uint32_t i = 0; i < t->classes; i++)
    if (t->up[i] == i) t->dtype[i] = (uint8_t)next_dtype(t, i, -1);
  return allowed(r, t) || tn__typing_next(r, t);
}

bool tn__typing_next(const tn__rule *r, tn__typing *t) {
  for (uint32_t i = 0; i < t->classes;) {
    if (t->up[i] != i) {
      i++;
      continue;
    }
    int d = next_dtype(t, i, t->dtype[i]);
    t->dtype[i] = (uint8_t)(d < 0 ? next_dtype(t, i, -1) : d);
    if (d < 0) i++;
    else if (allowed(r, t)) return true;
    else i = 0;
  }
  return false;
}

const char *tn__typing_name(const tn__typing *t, tn__arena *a) {
  tn__sb b;
  tn__sb_init(&b, a);
  for (uint32_t i = 0; i < t->classes; i++)
    if (t->up[i] == i && t->admits[i] != ONLY_BOOL)
      tn__sb_printf(&b, "%s%s", b.n ? "," : "", tn__dtypes[t->dtype[i]].name);
  return b.n ? tn__sb_str(&b) : "bool";
}
