/* What kernels for NVIDIA GPUs are lowered for, and the forms of their products by tiles, whose functions stand in
 * tile_cuda.inc under the forms' names. */
#include "backend/cuda/target.h"

enum { T = TN__DIGIT_THREAD, U = TN__DIGIT_TURN, N = TN__DIGIT_NEIGHBOUR };

/* Those of wgmma, which is of generation 9 alone, come first.
 *
 * What they cost was measured on an H200, for products and convolutions of 2^20 to 2^28 elements times steps: `dear`
 * beside the form of 128 x 256 (f32; the tensor cores' come to a seventh and less, a quarter leaves room for edges),
 * `alone` with one group for each unit and for as many as the unit has room for.  32 x 256 is for results of few rows,
 * of which 64 x 256 would waste half, 64 x 96 for those that leave units without a tile of 64 x 256: 512 x 9216 x 128
 * took 55 us in 144 tiles of that size on 132 units, 33 in these.  The small ones lose where there are many: 50,000
 * tiles of 16 x 32 took 1.02 ms, in 64 x 256 0.31. */
static const tn__tile_form forms[] = {
    {.name = "wgmma_bf16", .dtype = TN_BF16, .rows = 128, .cols = 256, .steps = 64, .threads = 256,
     .shared = 196608, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 64, 0}, {U, 32, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "wgmma_f16", .dtype = TN_F16, .rows = 128, .cols = 256, .steps = 64, .threads = 256,
     .shared = 196608, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 64, 0}, {U, 32, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "wide_bf16", .dtype = TN_BF16, .rows = 64, .cols = 256, .steps = 64, .threads = 256,
     .shared = 163840, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 0, 128}, {U, 16, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "wide_f16", .dtype = TN_F16, .rows = 64, .cols = 256, .steps = 64, .threads = 256,
     .shared = 163840, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 0, 128}, {U, 16, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "tall_bf16", .dtype = TN_BF16, .rows = 256, .cols = 64, .steps = 64, .threads = 256,
     .shared = 163840, .dear = 0.25f, .cols_by_steps = true,
     .digit = {{T, 4, 0, 16}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 128, 0}, {U, 2, 64, 0}, {U, 2, 8, 0}, {U, 2, 0, 8},
               {N, 8, 0, 1}}},
    {.name = "tall_f16", .dtype = TN_F16, .rows = 256, .cols = 64, .steps = 64, .threads = 256,
     .shared = 163840, .dear = 0.25f, .cols_by_steps = true,
     .digit = {{T, 4, 0, 16}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 128, 0}, {U, 2, 64, 0}, {U, 2, 8, 0}, {U, 2, 0, 8},
               {N, 8, 0, 1}}},
    {.name = "turned_tf32", .dtype = TN_F32, .rows = 256, .cols = 128, .steps = 32, .threads = 256,
     .shared = 200704, .tf32 = true, .dear = 0.25f, .cols_across = true,
     .digit = {{T, 4, 2, 0}, {T, 8, 0, 1}, {T, 8, 0, 16}, {U, 32, 8, 0}, {U, 2, 0, 8}, {U, 2, 1, 0}}},
    {.name = "wgmma_tf32", .dtype = TN_F32, .rows = 128, .cols = 256, .steps = 32, .threads = 256,
     .shared = 196608, .tf32 = true, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 64, 0}, {U, 32, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "wide_tf32", .dtype = TN_F32, .rows = 64, .cols = 256, .steps = 32, .threads = 256,
     .shared = 163840, .tf32 = true, .dear = 0.25f,
     .digit = {{T, 4, 0, 2}, {T, 8, 1, 0}, {T, 4, 16, 0}, {T, 2, 0, 128}, {U, 16, 0, 8}, {U, 2, 8, 0}, {N, 2, 0, 1}}},
    {.name = "fma_f32", .dtype = TN_F32, .rows = 128, .cols = 256, .steps = 16, .threads = 256,
     .shared = 75264, .alone = 1.2f,
     .digit = {{T, 8, 0, 4}, {T, 4, 4, 0}, {T, 2, 0, 128}, {T, 4, 32, 0}, {U, 2, 16, 0}, {U, 4, 1, 0}, {U, 4, 0, 32},
               {N, 4, 0, 1}}},
    {.name = "small_f32", .dtype = TN_F32, .rows = 16, .cols = 32, .steps = 16, .threads = 256,
     .shared = 104448, .beside = 2, .even = true, .crowd = 8,
     .digit = {{T, 16, 0, 2}, {T, 16, 1, 0}, {N, 2, 0, 1}}},
    {.name = "small_tall_f32", .dtype = TN_F32, .rows = 32, .cols = 16, .steps = 16, .threads = 256,
     .shared = 104448, .beside = 2, .even = true, .crowd = 8,
     .digit = {{T, 8, 0, 2}, {T, 32, 1, 0}, {N, 2, 0, 1}}},
    {.name = "wide_f32", .dtype = TN_F32, .rows = 64, .cols = 256, .steps = 16, .threads = 128,
     .shared = 62976, .beside = 2, .alone = 2.1f,
     .digit = {{T, 8, 0, 4}, {T, 4, 4, 0}, {T, 2, 0, 128}, {T, 2, 32, 0}, {U, 2, 16, 0}, {U, 4, 1, 0}, {U, 4, 0, 32},
               {N, 4, 0, 1}}},
    {.name = "flat_f32", .dtype = TN_F32, .rows = 32, .cols = 256, .steps = 16, .threads = 128,
     .shared = 56832, .beside = 3, .dear = 1.5f, .alone = 3,
     .digit = {{T, 8, 0, 4}, {T, 4, 4, 0}, {T, 4, 0, 64}, {U, 2, 16, 0}, {U, 4, 1, 0}, {U, 2, 0, 32}, {N, 4, 0, 1}}},
    {.name = "slim_f32", .dtype = TN_F32, .rows = 64, .cols = 96, .steps = 16, .threads = 64,
     .shared = 32256, .beside = 4, .dear = 1.25f, .alone = 2.3f,
     .digit = {{T, 8, 0, 4}, {T, 4, 4, 0}, {T, 2, 32, 0}, {U, 2, 16, 0}, {U, 4, 1, 0}, {U, 3, 0, 32}, {N, 4, 0, 1}}},
};

