#include "device/target.h"

bool tn__target_multiplies(const tn__target *t, int dtype) {
  for (uint32_t i = 0; i < t->ntiles; i++)
    if (t->tiles[i].dtype == dtype) return true;
  return false;
}

static double covered(int64_t size, int64_t by) { return (double)((size + by - 1) / by * by); }

static bool fits(const tn__tile_form *f, int dtype, int64_t m, int64_t n, int64_t k) {
  double cells = (double)m * (double)n;
  if (f->even) return k % f->steps == 0 && m % f->rows == 0 && n % f->cols == 0;
  return dtype == TN_F32 && f->dtype == TN_F32 && !f->tf32 && f->dear <= 1 && k >= TN__TILE_STEPS &&
         cells >= TN__TILE_CELLS && covered(m, f->rows) * covered(n, f->cols) <= TN__TILE_WASTE * cells;
}

bool tn__target_fits(const tn__target *t, int dtype, int64_t m, int64_t n, int64_t k) {
  for (uint32_t i = 0; i < t->ntiles; i++)
    if (fits(&t->tiles[i], dtype, m, n, k) || fits(&t->tiles[i], dtype, n, m, k)) return true;
  return false;
}
