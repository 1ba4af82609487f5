/* The table of element types and the promotion lattice. */
#include "ir/dtype.h"
#include <string.h>

const tn__dtype_info tn__dtypes[TN__DTYPE_ALL] = {
#define ROW(name, text, size, cls, sign, mant) [TN_##name] = {text, size, TN__C_##cls, sign, mant},
    TN__DTYPE_MAP(ROW)
#undef ROW
    [TN__INDEX] = {"index", 8, TN__C_INT, true, 0},
    [TN__VOID] = {"void", 0, 0, false, 0},
};

const char *tn_dtype_name(tn_dtype dtype) { return (unsigned)dtype < TN_DTYPE_COUNT ? tn__dtypes[dtype].name : "?"; }

size_t tn_dtype_size(tn_dtype dtype) { return (unsigned)dtype < TN_DTYPE_COUNT ? tn__dtypes[dtype].size : 0; }

int tn__dtype_parse(const char *s, size_t n) {
  for (int dt = 0; dt < TN__DTYPE_ALL; dt++)
    if (strlen(tn__dtypes[dt].name) == n && !memcmp(tn__dtypes[dt].name, s, n)) return dt;
  return -1;
}

/* Does every value of dtype `a` have a place in dtype `b` of the same class? */
static bool fits(int a, int b) {
  const tn__dtype_info *x = &tn__dtypes[a], *y = &tn__dtypes[b];
  if (x->cls != y->cls || x->cls == 0) return false;
  if (a == b) return true;
  if (a == TN__INDEX || b == TN__INDEX) return false;
  if (x->cls == TN__C_FLOAT || x->is_signed == y->is_signed) return x->size < y->size;
  return !x->is_signed && x->size < y->size;
}

/* The smallest dtype above both; f16 and bf16 meet in f32. */
int tn__dtype_promote(int a, int b) {
  int best = -1;
  for (int dt = 0; dt < TN__VOID; dt++)
    if (fits(a, dt) && fits(b, dt) && (best < 0 || tn__size_of(dt) < tn__size_of(best))) best = dt;
  return best;
}

int tn__dtype_acc(int dt) { return dt == TN_F16 || dt == TN_BF16 ? TN_F32 : dt; }
