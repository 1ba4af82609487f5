/* The reference device: linear kernels, interpreted one scalar at a time.
 *
 * A register holds a scalar as tn__eval wants it. */
#include "backend/cpu/cpu.h"
#include "backend/cuda/target.h"
#include "backend/ref/ref.h"
#include "backend/ref/races.h"
#include "backend/ref/recording.h"
#include "ir/eval.h"
#include "lower/encode.h"
#include "render/render.h"
#include <string.h>

typedef struct span {
  char *mem;
  size_t bytes;
} span;

typedef struct program { /* one kernel */
  tn__encoded code;
  span *span; /* buffers by slot, then locals */
  uint32_t nbuf, nvar;
  bool one_nan;           /* arithmetic gives one NaN, whatever NaN it was given, as NVIDIA's does */
  tn__races_kernel races; /* what looking for them needs */
} program;

struct tn__code {
  tn__arena arena;
  program *kernel;
  uint32_t n;
  uint64_t launches;
};

/* ---- translation ---- */

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  tn__code *code;
} build;

static void describe(tn__arena *keep, const tn__kernel *k, program *out) {
  tn__races_kernel *r = &out->races;
  size_t *bytes = tn__arena_alloc(keep, (k->nlocal + 1) * sizeof *bytes);
  int64_t *threads = tn__arena_alloc(keep, (k->nlocal + 1) * sizeof *threads);
  uint8_t *dtype = tn__arena_alloc(keep, k->nlocal + 1);
  for (uint32_t l = 0; l < k->nlocal; l++) {
    bytes[l] = out->span[k->nbuf + l].bytes;
    threads[l] = k->local[l]->ints[1];
    dtype[l] = k->local[l]->dtype;
  }
  *r = (tn__races_kernel){.name = out->code.name,
                          .code = &out->code,
                          .nbuf = k->nbuf,
                          .nlocal = k->nlocal,
                          .dtype = tn__arena_dup(keep, k->buf_dtype, k->nbuf),
                          .written = tn__arena_dup(keep, k->buf_written, k->nbuf),
                          .local_bytes = bytes,
                          .local_dtype = dtype,
                          .threads = threads};
  for (uint32_t p = 0; p < k->nparts; p++) {
    r->group[p] = k->part[p].group;
    r->global[p] = k->part[p].global != NULL;
    r->adds = k->part[p].adds;
    r->subgroup = k->part[p].subgroup;
  }
}

static void translate_kernel(build *b, const tn__kernel *k, program *out) {
  tn__arena *keep = &b->code->arena;
  tn__render_fits(b->device, k);
  *out = (program){.nbuf = k->nbuf, .nvar = k->nvar, .one_nan = b->device->dialect == &tn__dialect_cuda};
  out->span = tn__arena_zalloc(keep, (k->nbuf + k->nlocal + 1) * sizeof(span));
  char *scratch = tn__arena_zalloc(keep, (size_t)k->scratch + 1);
  for (uint32_t l = 0; l < k->nlocal; l++) {
    size_t room = (size_t)(k->scratch - k->local_at[l]),
           want = (size_t)k->local[l]->src[0]->hi * tn__size_of(k->local[l]->dtype);
    out->span[k->nbuf + l] = (span){scratch + k->local_at[l], want < room ? want : room};
  }
  tn__encode(b->device->ctx, keep, k, &out->code);
  describe(keep, k, out);
}

static void translate(void *arg) {
  build *b = arg;
  tn__code *code = b->code;
  code->kernel = tn__arena_zalloc(&code->arena, (code->n + 1) * sizeof *code->kernel);
  for (uint32_t i = 0; i < code->n; i++) translate_kernel(b, b->kernels[i], &code->kernel[i]);
}

void tn__ref_release(tn__device *d, tn__code *code) {
  tn__arena_free(&code->arena);
  tn__mem_free(&d->ctx->mem, code);
}

