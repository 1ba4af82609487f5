/* The Metal shading language.  It has no f64. */
#include "render/spellings.h"
#include "tenet_embed.h"

static const tn__group_words words = {
    .kernel = "kernel void $k(",
    .buffer = {"device const $t *b$i [[buffer($j)]]", "device $t *b$i [[buffer($j)]]"},
    .variable = "constant i64 &n$i [[buffer($j)]]",
    .last = ", threadgroup char *scratch [[threadgroup(0)]], threadgroup char *cells [[threadgroup(1)]], "
            "u32 thread_at [[thread_position_in_threadgroup]], u32 group_at [[threadgroup_position_in_grid]], u32 "
            "groups [[threadgroups_per_grid]]",
    .thread = "thread_at",
    .group = "group_at",
    .groups = "groups",
    .global = "device ",
    .shared = "threadgroup ",
    .barrier = {"threadgroup_barrier(mem_flags::mem_threadgroup);", "threadgroup_barrier(mem_flags::mem_threadgroup);"},
    .wide = {"uchar", "ushort", "uint", "uint2", "uint4"},
    .unroll = "#pragma unroll",
};

const tn__dialect tn__dialect_metal = {
    .name = "metal",
    .head = (const char *const[]){tn__embed_math_metal_inc, tn__embed_math_inc, tn__embed_kernel_inc, NULL},
    TN__COMMON_TYPES("bool", NULL),
    .value[TN__INDEX32] = "i32",
    TN__COMMON_SPELLINGS,
    .infinity = "TN_INF",
    .group = &words,
};
