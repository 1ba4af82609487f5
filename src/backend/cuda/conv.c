/* Convolutions by cuDNN, loaded when the first one is wanted.
 *
 * What the library works out for a shape (descriptors and the choice of an algorithm) is kept in a table, so that doing
 * it again allocates and decides nothing.  Only algorithms that give the same bits each time are taken, and none that
 * computes by Fourier transforms: their errors grow with the largest element and not with the terms of a sum.
 * (Winograd's are a few 2^-23 of the sum of the terms' sizes for windows of 3 x 3, the only ones it is taken for: 0.012
 * where the filters' gradient sums up to 5e4.  For 5 x 5 it gave 32.009 for 32.)  Nothing is timed, so that a program
 * gives the same bits wherever it runs; but the library proposes Winograd's way for f32 too late, which from some size
 * on takes a third to two thirds of the others' time (H200). */
#include "backend/cuda/state.h"
#include <string.h>

enum {
  SHAPES = 512, /* entries of the table, */
  PROBES = 8,   /* of which so many are looked at for a shape */
  CHOICES = 8,  /* proposals that the library is asked for */
  BLOCKS = 32   /* of working memory, each at least twice as large as the one before */
};

/* All that the choice depends on; compared as bytes. */
typedef struct shape {
  int64_t size[CONV_DIMS], stride[2], pad[2], dilation[2];
  int32_t dtype, kind, channels_last, used;
} shape;

typedef struct entry {
  shape shape;
  tn__dnn_handle operand[3], conv; /* descriptors */
  int algo;
  tn__cu_address space;
  size_t size;
} entry;

/* Working memory grows by larger blocks.  The smaller ones stay: recordings go on using them. */
typedef struct block {
  tn__cu_address mem;
  size_t size;
} block;

struct tn__cuda_convs {
  const tn__cuda_dnn *dnn;
  tn__dnn_handle handle;
  block block[BLOCKS];
  int blocks;
  entry entry[SHAPES];
};

static const struct {
  int type, math;
} types[TN_DTYPE_COUNT] = {
    [TN_F16] = {DNN_HALF, DNN_TENSOR_OP_MATH},
    [TN_BF16] = {DNN_BFLOAT16, DNN_TENSOR_OP_MATH},
    [TN_F32] = {DNN_FLOAT, DNN_FMA_MATH}, /* not tf32, which is what the default means, unless that is allowed */
};

typedef int (*choose_fn)(tn__dnn_handle, tn__dnn_handle a, tn__dnn_handle b, tn__dnn_handle conv, tn__dnn_handle out,
                         int, int *, tn__dnn_choice *);
typedef int (*run_fn)(tn__dnn_handle, const void *alpha, tn__dnn_handle, const void *a, tn__dnn_handle, const void *b,
                      tn__dnn_handle conv, int algo, void *space, size_t, const void *beta, tn__dnn_handle, void *out);

#define MEMBER(name) offsetof(tn__cuda_dnn, name)

/* How a kind is asked for: its operands in the library's order, and the algorithms that will do, by number. */
static const struct {
  int a, b;
  unsigned algos;
  int winograd;
  size_t choose, run; /* members of tn__cuda_dnn */
} kinds[] = {
    [CONV_FORWARD] = {CONV_DATA, CONV_FILTER, 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 6 | 1 << 7, 7,
                      MEMBER(choose_forward), MEMBER(forward)},
    [CONV_DATA] = {CONV_FILTER, CONV_FORWARD, 1 << 1 | 1 << 4 | 1 << 5, 5, MEMBER(choose_data), MEMBER(data)},
    [CONV_FILTER] = {CONV_DATA, CONV_FORWARD, 1 << 1 | 1 << 5, 5, MEMBER(choose_filter), MEMBER(filter)},
};

static int math_of(const tn__device *d, int dtype) {
  return dtype == TN_F32 && d->ctx->opt.tf32 ? DNN_DEFAULT_MATH : types[dtype].math;
}

static void find_function(const tn__cuda_dnn *dnn, size_t at, void *fn) {
  memcpy(fn, (const char *)dnn + at, sizeof(void (*)(void)));
}

/* ---- the library ---- */