tn__code *tn__ref_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  build b = {.device = d, .kernels = kernels, .code = tn__mem_zalloc(&d->ctx->mem, sizeof *b.code)};
  tn_status status;
  tn__arena_init(&b.code->arena, &d->ctx->mem);
  b.code->n = n;
  if (tn__mem_try(&d->ctx->mem, translate, &b, &status)) return b.code;
  tn__ref_release(d, b.code);
  tn__mem_throw(&d->ctx->mem, status);
}

/* ---- interpretation ---- */

static tn_status outside(tn__device *d, const program *k, const tn__code_part *p, const tn__ins *i) {
  static const char *const verb[] = {[TN__I_LOAD] = "load", [TN__I_STORE] = "store", [TN__I_STOREADD] = "storeadd"};
  bool local = i->span >= k->nbuf;
  tn__error(d->ctx, TN_ERUN, "kernel %s, instruction %u: %s %s %s%u[%lld] is outside its %zu elements", k->code.name,
            (unsigned)(i - p->ins), verb[i->code], tn__dtypes[i->dtype].name, local ? "local" : "b",
            local ? i->span - k->nbuf : i->span, (long long)p->reg[i->src[0]],
            k->span[i->span].bytes / tn__size_of(i->dtype));
  return TN_ERUN;
}

/* v, as the device computes it: what is made of NaN must not hang on which NaN that is.  Of f64 NVIDIA's arithmetic
 * keeps the bits; whether signs and conversions do is up to its compiler. */
static uint64_t computed(const program *k, int op, int dtype, uint64_t v) {
  static const struct {
    uint64_t infinite, nan;
  } of[TN_DTYPE_COUNT] = {[TN_F16] = {0x7c00, 0x7fff}, [TN_BF16] = {0x7f80, 0x7fff},
                          [TN_F32] = {0x7f800000, 0x7fffffff}};
  if (!k->one_nan || !tn__is_float(dtype) || (v & of[dtype].nan) <= of[dtype].infinite) return v;
  bool moves = op == OP_WHERE || op == OP_CAST || op == OP_BITCAST || op == OP_NEG || op == OP_ABS || op == OP_COPYSIGN;
  return moves ? v : of[dtype].nan;
}

/* One LOAD, STORE or STOREADD; false if it is out of bounds. */
static bool access_memory(const program *k, uint64_t *r, const tn__ins *i) {
  const span *s = &k->span[i->span];
  if (i->src[1] != TN__NO_REG && !r[i->src[1]]) {
    if (i->code == TN__I_LOAD) r[i->dst] = 0;
    return true;
  }
  size_t size = tn__size_of(i->dtype);
  uint64_t index = r[i->src[0]];
  if (index >= s->bytes / size) return false; /* negative ones are huge */
  char *at = s->mem + index * size;
  if (i->code == TN__I_LOAD) {
    r[i->dst] = tn__eval_load(i->dtype, at);
    return true;
  }
  uint64_t value = r[i->src[2]];
  if (i->code == TN__I_STOREADD)
    value =
        computed(k, i->op, i->dtype, tn__eval_combined(i->op, i->dtype, i->sdtype, tn__eval_load(i->dtype, at), value));
  tn__eval_store(i->dtype, at, value);
  return true;
}

static uint32_t cell_of(const uint64_t *r, const tn__ins *i) {
  return (i->lane == TN__NO_REG ? 0 : (uint32_t)r[i->lane] * i->each) +
         (i->src[2] == TN__NO_REG ? 0 : (uint32_t)r[i->src[2]]);
}

static void set_acc(const program *k, uint64_t *r, const tn__ins *i) {
  uint64_t *cell = &r[i->dst + cell_of(r, i)];
  if (i->src[1] == TN__NO_REG) *cell = tn__eval(i->op, i->dtype, i->dtype, (uint64_t[3]){*cell, r[i->src[0]], 0});
  else *cell = tn__eval(OP_FMA, i->dtype, i->dtype, (uint64_t[3]){r[i->src[0]], r[i->src[1]], *cell});
  *cell = computed(k, i->op, i->dtype, *cell);
}

