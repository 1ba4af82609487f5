/* OpenCL C 1.2.  Buffers come as a memory object and an offset, so that no sub-buffers, with their alignment rules, are
 * needed. */
#include "render/spellings.h"
#include "tenet_embed.h"

static const tn__group_words words = {
    .kernel = "__kernel __attribute__((reqd_work_group_size($g, 1, 1))) void $k(",
    .buffer = {"__global const char *restrict p$i, ulong o$i", "__global char *restrict p$i, ulong o$i"},
    .place = {"__global const $t *b$i = (__global const $t *)(p$i + o$i);",
              "__global $t *b$i = (__global $t *)(p$i + o$i);"},
    .variable = "long n$i",
    .last = "",
    .thread = "get_local_id(0)",
    .group = "get_group_id(0)",
    .groups = "get_num_groups(0)",
    .scratch = "__local char scratch[$b] __attribute__((aligned(64)));",
    .cells = "__local char cells[$b] __attribute__((aligned(16)));",
    .global = "__global ",
    .shared = "__local ",
    .barrier = {"barrier(CLK_LOCAL_MEM_FENCE);", "barrier(CLK_LOCAL_MEM_FENCE);"},
    .meets_again = true, /* PoCL 3.1: directly behind such a loop one thread decides for all which way to branch */
    .add = {"tn_add_at_$n(&$0, $1);"},
    .greatest = {"tn_max_at_$n(&$0, $1);"},
    .bits = {"tn_or_at_$n(&$0, $1);"},
    .add_shared = "tn_add_in_$n(&$0, $1);",
    .wide = {"uchar", "ushort", "uint", "uint2", "uint4"},
    .unroll = "#pragma unroll",
};

const tn__dialect tn__dialect_opencl = {
    .name = "opencl",
    .head = (const char *const[]){tn__embed_math_opencl_inc, tn__embed_math_inc, tn__embed_kernel_inc, NULL},
    TN__COMMON_TYPES("bool", "f64"),
    .value[TN__INDEX32] = "i32",
    TN__COMMON_SPELLINGS,
    .infinity = "TN_INF",
    .group = &words,
};
