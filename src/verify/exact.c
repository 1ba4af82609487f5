#include "verify/exact.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

/* ---- tokens ---- */

enum { PLAIN, IS_BF16, IS_F16, TAGS }; /* a token's last two bits: what it has been rounded to */
#define TAG 3u

static int tag_of_dtype(int dtype) { return dtype == TN_BF16 ? IS_BF16 : dtype == TN_F16 ? IS_F16 : PLAIN; }

static int wide_of(int dtype) { return dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype; }

static tn__exact token(uint64_t hash, int tag, bool near) {
  return (tn__exact){.v = (hash & ~(uint64_t)TAG) | (uint64_t)tag, .kind = TN__EXACT_FLOAT, .near = near};
}

static tn__exact none(void) { return (tn__exact){.kind = TN__EXACT_NONE}; }

tn__exact tn__exact_int(uint64_t v) { return (tn__exact){.v = v, .kind = TN__EXACT_INT}; }

tn__exact tn__exact_const(int dtype, uint64_t bits) {
  if (wide_of(dtype) != dtype) bits = tn__eval_cast(dtype, TN_F32, bits);
  return (tn__exact){.v = bits, .kind = TN__EXACT_CONST};
}

/* As an argument of a function. */
static uint64_t key_of(int dtype, tn__exact x) {
  if (x.kind != TN__EXACT_CONST) return x.v;
  return tn__hash_mix(tn__hash_mix(0xc0457, (uint64_t)wide_of(dtype)), x.v);
}

/* x + y is y + x to the last bit, and so on: threads that fold values in pairs come to one value that way. */
static bool commutes(int op) {
  return op == OP_ADD || op == OP_MUL || op == OP_MIN || op == OP_MAX || op == OP_FMA;
}

static uint64_t hash_of(int op, int dtype, int sdtype, const tn__exact *x, uint32_t n) {
  uint64_t h = tn__hash_mix((uint64_t)op, (uint64_t)dtype), key[3] = {0};
  for (uint32_t i = 0; i < n; i++) key[i] = key_of(sdtype, x[i]);
  if (commutes(op) && key[0] > key[1]) {
    uint64_t first = key[0];
    key[0] = key[1], key[1] = first;
  }
  for (uint32_t i = 0; i < n; i++) h = tn__hash_mix(h, key[i]);
  return h;
}

/* Is it one of the dtype's values, so that rounding leaves it? */
static bool is_of(int dtype, tn__exact x) {
  if (x.kind == TN__EXACT_FLOAT) return (int)(x.v & TAG) == tag_of_dtype(dtype);
  return tn__eval_cast(dtype, TN_F32, tn__eval_cast(TN_F32, dtype, x.v)) == x.v;
}

/* ---- what is drawn ---- */

/* Integers that meet the ends of ranges, and any. */
static uint64_t draw(int dtype, uint64_t h) {
  static const int8_t few[] = {0, 1, 2, 3, 5, 7, -1, -2};
  uint64_t way = h >> 56 & 7, any = h << 8 | h >> 32, v;
  if (dtype == TN_BOOL) return h >> 20 & 1;
  if (way < 3) v = (uint64_t)few[h >> 20 & 7];
  else if (way < 6) v = h >> 20 & 63;
  else v = any;
  return tn__eval_cast(TN_I64, dtype, v);
}

/* The least, or the greatest, of an integer dtype. */
static uint64_t extreme(int dtype, bool least) {
  uint64_t all = UINT64_MAX >> (64 - 8 * tn__size_of(dtype)), sign = (all >> 1) + 1;
  if (dtype == TN_U8 || dtype == TN_U16 || dtype == TN_U32 || dtype == TN_U64) return least ? 0 : all;
  return tn__eval_cast(TN_I64, dtype, least ? sign : sign - 1);
}

tn__exact tn__exact_input(uint64_t seed, int dtype, uint64_t slot, int64_t element, const int64_t *of, uint32_t n) {
  uint64_t h = tn__hash_mix(tn__hash_mix(seed, slot), (uint64_t)element), whole = tn__hash_mix(seed, slot) % 4;
  if (tn__is_int(dtype) && seed % 2 == 0 && whole < 2) return tn__exact_int(extreme(dtype, whole));
  if (tn__is_int(dtype) && n && (h & 1)) {
    uint64_t v = (uint64_t)of[(h >> 8) % n] + (h >> 40) % 3 - 1; /* it may wrap */
    return tn__exact_int(tn__eval_cast(TN_I64, dtype, v));
  }
  if (!tn__is_float(dtype)) return tn__exact_int(draw(dtype, h));
  return token(h, tag_of_dtype(dtype), false);
}

/* ---- functions ---- */

tn__exact tn__exact_round(int dtype, tn__exact x) {
  if (x.kind == TN__EXACT_NONE) return x;
  if (x.kind == TN__EXACT_CONST) return tn__exact_const(dtype, tn__eval_cast(TN_F32, dtype, x.v));
  x.near = false;
  return is_of(dtype, x) ? x : token(tn__hash_mix(x.v, 0x20bd), tag_of_dtype(dtype), false);
}

static uint64_t mask_of(int dtype) { return UINT64_MAX >> (64 - 8 * tn__size_of(dtype)); }

tn__exact tn__exact_bits(int dtype, tn__exact x) {
  if (x.kind == TN__EXACT_NONE) return x;
  if (wide_of(dtype) != dtype) x = tn__exact_round(dtype, x);
  if (x.kind == TN__EXACT_CONST) return tn__exact_int(tn__eval_cast(wide_of(dtype), dtype, x.v) & mask_of(dtype));
  return (tn__exact){.v = tn__hash_mix(x.v, 0xb175) & mask_of(dtype), .of = x.v, .kind = TN__EXACT_INT, .near = x.near};
}

