/* The parts of dialect tables that the C-like languages share. */
#ifndef TN_RENDER_SPELLINGS_H
#define TN_RENDER_SPELLINGS_H
#include "render/dialect.h"

#define SPELL_ALL(text) {text, text, text, text, text}
#define SPELL_INTS(text) [SP_INT] = (text)
#define SPELL_WHOLE(text) [SP_INT] = (text), [SP_INDEX] = (text)
#define SPELL_FLOATS(text) [SP_F32] = (text), [SP_F64] = (text)
#define SPELL_NUMBERS(text) SPELL_WHOLE(text), SPELL_FLOATS(text)
#define SPELL_WRAPS(op)                                                                                                \
  [SP_INT] = "($t)(($u)$0 " op " ($u)$1)" /* signed overflow is undefined in C: by way of unsigned */
#define SPELL_EXACT(op)                                                                                                \
  [SP_INDEX] = "$0 " op " $1" /* the interval proof says that index arithmetic does not overflow */

/* f64: the type's name, or NULL */
#define TN__COMMON_TYPES(boolean, float64)                                                                             \
  .value = {[TN_BOOL] = boolean, [TN_I8] = "i8",   [TN_I16] = "i16",   [TN_I32] = "i32",   [TN_I64] = "i64",           \
            [TN_U8] = "u8",      [TN_U16] = "u16", [TN_U32] = "u32",   [TN_U64] = "u64",   [TN_F16] = "f32",           \
            [TN_BF16] = "f32",   [TN_F32] = "f32", [TN_F64] = float64, [TN__INDEX] = "i64"},                           \
  .cell = {[TN_BOOL] = "u8",  [TN_I8] = "i8",   [TN_I16] = "i16",   [TN_I32] = "i32",   [TN_I64] = "i64",              \
           [TN_U8] = "u8",    [TN_U16] = "u16", [TN_U32] = "u32",   [TN_U64] = "u64",   [TN_F16] = "u16",              \
           [TN_BF16] = "u16", [TN_F32] = "f32", [TN_F64] = float64, [TN__INDEX] = "i64"},                              \
  .wrap = {[TN_I8] = "u32", [TN_I16] = "u32", [TN_I32] = "u32", [TN_I64] = "u64",                                      \
           [TN_U8] = "u32", [TN_U16] = "u32", [TN_U32] = "u32", [TN_U64] = "u64"}

/* neg, eq, ne: of integers; div: of floats; least, most: of two places */
#define TN__COMMON_SPELLINGS                                                                                           \
  TN__COMMON_SPELLINGS_BUT("($t)(0 - ($u)$0)", "$0 / $1", "$0 == $1", "$0 != $1", SPELL_LEAST, SPELL_MOST)
#define SPELL_LEAST "$0 < $1 ? $0 : $1"
#define SPELL_MOST "$0 > $1 ? $0 : $1"
#define SPELL_EQUAL(ints, others) {others, ints, ints, others, others}
#define TN__COMMON_SPELLINGS_BUT(neg, div, eq, ne, least, most)                                                        \
  .load = {[TN_BOOL] = "$0 != 0", [TN_F16] = "tn_f16_of($0)", [TN_BF16] = "tn_bf16_of($0)"},                           \
  .store = {[TN_F16] = "tn_f16_bits($0)", [TN_BF16] = "tn_bf16_bits($0)"},                                             \
  .round = {[TN_F16] = "tn_f16_round($0)", [TN_BF16] = "tn_bf16_round($0)"},                                           \
  .to_bits = {[TN_F16] = "tn_f16_bits($0)", [TN_BF16] = "tn_bf16_bits($0)", [TN_F32] = "tn_f32_bits($0)",              \
      [TN_F64] = "tn_f64_bits($0)"},                                                                                   \
  .of_bits = {[TN_F16] = "tn_f16_of($0)", [TN_BF16] = "tn_bf16_of($0)", [TN_F32] = "tn_f32_of($0)",                    \
      [TN_F64] = "tn_f64_of($0)"},                                                                                     \
  .op = {                                                                                                              \
      [OP_NEG] = {SPELL_INTS(neg), [SP_INDEX] = "-$0", SPELL_FLOATS("-$0")},                                           \
      [OP_NOT] = {[SP_BOOL] = "!$0", SPELL_INTS("($t)~$0")},                                                           \
      [OP_ADD] = {[SP_BOOL] = "$0 | $1", SPELL_WRAPS("+"), SPELL_EXACT("+"), SPELL_FLOATS("$0 + $1")},                 \
      [OP_MUL] = {[SP_BOOL] = "$0 & $1", SPELL_WRAPS("*"), SPELL_EXACT("*"), SPELL_FLOATS("$0 * $1")},                 \
      [OP_DIV] = {SPELL_FLOATS(div)},                                                                                  \
      [OP_AND] = {[SP_BOOL] = "$0 & $1", SPELL_INTS("($t)($0 & $1)"), SPELL_EXACT("&")},                               \
      [OP_OR] = {[SP_BOOL] = "$0 | $1", SPELL_INTS("($t)($0 | $1)"), SPELL_EXACT("|")},                                \
      [OP_XOR] = {[SP_BOOL] = "$0 ^ $1", SPELL_INTS("($t)($0 ^ $1)"), SPELL_EXACT("^")},                               \
      [OP_MIN] = {[SP_BOOL] = "$0 & $1", SPELL_INTS(SPELL_LEAST), [SP_INDEX] = (least)},                               \
      [OP_MAX] = {[SP_BOOL] = "$0 | $1", SPELL_INTS(SPELL_MOST), [SP_INDEX] = (most)},                                 \
      [OP_LT] = SPELL_ALL("$0 < $1"),                                                                                  \
      [OP_LE] = SPELL_ALL("$0 <= $1"),                                                                                 \
      [OP_EQ] = SPELL_EQUAL(eq, "$0 == $1"),                                                                           \
      [OP_NE] = SPELL_EQUAL(ne, "$0 != $1"),                                                                           \
      [OP_WHERE] = SPELL_ALL("$0 ? $1 : $2"),                                                                          \
      [OP_PHILOX] = SPELL_ALL("tn_philox_u64($0, $1, $2)"),                                                            \
  },                                                                                                                   \
  .idiv_nonneg = "$0 / $1", .mod_nonneg = "$0 % $1"
#endif
