/* C with the extensions that gcc and clang share. */
#include "render/spellings.h"
#include "tenet_embed.h"

const tn__dialect tn__dialect_c = {
    .name = "c",
    .head = (const char *const[]){tn__embed_math_c_inc, tn__embed_math_inc, tn__embed_math_f64_inc,
                                  tn__embed_kernel_inc, NULL},
    TN__COMMON_TYPES("_Bool", "f64"),
    TN__COMMON_SPELLINGS_BUT("($t)(0 - ($u)$0)", "$0 / $1", "$0 == $1", "$0 != $1", "tn_min_i64($0, $1)",
                             "tn_max_i64($0, $1)"),
    .infinity = "__builtin_inff()",
    .function = {"void", "(void *const *buf, const i64 *var, i64 lo, i64 hi, char *scratch)"},
    .extent = {"i64", "(const i64 *var)"},
};