static void forget_entry(const tn__cuda_dnn *dnn, entry *e) {
  for (int o = 0; o < 3; o++)
    if (e->operand[o]) (o == CONV_FILTER ? dnn->filter_destroy : dnn->tensor_destroy)(e->operand[o]);
  if (e->conv) dnn->conv_destroy(e->conv);
  *e = (entry){0};
}

void tn__cuda_convs_close(tn__device *d) {
  tn__cuda *self = d->self;
  tn__cuda_convs *p = self->convs;
  if (!p) return;
  for (int i = 0; i < SHAPES; i++) forget_entry(p->dnn, &p->entry[i]);
  if (p->handle) p->dnn->destroy(p->handle);
  for (int i = 0; i < p->blocks && !self->lost; i++) self->api->free(p->block[i].mem);
  tn__mem_free(&d->ctx->mem, p);
  self->convs = NULL;
}

/* The library; TN_ENOTSUP, with nothing recorded, where there is none. */
static tn_status open_convs(tn__device *d) {
  tn__cuda *self = d->self;
  if (self->convs) return TN_OK;
  const tn__cuda_dnn *dnn = self->no_convs ? NULL : tn__cuda_load_dnn(NULL);
  if (!dnn) return TN_ENOTSUP;
  tn_status status = tn__cuda_enter(d);
  if (status) return status;
  tn__cuda_convs *p = tn__mem_try_alloc(&d->ctx->mem, sizeof *p);
  if (!p) {
    tn__error(d->ctx, TN_ENOMEM, "no memory for the table of convolutions");
    return TN_ENOMEM;
  }
  self->convs = memset(p, 0, sizeof *p);
  p->dnn = dnn;
  int failed = dnn->create(&p->handle);
  if (failed) p->handle = NULL;
  if (!failed && !dnn->set_stream(p->handle, self->stream)) return TN_OK;
  self->no_convs = true;
  tn__cuda_convs_close(d);
  return TN_ENOTSUP;
}

bool tn__cuda_has_conv(tn__device *d, int dtype) {
  if (!types[dtype].math) return false;
  tn_status status = open_convs(d);
  if (status && status != TN_ENOTSUP) tn__mem_throw(&d->ctx->mem, status);
  return status == TN_OK;
}

/* ---- shapes ---- */

static shape shape_of(const tn__conv_call *v) {
  shape s;
  memset(&s, 0, sizeof s);
  memcpy(s.size, v->size, sizeof s.size);
  memcpy(s.stride, v->stride, sizeof s.stride);
  memcpy(s.pad, v->pad, sizeof s.pad);
  memcpy(s.dilation, v->dilation, sizeof s.dilation);
  s.dtype = v->dtype;
  s.kind = (int32_t)v->kind;
  s.channels_last = v->channels_last;
  s.used = 1;
  return s;
}

static int describe(const tn__cuda_dnn *dnn, entry *e, int operand) {
  const shape *s = &e->shape;
  int size[4], format = s->channels_last ? DNN_NHWC : DNN_NCHW, type = types[s->dtype].type;
  bool filter = operand == CONV_FILTER;
  for (int i = 0; i < 4; i++) size[i] = (int)s->size[tn__conv_dims[operand][i]];
  int failed = (filter ? dnn->filter_create : dnn->tensor_create)(&e->operand[operand]);
  if (failed) {
    e->operand[operand] = NULL;
    return failed;
  }
  return filter ? dnn->filter_set(e->operand[operand], type, format, size[0], size[1], size[2], size[3])
                : dnn->tensor_set(e->operand[operand], format, type, size[0], size[1], size[2], size[3]);
}

static int describe_conv(const tn__cuda_dnn *dnn, entry *e, int math) {
  const shape *s = &e->shape;
  int failed = dnn->conv_create(&e->conv);
  if (failed) e->conv = NULL;
  if (!failed)
    failed = dnn->conv_set(e->conv, (int)s->pad[0], (int)s->pad[1], (int)s->stride[0], (int)s->stride[1],
                           (int)s->dilation[0], (int)s->dilation[1], DNN_CROSS_CORRELATION, DNN_FLOAT);
  return failed ? failed : dnn->conv_set_math(e->conv, math);
}