static void fold_acc(const program *k, uint64_t *r, const tn__ins *i) {
  uint64_t *cell = &r[i->dst];
  memcpy(cell, &r[i->src[0]], i->lanes * sizeof *cell);
  for (uint32_t h = i->lanes / 2; h; h /= 2)
    for (uint32_t l = 0; l < h; l++)
      cell[l] = computed(k, i->op, i->dtype,
                         tn__eval(i->op, i->dtype, i->dtype, (uint64_t[3]){cell[l], cell[l + h], 0}));
}

/* One part; `races` is NULL in the copy of this function that does not look for them. */
static inline __attribute__((always_inline)) tn_status run_part(tn__device *d, const program *k,
                                                                const tn__code_part *p, tn__races *races) {
  uint64_t *r = p->reg;
  for (uint32_t pc = 0; pc < p->n;) {
    const tn__ins *i = &p->ins[pc++];
    switch ((tn__icode)i->code) {
    case TN__I_EVAL:
      r[i->dst] = tn__eval(i->op, i->dtype, i->sdtype, (uint64_t[3]){r[i->src[0]], r[i->src[1]], r[i->src[2]]});
      r[i->dst] = computed(k, i->op, i->dtype, r[i->dst]);
      break;
    case TN__I_RANGE:
      r[i->dst] = 0;
      r[i->dst + 1] = r[i->src[0]];
      if ((int64_t)r[i->dst + 1] <= 0) pc = i->jump;
      else if (races) r[i->dst] = tn__races_begin(races, i, r[i->dst + 1]);
      break;
    case TN__I_END:
      if (races ? tn__races_turn(races, i, &r[i->dst], r[i->dst + 1]) : ++r[i->dst] < r[i->dst + 1]) pc = i->jump;
      break;
    case TN__I_BARRIER: /* all threads are one here */
      if (races) tn__races_barrier(races);
      break;
    case TN__I_ACC:
      for (uint32_t l = 0; l < i->lanes; l++) r[i->dst + l] = r[i->src[0]];
      break;
    case TN__I_SETACC: set_acc(k, r, i); break;
    case TN__I_GETACC: r[i->dst] = r[i->src[0] + cell_of(r, i)]; break;
    case TN__I_FOLDACC: fold_acc(k, r, i); break;
    case TN__I_LOAD: case TN__I_STORE: case TN__I_STOREADD:
      if (!access_memory(k, r, i)) return outside(d, k, p, i);
      if (races && !(i->src[1] != TN__NO_REG && !r[i->src[1]]) && !tn__races_touch(races, i, r[i->src[0]]))
        return TN_ERUN;
    }
  }
  return TN_OK;
}

typedef struct watched { /* a part that is run while races are looked for */
  tn__device *d;
  tn__code *code;
  const program *k;
  uint32_t part;
  tn__arena *arena;
  void *const *buf;
  const size_t *bytes;
  tn_status status;
} watched;

static void run_watched(void *arg) {
  watched *w = arg;
  uint64_t seed = tn__hash_mix(w->d->ctx->races, w->code->launches);
  tn__races *races = tn__races_open(w->d->ctx, w->arena, &w->k->races, w->part, w->buf, w->bytes, seed);
  w->status = run_part(w->d, w->k, &w->k->code.part[w->part], races);
}

/* With memory that is no part of the context's: what its limit lets pass does not hang on who looks on. */
static tn_status watch_part(watched *w) {
  tn__mem mem = {0};
  tn__arena arena;
  tn_status status;
  tn__arena_init(&arena, &mem);
  w->arena = &arena;
  if (!tn__mem_try(&mem, run_watched, w, &status)) {
    tn__error(w->d->ctx, status, "kernel %s: no memory to look for races", w->k->code.name);
    w->status = status;
  }
  tn__arena_free(&arena);
  return w->status;
}