enum { FORMS = sizeof forms / sizeof *forms, WGMMA_FORMS = 9 };

/* What multiplying costs beside what else there is to do, by generation. */
static const struct {
  float balance, fetch, rate, library;
} costs[] = {
    /* A100: 9.7e12 multiply-adds and 0.5e12 f32 of memory a second, by 108 multiprocessors; 64 of them in the time of
     * 32 loads of one f32.  Its library's speed was not measured: as on an H200. */
    {.balance = 20, .fetch = 2, .rate = 9.0e10f, .library = 1.15f},
    /* H200: 33.5e12 and 1.2e12 by 132; 128 beside 32 loads; 4096^3 2.68 ms by cuBLAS, 3.08 by tiles */
    {.balance = 28, .fetch = 4, .rate = 25.3e10f, .library = 1.15f},
};

tn__target tn__cuda_target(int generation, int units, size_t shared) {
  bool wgmma = generation == 9, recent = generation >= 9;
  tn__target t = {.group = 1024,
                  .subgroup = 32,
                  .units = units,
                  .unit_threads = 2048,
                  .registers = 256 << 10,
                  .access = 16,
                  .sector = 32,
                  .exchanges = true,
                  .copies = generation >= 8,
                  .joins = true,
                  .adds = sizeof(int32_t) | sizeof(int64_t),
                  .shared = shared,
                  .kept = shared < TN__KEPT_BYTES ? shared : TN__KEPT_BYTES,
                  .balance = costs[recent].balance,
                  .fetch = costs[recent].fetch,
                  .rate = costs[recent].rate,
                  .thread_lanes = 128,
                  .latency = 8e-7f,
                  .near = 128 << 10,
                  .far = 50 << 20,
                  .far_rate = 1.4f,
                  .launch = 2e-6f, /* in a graph, H200 */
                  /* H100 and H200, blocks of 128 threads and of 256: 0.81 in a nanosecond and no more */
                  .start = 1.23e-9f,
                  .library = costs[recent].library,
                  /* H200, cuBLASLt, bf16: 63 to 130e12 floating point operations a second where rows are of any length,
                   * 255 of every second element, 330 to 770 of every eighth; 67 by threads */
                  .row_bytes = 16,
                  .row_gain = 8};
  if (generation < 8) return t;
  t.tiles = wgmma ? forms : forms + WGMMA_FORMS;
  t.ntiles = wgmma ? FORMS : FORMS - WGMMA_FORMS;
  return t;
}