/* Working memory of at least `size` bytes; false if there is not so much. */
static bool find_space(tn__device *d, size_t size, tn__cu_address *mem) {
  const tn__cuda *self = d->self;
  tn__cuda_convs *p = self->convs;
  block *last = p->blocks ? &p->block[p->blocks - 1] : &(block){0};
  if (size > last->size) {
    size_t more = (size_t)1 << 24;
    while (more < size && more <= SIZE_MAX / 2) more *= 2;
    last = &p->block[p->blocks];
    if (p->blocks == BLOCKS || self->api->alloc(&last->mem, more)) return false;
    last->size = more;
    p->blocks++;
  }
  *mem = last->mem;
  return true;
}

/* Multiplications of the plain sum */
static double work_of(const shape *s) {
  static const tn__conv_dim loops[] = {CONV_N, CONV_C, CONV_K, CONV_P, CONV_Q, CONV_R, CONV_S};
  double work = 1;
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) work *= (double)s->size[loops[i]];
  return work;
}

/* Takes over a proposal if it will do. */
static bool take(tn__device *d, entry *e, const tn__dnn_choice *c) {
  bool exact = math_of(d, e->shape.dtype) == DNN_FMA_MATH,
       tensor = c->math == DNN_TENSOR_OP_MATH || c->math == DNN_TENSOR_OP_MATH_CONVERT;
  if (c->status || c->deterministic != 1 || c->algo < 0 || c->algo > 31 || !(kinds[e->shape.kind].algos >> c->algo & 1))
    return false;
  bool three = e->shape.size[CONV_R] == 3 && e->shape.size[CONV_S] == 3; /* Winograd's errors grow with the window */
  if ((exact && tensor) || (c->algo == kinds[e->shape.kind].winograd && !three) || !find_space(d, c->memory, &e->space))
    return false;
  e->algo = c->algo;
  e->size = c->memory;
  return true;
}

/* The first of the library's proposals that will do, large f32 by Winograd's way if it is among them. */
static int choose(tn__device *d, entry *e) {
  const tn__cuda *self = d->self;
  const tn__cuda_dnn *dnn = self->convs->dnn;
  tn__dnn_choice choice[CHOICES];
  int kind = e->shape.kind, math = math_of(d, e->shape.dtype), found = 0;
  choose_fn fn;
  find_function(dnn, kinds[kind].choose, &fn);
  int failed = fn(self->convs->handle, e->operand[kinds[kind].a], e->operand[kinds[kind].b], e->conv, e->operand[kind],
                  CHOICES, &found, choice);
  bool deep = kind != CONV_DATA || !tn__target_is_thin(&d->target, (double)e->shape.size[CONV_C],
                                                       (double)e->shape.size[CONV_K]);
  bool large = math == DNN_FMA_MATH && deep && tn__target_is_much(&d->target, work_of(&e->shape));
  for (int any = !large; !failed && any < 2; any++)
    for (int i = 0; i < found; i++)
      if ((any || choice[i].algo == kinds[kind].winograd) && take(d, e, &choice[i]))
        return dnn->conv_set_math(e->conv, math == DNN_FMA_MATH ? math : choice[i].math);
  return failed ? failed : -1;
}

static int fill_entry(tn__device *d, entry *e, const shape *s) {
  const tn__cuda *self = d->self;
  int failed = 0;
  e->shape = *s;
  for (int o = 0; o < 3 && !failed; o++) failed = describe(self->convs->dnn, e, o);
  if (!failed) failed = describe_conv(self->convs->dnn, e, math_of(d, s->dtype));
  return failed ? failed : choose(d, e);
}

/* The shape's entry; a new one takes the place of another if the table is full there.  NULL, with *failed, if the
 * library refuses. */
static const entry *find_entry(tn__device *d, const shape *s, tn_status *status, int *failed) {
  const tn__cuda *self = d->self;
  tn__cuda_convs *p = self->convs;
  uint64_t at = tn__hash_bytes(s, sizeof *s, 0);
  entry *e = NULL;
  for (uint64_t i = 0; i < PROBES; i++) {
    e = &p->entry[(at + i) % SHAPES];
    if (!e->shape.used) break;
    if (!memcmp(&e->shape, s, sizeof *s)) return e;
    if (i == PROBES - 1) e = &p->entry[at % SHAPES];
  }
  *status = tn__cuda_enter(d); /* the choice cannot be recorded */
  if (*status) return NULL;
  forget_entry(p->dnn, e);
  *failed = fill_entry(d, e, s);
  if (!*failed) return e;
  forget_entry(p->dnn, e);
  return NULL;
}

