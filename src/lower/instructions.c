/* How many instructions a thread of a GPU issues for one of a linear program.  What ops.def says counts the arithmetic
 * of a processor's vectors; a GPU's scalar text also chooses between ranges, scales and rounds by instructions of its
 * own.  Read in SASS of CUDA 13 for sm_90, along the way that ordinary arguments take: what is f32, and what may be a
 * shorter function (near.c; ir/near_cuda.inc). */
#include "ir/eval.h"
#include "lower/lower.h"
#include <math.h>
#include <stdlib.h>

enum {
  MUCH_TEXT = 8192, /* instructions, of 16 bytes each: as many as a unit keeps near */
  ROOT_APART = 32   /* exponents: from 1; a root's is at most 75 */
};

typedef struct text {
  unsigned char exact, near; /* 0: as ops.def says; as it is exactly */
} text;

static const text of_op[OP_COUNT] = {
    [OP_DIV] = {14, 11},   [OP_SQRT] = {13, 4},   [OP_CBRT] = {29, 0},   [OP_HYPOT] = {30, 0},  [OP_POW] = {100, 0},
    [OP_EXP] = {20, 5},    [OP_EXP2] = {17, 4},   [OP_EXPM1] = {19, 17}, [OP_LOG] = {32, 14},   [OP_LOG2] = {30, 14},
    [OP_LOG10] = {31, 15}, [OP_LOG1P] = {36, 14}, [OP_SIN] = {44, 30},   [OP_COS] = {42, 28},   [OP_TAN] = {55, 0},
    [OP_ASIN] = {28, 0},   [OP_ACOS] = {32, 0},   [OP_ATAN] = {32, 26},  [OP_ATAN2] = {42, 36}, [OP_SINH] = {48, 19},
    [OP_COSH] = {35, 12},  [OP_TANH] = {29, 14},  [OP_ASINH] = {52, 32}, [OP_ACOSH] = {60, 38}, [OP_ATANH] = {60, 26},
    [OP_ERF] = {21, 18},   [OP_ERFC] = {75, 0},
};

/* By what all threads have, as a row's sum: its reciprocal is at hand (render/groups.c). */
static const text prepared = {9, 2};
static const text over_root = {7, 2}; /* native_cuda.inc */

/* Integers have words of 32 bits.  A test of equality is an exclusive or and a comparison for each (integers_cuda.inc);
 * what a conversion leaves of a number stands in its register. */
/* a choice: any is right */
static double of_integers(const tn_node *n) {
  int from = n->nsrc ? n->src[0]->dtype : TN_BOOL;
  bool whole = n->nsrc && tn__is_int(from) && from != TN_BOOL;
  double words = whole && from != TN__INDEX && tn__size_of(from) > sizeof(int32_t) ? 2 : 1;
  if (whole && (n->op == OP_EQ || n->op == OP_NE)) return 2 * words;
  bool keeps = n->op == OP_CAST && whole && tn__is_int(n->dtype) && n->dtype != TN_BOOL;
  return keeps && tn__size_of(n->dtype) >= sizeof(int32_t) ? 0 : tn__ops[n->op].cost;
}

/* Is it by a power of two, which is a product (native_cuda.inc)? */
/* a choice: either is right */
static bool is_scaled(const tn_node *n) {
  const tn_node *by = n->op == OP_DIV && n->dtype == TN_F32 ? n->src[1] : n;
  return by->op == OP_CONST && by->ints[0] && !(by->ints[0] & 0x7fffff);
}

bool tn__is_over_root(const tn_node *n) {
  if (n->op != OP_DIV || n->dtype != TN_F32 || n->src[0]->op != OP_CONST || n->src[1]->op != OP_SQRT) return false;
  float x = fabsf((float)tn__eval_to_double(TN_F32, (uint64_t)n->src[0]->ints[0]));
  int exponent;
  return frexpf(x, &exponent) == 0.5f && abs(exponent) <= ROOT_APART;
}

/* a choice: either is right */
double tn__instructions(const tn_node *n, bool near) {
  const text *t = &of_op[n->op];
  if (!t->exact || !tn__is_float(n->dtype)) return of_integers(n);
  if (is_scaled(n)) return 1;
  if (n->op == OP_DIV && (n->src[1]->op == OP_GETACC || n->src[1]->op == OP_CONST)) t = &prepared;
  if (tn__is_over_root(n)) t = &over_root;
  return near && t->near ? t->near : t->exact;
}

/* Quotients that are rounded once have a long way for what is near the ends of the exponents. */
/* a choice: either is right */
bool tn__branches(const tn_node *n, bool near) {
  return n->op == OP_DIV && n->dtype == TN_F32 && !near && !is_scaled(n) && !tn__is_over_root(n);
}

/* a choice: either is right */
bool tn__is_much_text(const tn__ranges *r, uint64_t loops, double turns) {
  double each = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (n->dtype != TN__INDEX && (tn__free_of(r, n) & loops)) each += tn__instructions(n, false);
  }
  return each * turns > MUCH_TEXT;
}
