/* What words mean in printed kernels: by the languages' definitions, by the ops' names, and by the helpers' own text
 * (ir/math.inc, render/kernel.inc); not by the printer's tables. */
#include "verify/c_text.h"
#include "ir/shape.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(const char *word, const char *s, size_t n) { return strlen(word) == n && !memcmp(word, s, n); }

/* <dtype>x<lanes>, boolx<lanes> */
static bool is_vector(const char *s, size_t n, tn__c_type *out) {
  size_t k = n;
  while (k && isdigit((unsigned char)s[k - 1])) k--;
  if (k == n || k < 3 || s[k - 1] != 'x') return false;
  int dtype = tn__dtype_parse(s, k - 1);
  long lanes = strtol(s + k, NULL, 10);
  if (dtype < 0 || lanes < 1 || lanes > 64) return false;
  if (dtype == TN_BOOL) dtype = TN_I8;
  *out = (tn__c_type){.dtype = (uint8_t)dtype, .bytes = (uint8_t)tn__size_of(dtype), .lanes = (uint8_t)lanes};
  return true;
}

bool tn__c_word_is_type(const char *s, size_t n, tn__c_type *out) {
  static const struct {
    const char *name;
    uint8_t dtype, bytes;
  } types[] = {
      {"void", TN__VOID, 0},  {"_Bool", TN_BOOL, 1}, {"bool", TN_BOOL, 1}, {"char", TN_I8, 1},   {"int", TN_I32, 4},
      {"long", TN_I64, 8},    {"uchar", TN_U8, 1},   {"ushort", TN_U16, 2}, {"uint", TN_U32, 4}, {"ulong", TN_U64, 8},
      {"i8", TN_I8, 1},       {"i16", TN_I16, 2},    {"i32", TN_I32, 4},   {"i64", TN_I64, 8},   {"u8", TN_U8, 1},
      {"u16", TN_U16, 2},     {"u32", TN_U32, 4},    {"u64", TN_U64, 8},   {"f32", TN_F32, 4},   {"f64", TN_F64, 8},
      {"uint2", TN__VOID, 8}, {"uint4", TN__VOID, 16}, {"tn_divisor", TN_F32, 4},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (is_word(types[i].name, s, n)) {
      *out = (tn__c_type){.dtype = types[i].dtype, .bytes = types[i].bytes};
      return true;
    }
  return is_vector(s, n, out);
}

bool tn__c_word_is_qualifier(const char *s, size_t n) {
  static const char *const words[] = {"const",    "restrict", "__restrict__", "volatile",   "static",     "inline",
                                      "extern",   "__global", "__local",      "__shared__", "__global__", "__kernel",
                                      "__private"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is_word(words[i], s, n)) return true;
  return false;
}

/* ---- helpers ---- */

/* Those that are not named as an op is; the arguments' dtype, the result's. */
static const struct {
  const char *name;
  uint8_t code, op, dtype, sdtype, narg, result;
  bool near;
} others[] = {
    {"tn_f32_bits", TN__C_BITS, 0, TN_F32, TN_F32, 1, TN_U32, 0},
    {"tn_f64_bits", TN__C_BITS, 0, TN_F64, TN_F64, 1, TN_U64, 0},
    {"tn_f16_bits", TN__C_BITS, 0, TN_F16, TN_F32, 1, TN_U32, 0},
    {"tn_bf16_bits", TN__C_BITS, 0, TN_BF16, TN_F32, 1, TN_U32, 0},
    {"tn_f32_of", TN__C_OF_BITS, 0, TN_F32, TN_U32, 1, TN_F32, 0},
    {"tn_f64_of", TN__C_OF_BITS, 0, TN_F64, TN_U64, 1, TN_F64, 0},
    {"tn_f16_of", TN__C_OF_BITS, 0, TN_F16, TN_U32, 1, TN_F32, 0},
    {"tn_bf16_of", TN__C_OF_BITS, 0, TN_BF16, TN_U32, 1, TN_F32, 0},
    {"tn_f16_cells", TN__C_BITS, 0, TN_F16, TN_F32, 1, TN_U16, 0},
    {"tn_bf16_cells", TN__C_BITS, 0, TN_BF16, TN_F32, 1, TN_U16, 0},
    {"tn_bf16_upper", TN__C_BITS, 1, TN_BF16, TN_F32, 1, TN_U16, 0},
    {"tn_f16_held", TN__C_OF_BITS, 0, TN_F16, TN_U16, 1, TN_F32, 0},
    {"tn_bf16_held", TN__C_OF_BITS, 0, TN_BF16, TN_U16, 1, TN_F32, 0},
    {"tn_f16_round", TN__C_ROUND, 0, TN_F16, TN_F32, 1, TN_F32, 0},
    {"tn_bf16_round", TN__C_ROUND, 0, TN_BF16, TN_F32, 1, TN_F32, 0},
    {"tn_philox_u64", TN__C_EVAL, OP_PHILOX, TN_U32, TN_U64, 3, TN_U32, 0},
    /* a divisor with its reciprocal behind it is a value like the divisor here */
    {"tn_prepare", TN__C_MOVE, 0, TN_F32, TN_F32, 1, TN_F32, 0},
    {"tn_prepare_number", TN__C_MOVE, 0, TN_F32, TN_F32, 1, TN_F32, 0},
    {"tn_div_by", TN__C_EVAL, OP_DIV, TN_F32, TN_F32, 2, TN_F32, 0},
    {"tn_over_root", TN__C_EVAL, OP_DIV, TN_F32, TN_F32, 2, TN_F32, 0},
    /* what is not yet rounded to the f16 that it is right for */
    {"tn_quotient_f16", TN__C_EVAL, OP_DIV, TN_F32, TN_F32, 2, TN_F32, 0},
    {"tn_near_div_by", TN__C_EVAL, OP_DIV, TN_F32, TN_F32, 2, TN_F32, 1},
};

/* How values of the dtype stand in registers. */
static uint8_t held_as(int dtype) { return (uint8_t)(dtype == TN_F16 || dtype == TN_BF16 ? TN_F32 : dtype); }

/* <dtype>_to_<dtype>: between values that no plain cast turns into each other. */
static bool is_conversion(const char *s, size_t n, tn__c_call *out) {
  for (size_t i = 1; i + 4 < n; i++) {
    if (memcmp(s + i, "_to_", 4)) continue;
    int from = tn__dtype_parse(s, i), to = tn__dtype_parse(s + i + 4, n - i - 4);
    if (from < 0 || to < 0) return false;
    *out = (tn__c_call){.code = TN__C_EVAL,
                        .op = OP_CAST,
                        .dtype = (uint8_t)to,
                        .sdtype = (uint8_t)from,
                        .narg = 1,
                        .result = held_as(to)};
    return true;
  }
  return false;
}

/* tn_near_<op>: of f32, for what becomes a half float */
static bool is_near(const char *s, size_t n, tn__c_call *out) {
  static const char prefix[] = "tn_near_";
  const size_t k = sizeof prefix - 1;
  if (n <= k || memcmp(s, prefix, k)) return false;
  int op = tn__op_parse(s + k, n - k);
  if (op < 0 || tn__ops[op].group < G_UNARY || tn__ops[op].group > G_BINARY) return false;
  *out = (tn__c_call){TN__C_EVAL, (uint8_t)op, TN_F32, TN_F32, (uint8_t)tn__ops[op].min_src, TN_F32, true};
  return true;
}

bool tn__c_word_is_call(const char *s, size_t n, tn__c_call *out) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    if (!is_word(others[i].name, s, n)) continue;
    *out = (tn__c_call){others[i].code, others[i].op, others[i].dtype, others[i].sdtype, others[i].narg,
                        others[i].result, others[i].near};
    return true;
  }
  if (is_near(s, n, out)) return true;
  if (n < 4 || memcmp(s, "tn_", 3)) return false;
  if (is_conversion(s + 3, n - 3, out)) return true;
  for (int op = 0; op < OP_COUNT; op++) { /* tn_<op>_<dtype>: of values of the dtype */
    const char *name = tn__ops[op].text;
    size_t k = strlen(name) + 3;
    if (tn__ops[op].group < G_UNARY || tn__ops[op].group > G_TERNARY) continue;
    if (op == OP_WHERE || op == OP_PHILOX) continue; /* their operands are of several */
    if (k + 1 >= n || s[k] != '_' || memcmp(s + 3, name, k - 3)) continue;
    int dtype = tn__dtype_parse(s + k + 1, n - k - 1);
    if (dtype < 0) continue;
    bool tells = tn__ops[op].dtype_rule == DT_BOOL;
    *out = (tn__c_call){.code = TN__C_EVAL,
                        .op = (uint8_t)op,
                        .dtype = (uint8_t)(tells ? TN_BOOL : dtype),
                        .sdtype = (uint8_t)dtype,
                        .narg = (uint8_t)tn__ops[op].min_src,
                        .result = tells ? TN_BOOL : held_as(dtype)};
    return true;
  }
  return false;
}