/* ---- convolving ---- */

static bool is_empty(const tn__conv_call *v, const uint8_t *dim, int n) {
  for (int i = 0; i < n; i++)
    if (v->size[dim ? dim[i] : i] == 0) return true;
  return false;
}

/* A sum over nothing: out = beta out. */
static tn_status clear(tn__device *d, const tn__conv_call *v) {
  const tn__cuda *self = d->self;
  const uint8_t *dim = tn__conv_dims[v->kind];
  size_t row = (size_t)(v->size[dim[1]] * v->size[dim[2]] * v->size[dim[3]]) * tn__size_of(v->dtype);
  if (v->beta == 1) return TN_OK;
  if (v->beta != 0) {
    tn__error(d->ctx, TN_ENOTSUP, "convolution over nothing with beta = %g", v->beta);
    return TN_ENOTSUP;
  }
  tn__cu_address out = (tn__cu_address)(uintptr_t)v->operand[v->kind];
  return tn__cuda_check(d, self->api->fill_rows(out, row, 0, row, (size_t)v->size[dim[0]], self->stream),
                        "clearing a convolution");
}

static tn_status check_sizes(tn__device *d, const tn__conv_call *v) {
  int64_t most = 0;
  for (int i = 0; i < CONV_DIMS; i++)
    if (v->size[i] > most) most = v->size[i];
  for (int i = 0; i < 6; i++) {
    int64_t n = (i < 2 ? v->stride : i < 4 ? v->pad : v->dilation)[i % 2];
    if (n > most) most = n;
  }
  if (most <= INT32_MAX) return TN_OK;
  tn__error(d->ctx, TN_ENOTSUP, "convolution: a size of %lld is more than cuDNN takes", (long long)most);
  return TN_ENOTSUP;
}

static void explain(tn__device *d, const tn__conv_call *v, int failed) {
  static const char *const what[] = {[CONV_FORWARD] = "convolution", [CONV_DATA] = "images' gradient of a convolution",
                                     [CONV_FILTER] = "filters' gradient of a convolution"};
  const tn__cuda *self = d->self;
  const int64_t *s = v->size;
  tn__error(d->ctx, TN_ERUN, "%s: %s of %lldx%lldx%lldx%lld with %lldx%lldx%lldx%lld, %s: cuDNN: %s", d->name,
            what[v->kind], (long long)s[CONV_N], (long long)s[CONV_C], (long long)s[CONV_H], (long long)s[CONV_W],
            (long long)s[CONV_K], (long long)s[CONV_C], (long long)s[CONV_R], (long long)s[CONV_S],
            tn__dtypes[v->dtype].name, failed == -1 ? "it knows no way" : self->convs->dnn->error_text(failed));
}

tn_status tn__cuda_conv(tn__device *d, const tn__conv_call *v) {
  tn__cuda *self = d->self;
  const float one = 1, beta = (float)v->beta;
  int failed = 0;
  tn_status status = check_sizes(d, v);
  if (!status) status = tn__cuda_use(d);
  if (status || is_empty(v, tn__conv_dims[v->kind], 4)) return status;
  tn__cuda_started(d, "a convolution");
  if (is_empty(v, NULL, CONV_DIMS)) return clear(d, v);
  status = v->dtype < TN_DTYPE_COUNT && types[v->dtype].math ? open_convs(d) : TN_ENOTSUP;
  if (status == TN_ENOTSUP)
    tn__error(d->ctx, TN_ENOTSUP, "there is no cuDNN library that convolves %s", tn__dtypes[v->dtype].name);
  if (status) return status;
  shape s = shape_of(v);
  const entry *e = find_entry(d, &s, &status, &failed);
  if (status) return status;
  if (e) {
    run_fn run;
    int a = kinds[v->kind].a, b = kinds[v->kind].b;
    find_function(self->convs->dnn, kinds[v->kind].run, &run);
    failed = run(self->convs->handle, &one, e->operand[a], v->operand[a], e->operand[b], v->operand[b], e->conv,
                 e->algo, (void *)(uintptr_t)e->space, e->size, &beta, e->operand[v->kind], v->operand[v->kind]);
  }
  if (!failed) return TN_OK;
  explain(d, v, failed);
  return TN_ERUN;
}
