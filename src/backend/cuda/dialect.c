/* CUDA, for NVRTC: no header is included. */
#include "backend/cuda/target.h"
#include "render/spellings.h"
#include "tenet_embed.h"

static const tn__group_words words = {
    .kernel = "extern \"C\" __global__ void __launch_bounds__($g) $k(",
    .buffer = {"const $t *__restrict__ b$i", "$t *__restrict__ b$i"},
    .variable = "i64 n$i",
    .begin = "tn_begin();",
    .renew = "tn_renew(b$i);",
    .last = "",
    .thread = "threadIdx.x",
    .group = "blockIdx.x",
    .groups = "gridDim.x",
    .scratch = "extern __shared__ __align__(1024) char scratch[];",
    .cells = "__shared__ __align__(16) char cells[$b];",
    .global = "",
    .shared = "",
    .barrier = {"__syncthreads();", "__syncwarp();"},
    .swap = "__shfl_xor_sync($2, $0, $1)",
    .take = "__shfl_sync($2, $0, $1)",
    .wide = {"u8", "u16", "u32", "uint2", "uint4"},
    .copy = "tn_send<$b>(&$0, &$1, $2);",
    .copied = "tn_sent();",
    .from = "tn_from($0, $1)",
    .add = {"tn_add_at_$n(&$0, $1);", "tn_add_at_$n(&$0, $1);"},
    .greatest = {"tn_max_at_$n(&$0, $1);", "tn_max_at_$n(&$0, $1);"},
    .bits = {"tn_or_at_$n(&$0, $1);", "tn_or_at_$n(&$0, $1);"},
    .add_shared = "tn_add_in_$n(&$0, $1);",
    .count_in_step = "tn_count_in_step<$b>(&$0, (u32)$1)",
    .own_places = "tn_own_places<$n, $b, $g, $w, $s>($0, $1, $2, $3);",
    .turns = tn__embed_turns_cuda_inc,
    .tiles = tn__embed_tile_cuda_inc,
    .unroll = "#pragma unroll",
    .divisor = "tn_divisor",
    .prepare = {"tn_prepare($0)", "tn_prepare_number($0)"},
    .divide = {"tn_div_by($0, $1)", "tn_near_div_by($0, $1)"},
};

static const char *const approximate[OP_COUNT] = {
    [OP_EXP] = "tn_near_exp($0)",     [OP_EXP2] = "tn_near_exp2($0)",   [OP_EXPM1] = "tn_near_expm1($0)",
    [OP_LOG] = "tn_near_log($0)",     [OP_LOG2] = "tn_near_log2($0)",   [OP_LOG10] = "tn_near_log10($0)",
    [OP_LOG1P] = "tn_near_log1p($0)", [OP_SIN] = "tn_near_sin($0)",     [OP_COS] = "tn_near_cos($0)",
    [OP_ATAN] = "tn_near_atan($0)",   [OP_SINH] = "tn_near_sinh($0)",   [OP_COSH] = "tn_near_cosh($0)",
    [OP_TANH] = "tn_near_tanh($0)",   [OP_ASINH] = "tn_near_asinh($0)", [OP_ACOSH] = "tn_near_acosh($0)",
    [OP_ATANH] = "tn_near_atanh($0)", [OP_ERF] = "tn_near_erf($0)",     [OP_ATAN2] = "tn_near_atan2($0, $1)",
    [OP_DIV] = "tn_near_div($0, $1)", [OP_SQRT] = "tn_near_sqrt($0)",
};

const tn__dialect tn__dialect_cuda = {
    .name = "cuda",
    .head = (const char *const[]){tn__embed_math_cuda_inc, tn__embed_math_inc, tn__embed_integers_cuda_inc,
                                  tn__embed_native_cuda_inc, tn__embed_near_cuda_inc,
                                  tn__embed_kernel_inc, NULL},
    TN__COMMON_TYPES("bool", "f64"),
    .value[TN__INDEX32] = "i32",
    TN__COMMON_SPELLINGS_BUT("tn_neg_$t($0)", "tn_div_$t($0, $1)", "tn_eq_$n($0, $1)", "tn_ne_$n($0, $1)", SPELL_LEAST,
                             SPELL_MOST),
    .approximate = approximate,
    .quotient = "tn_quotient_f16($0, $1)",
    .over_root = "tn_over_root($0, $1)",
    .infinity = "TN_INF",
    .group = &words,
};