tn__exact tn__exact_of_bits(int dtype, tn__exact x) {
  if (x.kind == TN__EXACT_NONE) return x;
  if (x.of && (int)(x.of & TAG) == tag_of_dtype(dtype)) return token(x.of, (int)(x.of & TAG), x.near);
  return tn__exact_const(dtype, x.v & mask_of(dtype));
}

static tn__exact compare(int op, int sdtype, const tn__exact *x) {
  uint64_t key[2] = {key_of(sdtype, x[0]), key_of(sdtype, x[1])}, arg[2] = {x[0].v, x[1].v};
  int wide = wide_of(sdtype);
  bool known = x[0].kind == TN__EXACT_CONST && x[1].kind == TN__EXACT_CONST, same = key[0] == key[1];
  if (known) return tn__exact_int(tn__eval(op, TN_BOOL, wide, arg));
  if (op == OP_EQ || op == OP_NE) { /* either way round; the other one is not that */
    bool coin = (tn__hash_mix(tn__hash_mix(key[0] ^ key[1], key[0] + key[1]), 0xe9) & 3) == 0;
    return tn__exact_int((same || coin) == (op == OP_EQ));
  }
  return tn__exact_int(tn__hash_mix(tn__hash_mix((uint64_t)op, key[0]), key[1]) >> 7 & 1);
}

static tn__exact bitcast(int dtype, int sdtype, tn__exact x) {
  if (tn__is_float(sdtype)) x = tn__exact_bits(sdtype, x);
  if (tn__is_float(dtype)) return tn__exact_of_bits(dtype, x);
  static const uint8_t raw[] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64};
  x.v = tn__eval_cast(raw[tn__size_of(dtype)], dtype, x.v & mask_of(dtype));
  return x;
}

static tn__exact cast(int dtype, int sdtype, tn__exact x) {
  int from = wide_of(sdtype), to = wide_of(dtype);
  if (!tn__is_float(sdtype)) {
    uint64_t bits = tn__eval_cast(sdtype, dtype, x.v);
    return tn__is_float(dtype) ? tn__exact_const(dtype, bits) : tn__exact_int(bits);
  }
  if (dtype == TN_BOOL) return compare(OP_NE, sdtype, (tn__exact[]){x, tn__exact_const(from, 0)});
  if (x.kind == TN__EXACT_CONST) {
    uint64_t bits = tn__eval_cast(from, dtype, x.v);
    return tn__is_float(dtype) ? tn__exact_const(dtype, bits) : tn__exact_int(bits);
  }
  if (!tn__is_float(dtype)) return tn__exact_int(draw(dtype, tn__hash_mix(x.v, (uint64_t)(0xca57 + dtype))));
  if (from == to) return dtype == to ? x : tn__exact_round(dtype, x);
  if (from == TN_F32) return token(tn__hash_mix(x.v, 0xca5764), PLAIN, x.near);
  return token(tn__hash_mix(x.v, (uint64_t)(0xca5700 + dtype)), tag_of_dtype(dtype), x.near);
}

static tn__exact float_function(int op, int dtype, const tn__exact *x, uint32_t n) {
  int wide = wide_of(dtype), tag = PLAIN;
  bool near = false, stays_short = tn__ops[op].rounding == RN_EXACT, known = stays_short;
  uint64_t arg[3] = {0};
  for (uint32_t i = 0; i < n; i++) {
    near |= x[i].near;
    known &= x[i].kind == TN__EXACT_CONST;
    arg[i] = x[i].v;
  }
  if (known) return tn__exact_const(wide, tn__eval(op, wide, wide, arg)); /* it may be an f16 and a bf16 */
  if (op == OP_FMA && wide != dtype) return token(hash_of(op, dtype, TN_F32, x, n), tag_of_dtype(dtype), near);
  for (int t = 1; t < TAGS && wide == TN_F32 && stays_short; t++) {
    bool all = true;
    for (uint32_t i = 0; i < n; i++) all &= is_of(t == IS_BF16 ? TN_BF16 : TN_F16, x[i]);
    if (all) tag = t;
  }
  tn__exact y = token(hash_of(op, wide, wide, x, n), tag, near);
  return wide == dtype || stays_short ? y : tn__exact_round(dtype, y);
}

tn__exact tn__exact_eval(int op, int dtype, int sdtype, const tn__exact *x) {
  uint32_t n = tn__ops[op].max_src;
  uint64_t arg[3] = {0};
  if (op == OP_WHERE) return x[0].kind == TN__EXACT_NONE ? x[0] : x[x[0].v ? 1 : 2];
  for (uint32_t i = 0; i < n; i++) {
    if (x[i].kind == TN__EXACT_NONE) return none();
    arg[i] = x[i].v;
  }
  if (op == OP_CAST) return cast(dtype, sdtype, x[0]);
  if (op == OP_BITCAST) return bitcast(dtype, sdtype, x[0]);
  if (!tn__is_float(sdtype)) return tn__exact_int(tn__eval(op, dtype, sdtype, arg));
  if (dtype == TN_BOOL) return compare(op, sdtype, x);
  return float_function(op, dtype, x, n);
}

tn__exact tn__exact_as_near(int op, tn__exact x) {
  (void)op;
  x.near = true;
  return x;
}

bool tn__exact_same(tn__exact x, tn__exact y) {
  if (x.kind == TN__EXACT_NONE || y.kind == TN__EXACT_NONE) return x.kind == y.kind;
  return x.kind == y.kind && x.v == y.v;
}
