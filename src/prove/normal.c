/* What the constructors of index arithmetic do (ir/index.c) as claims: theorems of Normal.v.  That the constructors do
 * this, test_index_exhaustive_slow compares. */
#include "prove/prove.h"

void tn__export_normal(tn__proofs *p) {
  static const char *const steps[][2] = {
      {"normal.add", "add_value"},       {"normal.write", "write_value"}, {"normal.scale", "scale_value"},
      {"normal.factor", "factor_value"}, {"normal.mul", "mul_value"},     {"normal.quotient", "quotient_value"},
      {"normal.min_max", "min_value"},
  };
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    tn__prove_theorem(p, steps[i][0], "Z", TK_PROVED, "Normal", steps[i][1]);
}