tn_status tn__ref_launch(tn__device *d, tn__code *code, uint32_t n, void *const *buf, const size_t *bytes,
                         const int64_t *var) {
  const program *k = &code->kernel[n];
  for (uint32_t b = 0; b < k->nbuf; b++) k->span[b] = (span){buf[b], bytes[b]};
  tn_status status = TN_OK;
  for (uint32_t p = 0; p < k->code.nparts && !status; p++) {
    for (uint32_t v = 0; v < k->nvar; v++)
      if (k->code.part[p].var_reg[v] != TN__NO_REG) k->code.part[p].reg[k->code.part[p].var_reg[v]] = (uint64_t)var[v];
    watched w = {.d = d, .code = code, .k = k, .part = p, .buf = buf, .bytes = bytes};
    status = d->ctx->races ? watch_part(&w) : run_part(d, k, &k->code.part[p], NULL);
  }
  code->launches++;
  return status;
}

static tn_status launch_or_record(tn__device *d, tn__code *code, uint32_t n, void *const *buf, const size_t *bytes,
                                  const int64_t *var) {
  const program *k = &code->kernel[n];
  return tn__ref_is_recording(d) ? tn__ref_record_launch(d, code, n, buf, bytes, k->nbuf, var, k->nvar)
                                 : tn__ref_launch(d, code, n, buf, bytes, var);
}

#define REF_OPS                                                                                                        \
  .name = "ref", .alloc = tn__host_alloc, .free = tn__host_free, .upload = tn__host_copy, .download = tn__host_copy,   \
  .compile = tn__ref_compile, .release = tn__ref_release
static const tn__device_ops ref_ops = {REF_OPS, .launch = tn__ref_launch};
static const tn__device_ops recording_ops = {REF_OPS,
                                             .launch = launch_or_record,
                                             .record = tn__ref_record,
                                             .after = tn__ref_after,
                                             .recorded = tn__ref_recorded,
                                             .replay = tn__ref_replay,
                                             .forget = tn__ref_forget,
                                             .close = tn__ref_recorder_free};

/* What the interpreter may stand for: kernels are lowered as for that device, and mean the same. */
static const struct guise {
  const char *name;
  const tn__dialect *dialect;
  int generation, units; /* of CUDA devices */
  size_t shared;
  double memory;
  tn__target target;     /* of others */
} guises[] = {
    {.name = "ref:cpu", .dialect = &tn__dialect_c, .target = {TN__CPU_TARGET}},
    {.name = "ref:sm_80", .dialect = &tn__dialect_cuda, .generation = 8, .units = 108,
     .shared = (163 << 10) - TN__CELLS_RESERVED, .memory = 40e9},
    {.name = "ref:sm_90", .dialect = &tn__dialect_cuda, .generation = 9, .units = 132,
     .shared = (227 << 10) - TN__CELLS_RESERVED, .memory = 80e9},
    {.name = "ref:opencl",
     .dialect = &tn__dialect_opencl,
     .target = {.group = 64, .subgroup = 32, .units = 8, .unit_threads = 2048, .access = 16, .sector = 32,
                .adds = sizeof(int32_t), .registers = 256 << 10, .shared = (32 << 10) - TN__CELLS_RESERVED,
                .kept = 32 << 10}},
};

void tn__ref_open(tn_ctx *c, const char *name) {
  static const char *const text = "reference interpreter, one scalar at a time";
  for (size_t i = 0; i < sizeof guises / sizeof *guises; i++) {
    const struct guise *g = &guises[i];
    if (strcmp(name, g->name)) continue;
    tn__device *d = tn__device_add(c, g->generation ? &recording_ops : &ref_ops, name, text, NULL);
    if (g->generation) d->self = tn__ref_recorder_new(c);
    d->target = g->generation ? tn__cuda_target(g->generation, g->units, g->shared) : g->target;
    if (g->generation) d->target.memory = g->memory;
    d->dialect = g->dialect;
    return;
  }
  tn__device_add(c, &ref_ops, "ref", text, NULL)->target =
      (tn__target){.interprets = true, TN__CPU_TARGET};
}
