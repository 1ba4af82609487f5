/* C with the extensions that gcc and clang share. */
#include "render/dialect.h"
#include "tenet_embed.h"
#include <inttypes.h>
#include <string.h>

static void put_float(tn__sb *out, double v, const char *suffix) {
  const char *sign = __builtin_signbit(v) ? "-" : "";
  if (__builtin_isinf(v)) tn__sb_printf(out, "(%s__builtin_inf%s())", sign, suffix);
  else tn__sb_printf(out, *sign ? "(%a%s)" : "%a%s", v, suffix);
}

static void put_integer(tn__sb *out, int dtype, uint64_t bits) {
  int64_t v = (int64_t)bits;
  if (dtype == TN_U64) tn__sb_printf(out, "%" PRIu64 "ul", bits);
  else if (dtype == TN_U32) tn__sb_printf(out, "%" PRIu64 "u", bits);
  else if (v == INT64_MIN) tn__sb_puts(out, "(-9223372036854775807l - 1)");
  else if (v == INT32_MIN && dtype != TN_I64) tn__sb_puts(out, "(-2147483647 - 1)");
  else tn__sb_printf(out, dtype == TN_I64 || dtype == TN__INDEX ? (v < 0 ? "(%" PRId64 "l)" : "%" PRId64 "l") : (v < 0 ? "(%" PRId64 ")" : "%" PRId64), v);
}

/* Exact: floats in hexadecimal, NaN by its bits. */
static void put_constant(tn__sb *out, int dtype, uint64_t bits) {
  float f;
  double d;
  uint32_t low = (uint32_t)bits;
  memcpy(&f, &low, sizeof f);
  memcpy(&d, &bits, sizeof d);
  switch (dtype) {
  case TN_F16: case TN_BF16: tn__sb_printf(out, "tn_%s_of(0x%" PRIx32 ")", dtype == TN_F16 ? "f16" : "bf16", low); break;
  case TN_F32:
    if (f != f) tn__sb_printf(out, "tn_f32_of(0x%" PRIx32 "u)", low);
    else put_float(out, (double)f, "f");
    break;
  case TN_F64:
    if (d != d) tn__sb_printf(out, "tn_f64_of(0x%" PRIx64 "ul)", bits);
    else put_float(out, d, "");
    break;
  default: put_integer(out, dtype, bits);
  }
}

#define ALL(text) {text, text, text, text, text}
#define INTS(text) [SP_INT] = (text)
#define FLOATS(text) [SP_F32] = (text), [SP_F64] = (text)
#define WRAPS(op) [SP_INT] = "($t)(($u)$0 " op " ($u)$1)" /* signed overflow is undefined in C: by way of unsigned */
#define EXACT(op) [SP_INDEX] = "$0 " op " $1"              /* the interval proof says that index arithmetic does not overflow */

const tn__dialect tn__dialect_c = {
    .name = "c",
    .head = (const char *const[]){tn__embed_math_c_inc, tn__embed_math_inc, tn__embed_kernel_c_inc, NULL},
    .value = {[TN_BOOL] = "_Bool", [TN_I8] = "i8", [TN_I16] = "i16", [TN_I32] = "i32", [TN_I64] = "i64", [TN_U8] = "u8", [TN_U16] = "u16",
              [TN_U32] = "u32", [TN_U64] = "u64", [TN_F16] = "f32", [TN_BF16] = "f32", [TN_F32] = "f32", [TN_F64] = "f64", [TN__INDEX] = "i64"},
    .cell = {[TN_BOOL] = "u8", [TN_I8] = "i8", [TN_I16] = "i16", [TN_I32] = "i32", [TN_I64] = "i64", [TN_U8] = "u8", [TN_U16] = "u16",
             [TN_U32] = "u32", [TN_U64] = "u64", [TN_F16] = "u16", [TN_BF16] = "u16", [TN_F32] = "f32", [TN_F64] = "f64", [TN__INDEX] = "i64"},
    .wrap = {[TN_I8] = "u32", [TN_I16] = "u32", [TN_I32] = "u32", [TN_I64] = "u64", [TN_U8] = "u32", [TN_U16] = "u32", [TN_U32] = "u32", [TN_U64] = "u64"},
    .load = {[TN_BOOL] = "$0 != 0", [TN_F16] = "tn_f16_of($0)", [TN_BF16] = "tn_bf16_of($0)"},
    .store = {[TN_F16] = "tn_f16_bits($0)", [TN_BF16] = "tn_bf16_bits($0)"},
    .round = {[TN_F16] = "tn_f16_round($0)", [TN_BF16] = "tn_bf16_round($0)"},
    .to_bits = {[TN_F16] = "tn_f16_bits($0)", [TN_BF16] = "tn_bf16_bits($0)", [TN_F32] = "tn_f32_bits($0)", [TN_F64] = "tn_f64_bits($0)"},
    .of_bits = {[TN_F16] = "tn_f16_of($0)", [TN_BF16] = "tn_bf16_of($0)", [TN_F32] = "tn_f32_of($0)", [TN_F64] = "tn_f64_of($0)"},
    .op = {
        [OP_NEG] = {INTS("($t)(0 - ($u)$0)"), FLOATS("-$0"), [SP_INDEX] = "-$0"},
        [OP_NOT] = {[SP_BOOL] = "!$0", INTS("($t)~$0")},
        [OP_ADD] = {[SP_BOOL] = "$0 | $1", WRAPS("+"), EXACT("+"), FLOATS("$0 + $1")},
        [OP_MUL] = {[SP_BOOL] = "$0 & $1", WRAPS("*"), EXACT("*"), FLOATS("$0 * $1")},
        [OP_DIV] = {FLOATS("$0 / $1")},
        [OP_AND] = {[SP_BOOL] = "$0 & $1", INTS("($t)($0 & $1)"), EXACT("&")},
        [OP_OR] = {[SP_BOOL] = "$0 | $1", INTS("($t)($0 | $1)"), EXACT("|")},
        [OP_XOR] = {[SP_BOOL] = "$0 ^ $1", INTS("($t)($0 ^ $1)"), EXACT("^")},
        [OP_MIN] = {[SP_BOOL] = "$0 & $1", INTS("$0 < $1 ? $0 : $1"), [SP_INDEX] = "$0 < $1 ? $0 : $1"},
        [OP_MAX] = {[SP_BOOL] = "$0 | $1", INTS("$0 > $1 ? $0 : $1"), [SP_INDEX] = "$0 > $1 ? $0 : $1"},
        [OP_LT] = ALL("$0 < $1"),
        [OP_LE] = ALL("$0 <= $1"),
        [OP_EQ] = ALL("$0 == $1"),
        [OP_NE] = ALL("$0 != $1"),
        [OP_WHERE] = ALL("$0 ? $1 : $2"),
        [OP_PHILOX] = ALL("tn_philox($0, $1, $2)"),
    },
    .idiv_nonneg = "$0 / $1",
    .mod_nonneg = "$0 % $1",
    .function = {"void", "(void *const *buf, const i64 *var, i64 lo, i64 hi, char *scratch)"},
    .extent = {"i64", "(const i64 *var)"},
    .index = "i64",
    .independent = "TN_INDEPENDENT",
    .constant = put_constant,
};
