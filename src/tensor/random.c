/* Random tensors: Philox4x32-10 over element numbers, keyed by the seed, counted by the tensor.
 *
 * Four elements, side by side, are the four words of a call, and two normal numbers the sine and the cosine of one
 * radius (tensor.h has the formulas and where they are from).  What neighbours so have in common is seen from their
 * numbers alone: it is computed once where that can be (lower/neighbours.c, render/vector_c.inc), and no result
 * depends on that. */
#include "tensor/random.h"
#include "device/device.h"
#include "ir/eval.h"
#include "tensor/cells.h"
#include "tensor/operands.h"

/* ---- the state ---- */

static void set_state(tn_ctx *c, tn_node *state, uint64_t seed, uint64_t calls) {
  tn__random *r = &c->cells->random;
  tn_node *old = r->state;
  *r = (tn__random){.state = tn__node_keep(state), .seed = seed, .calls = calls};
  tn__node_drop(c, old);
}

/* Of no device, so that random tensors go with those of any. */
static void write_state(tn_ctx *c, uint64_t seed, uint64_t calls) {
  const uint64_t words[2] = {seed, calls};
  tn__device *d = tn__device_get(c, 0);
  tn_node *two = tn__int(c, 2);
  tn__buffer *b = tn__buffer_new(d, sizeof words);
  tn_node *state = tn__storage_loose(c, TN_U64, b, &two, 1);
  d->ops->upload(d, b->mem, words, sizeof words);
  set_state(c, state, seed, calls);
}

tn_node *tn__random_state(tn_ctx *c, uint64_t *ahead) {
  tn__random *r = &c->cells->random;
  if (!r->state) write_state(c, r->seed, r->calls);
  if (ahead) *ahead = r->ahead;
  return r->state;
}

void tn__random_flush(tn_ctx *c) {
  const tn__random *r = &c->cells->random;
  if (r->ahead) write_state(c, r->seed, r->calls + r->ahead);
}

void tn__random_set_state(tn_ctx *c, tn_node *state, uint64_t calls) {
  set_state(c, state, c->cells->random.seed, calls);
}

/* The memory is written when next needed. */
tn_status tn_rng_set_state(tn_ctx *ctx, uint64_t seed, uint64_t calls) {
  if (!ctx) return TN_EINVAL;
  set_state(ctx, NULL, seed, calls);
  return TN_OK;
}

tn_status tn_manual_seed(tn_ctx *ctx, uint64_t seed) { return tn_rng_set_state(ctx, seed, 0); }

tn_status tn_rng_get_state(tn_ctx *ctx, uint64_t *seed, uint64_t *calls) {
  if (!ctx) return TN_EINVAL;
  const tn__random *r = &ctx->cells->random;
  if (seed) *seed = r->seed;
  if (calls) *calls = r->calls + r->ahead;
  return TN_OK;
}

/* ---- bits ---- */

/* One random tensor: each element draws `words` numbers of 32 bits, or each pair twice as many. */
typedef struct stream {
  tn_ctx *c;
  tn__dims shape;
  tn_node *element, *key, *counter; /* u64, all of the shape */
  int words;
  bool pairs;
} stream;

static tn_node *state_word(tn_ctx *c, int64_t i, const tn__dims *shape, uint64_t plus) {
  tn_node *begin = tn__int(c, i), *one = tn__int(c, 1);
  tn_node *x = tn__reshape(c, tn__shrink(c, tn__random_state(c, NULL), &begin, &one, NULL), NULL, 0);
  if (plus) x = tn__add(c, x, tn__const_bits(c, TN_U64, plus));
  return tn__scalar_to(c, x, shape->d, shape->rank);
}

/* In pairs, both elements of one draw the same words, twice as many. */
static stream open_stream(tn_ctx *c, const tn__dims *shape, int words, bool pairs) {
  tn_node *n = tn__int(c, 1);
  for (uint32_t i = 0; i < shape->rank; i++) n = tn__mul(c, n, shape->d[i]);
  stream s = {.c = c, .shape = *shape, .words = words, .pairs = pairs};
  s.element = tn__cast(c, tn__reshape(c, tn__iota(c, n), shape->d, shape->rank), TN_U64);
  s.key = state_word(c, 0, shape, 0);
  s.counter = state_word(c, 1, shape, c->cells->random.ahead);
  return s;
}

/* Word w of each element, u32.  Of pairs the lowest bits are set, so that what is left of the number is any
 * element's. */
static tn_node *draw(const stream *s, int w) {
  tn_ctx *c = s->c;
  tn_node *e = s->element;
  if (s->words > 1) e = tn__op2_num(c, OP_MUL, e, s->words);
  if (s->pairs) {
    tn_node *low = tn__const_bits(c, TN_U64, ~(uint64_t)(2 * s->words - 1));
    e = tn__op2(c, OP_AND, e, tn__scalar_to(c, low, e->dim, e->rank));
  }
  if (w) e = tn__op2_num(c, s->pairs ? OP_OR : OP_ADD, e, w);
  tn_node *src[3] = {e, s->key, s->counter};
  return tn__node_make(c, &(tn__make){.op = OP_PHILOX, .dtype = TN_U32, .src = src, .nsrc = 3});
}

/* The top 24 bits of a word, or 53 of two */
static tn_node *whole_part(const stream *s, int dtype, int w) {
  tn_ctx *c = s->c;
  if (dtype != TN_F64) return tn__op2_num(c, OP_SHR, draw(s, w), 8);
  tn_node *hi = tn__op2_num(c, OP_SHL, tn__cast(c, draw(s, w), TN_U64), 32);
  return tn__op2_num(c, OP_SHR, tn__op2(c, OP_OR, hi, tn__cast(c, draw(s, w + 1), TN_U64)), 11);
}

/* A multiple of 2^-24 (f32: one word) or 2^-53 (f64: two words) in [0, 1); `above` shifts it to (0, 1]. */
static tn_node *fraction(const stream *s, int dtype, int w, bool above) {
  tn_node *x = whole_part(s, dtype, w);
  if (above) x = tn__op2_num(s->c, OP_ADD, x, 1);
  return tn__op2_num(s->c, OP_MUL, tn__cast(s->c, x, dtype), dtype == TN_F64 ? 0x1p-53 : 0x1p-24);
}

/* ---- distributions ---- */

typedef struct drawing {
  int dtype, wide; /* asked for; computed in: f32 or f64 */
  int words;       /* of a fraction */
  tn__dims shape;
} drawing;

static drawing floats(tn_ctx *c, int dtype, const tn__dims *shape) {
  tn__check_dtype(c, dtype);
  if (!tn__is_float(dtype)) tn__fail(c, TN_EDTYPE, "needs a float dtype, not %s", tn__dtypes[dtype].name);
  bool f64 = dtype == TN_F64;
  return (drawing){.dtype = dtype, .wide = f64 ? TN_F64 : TN_F32, .words = f64 ? 2 : 1, .shape = *shape};
}

static tn_node *finish(tn_ctx *c, tn_node *x, int dtype) {
  c->cells->random.ahead++; /* last, so that a failed call uses up no counter */
  return tn__cast(c, x, dtype);
}

static tn_node *scaled(tn_ctx *c, tn_node *x, double scale, double offset) {
  if (scale != 1) x = tn__op2_num(c, OP_MUL, x, scale);
  return offset != 0 ? tn__op2_num(c, OP_ADD, x, offset) : x;
}

tn_node *tn__random_uniform(tn_ctx *c, int dtype, const tn__dims *shape, double lo, double hi) {
  drawing d = floats(c, dtype, shape);
  stream s = open_stream(c, &d.shape, d.words, false);
  return finish(c, scaled(c, fraction(&s, d.wide, 0, false), hi - lo, lo), d.dtype);
}

/* x (a0 + a1 z + a2 z^2 + ...) + y */
static tn_node *polynomial(tn_ctx *c, tn_node *z, const double *a, int n, tn_node *x, tn_node *y) {
  tn_node *sum = tn__literal_like(c, z, a[n - 1]);
  for (int i = n - 1; i && i--;) sum = tn__op3(c, OP_FMA, sum, z, tn__literal_like(c, z, a[i]));
  return tn__op3(c, OP_FMA, sum, x, y);
}

/* Sine (turned: 0) or cosine (1) of 2 pi times a word's fraction of 2^32, in f32: the word is so many quarters of a
 * turn, and what is left of it, at most an eighth, is exact before it is rounded.  Both are made of that, so that the
 * two of a pair have it in common. */
static tn_node *wave(tn_ctx *c, tn_node *word, tn_node *turned) {
  static const double of_sine[] = {-0x1.555556p-3, 0x1.111138p-7, -0x1.a01c9ap-13, 0x1.6d76b2p-19},
                      of_cosine[] = {0x1.555528p-5, -0x1.6bfc3p-10, 0x1.96522ap-16}; /* as in math.inc */
  tn_node *quarters = tn__add(c, tn__op2_num(c, OP_ADD, word, 0x1p29), tn__op2_num(c, OP_SHL, turned, 30));
  tn_node *left = tn__cast(c, tn__bitcast(c, tn__op2_num(c, OP_SHL, word, 2), TN_I32), TN_F32);
  tn_node *r = tn__op2_num(c, OP_MUL, left, 6.283185307179586477 * 0x1p-34), *z = tn__mul(c, r, r);
  tn_node *sine = polynomial(c, z, of_sine, 4, tn__mul(c, r, z), r);
  tn_node *cosine = polynomial(c, z, of_cosine, 3, tn__mul(c, z, z),
                               tn__op3(c, OP_FMA, z, tn__literal_like(c, z, -0.5), tn__literal_like(c, z, 1)));
  tn_node *odd = tn__op2_num(c, OP_NE, tn__op2_num(c, OP_AND, quarters, 0x1p30), 0);
  tn_node *bits = tn__bitcast(c, tn__where(c, odd, cosine, sine), TN_U32);
  return tn__bitcast(c, tn__op2(c, OP_XOR, bits, tn__op2_num(c, OP_AND, quarters, 0x1p31)), TN_F32);
}

/* So in f64, from a multiple of 2^-53. */
static tn_node *wide_wave(const stream *s, tn_node *turned) {
  tn_ctx *c = s->c;
  tn_node *x = tn__op2_num(c, OP_ADD, whole_part(s, TN_F64, 2), 0x3p51); /* sin x = cos(x + 3/4) */
  x = tn__add(c, x, tn__op2_num(c, OP_SHL, turned, 51));
  x = tn__cast(c, tn__op2_num(c, OP_AND, x, 0x1p53 - 1), TN_F64);
  return tn__op1(c, OP_COS, tn__op2_num(c, OP_MUL, x, 6.283185307179586477 * 0x1p-53));
}

/* Both of a pair are used: the cosine's is its second. */
tn_node *tn__random_normal(tn_ctx *c, int dtype, const tn__dims *shape, double mean, double std) {
  drawing d = floats(c, dtype, shape);
  stream s = open_stream(c, &d.shape, d.words, true);
  tn_node *turned = tn__op2_num(c, OP_AND, s.element, 1);
  tn_node *u1 = fraction(&s, d.wide, 0, true), *radius;
  radius = tn__op1(c, OP_SQRT, tn__op2_num(c, OP_MUL, tn__op1(c, OP_LOG, u1), -2));
  tn_node *w = d.wide == TN_F64 ? wide_wave(&s, turned) : wave(c, draw(&s, 1), tn__cast(c, turned, TN_U32));
  return finish(c, scaled(c, tn__mul(c, radius, w), std, mean), d.dtype);
}

tn_node *tn__random_bernoulli(tn_ctx *c, const tn__dims *shape, double p) {
  if (!(p >= 0 && p <= 1)) tn__fail(c, TN_EINVAL, "probability %g is outside 0..1", p);
  stream s = open_stream(c, shape, 1, false);
  return finish(c, tn__op2_num(c, OP_LT, fraction(&s, TN_F32, 0, false), p), TN_BOOL);
}

/* ---- builders.  i[0]: dtype, i[1]: rank, i[2], i[3]: integer bounds, p: shape ---- */

static tn__dims shape_of(tn_ctx *c, const tn__call *k) {
  tn__dims s;
  tn__check_dtype(c, (int)k->i[0]);
  tn__shape_in(c, k->p, (int)k->i[1], &s);
  return s;
}

static tn_node *rand_bits(tn_ctx *c, tn__call *k) {
  tn__dims shape = shape_of(c, k);
  stream s = open_stream(c, &shape, 1, false);
  return finish(c, draw(&s, 0), TN_U32);
}

static tn_node *uniform(tn_ctx *c, tn__call *k) {
  tn__dims shape = shape_of(c, k);
  return tn__random_uniform(c, (int)k->i[0], &shape, k->f[0], k->f[1]);
}

static tn_node *normal(tn_ctx *c, tn__call *k) {
  tn__dims shape = shape_of(c, k);
  return tn__random_normal(c, (int)k->i[0], &shape, k->f[0], k->f[1]);
}

static tn_node *randint(tn_ctx *c, tn__call *k) {
  tn__dims shape = shape_of(c, k);
  int dtype = (int)k->i[0];
  int64_t lo = k->i[2], hi = k->i[3];
  if (!tn__is_int(dtype)) tn__fail(c, TN_EDTYPE, "needs an integer dtype, not %s", tn__dtypes[dtype].name);
  int64_t span = 0;
  if (lo >= hi || __builtin_sub_overflow(hi, lo, &span) || span > INT64_C(1) << 32)
    tn__fail(c, TN_EINVAL, "bounds %lld..%lld: needs lo < hi <= lo + 2^32", (long long)lo, (long long)hi);
  for (int i = 0; i < 2; i++) {
    uint64_t end = (uint64_t)(i ? hi - 1 : lo), stored = tn__eval_cast(TN_I64, dtype, end);
    bool fits = tn__eval_cast(dtype, TN_I64, stored) == end && (tn__dtypes[dtype].is_signed || (int64_t)end >= 0);
    if (!fits) tn__fail(c, TN_EINVAL, "%lld does not fit %s", (long long)end, tn__dtypes[dtype].name);
  }
  stream s = open_stream(c, &shape, 1, false);
  tn_node *x = tn__cast(c, draw(&s, 0), TN_U64);
  x = tn__mul(c, x, tn__scalar_to(c, tn__const_bits(c, TN_U64, (uint64_t)span), x->dim, x->rank));
  x = tn__cast(c, tn__op2_num(c, OP_SHR, x, 32), TN_I64);
  x = tn__add(c, x, tn__scalar_to(c, tn__const_bits(c, TN_I64, (uint64_t)lo), x->dim, x->rank));
  return finish(c, x, dtype);
}

static tn_node *bernoulli(tn_ctx *c, tn__call *k) {
  tn__dims shape = shape_of(c, k);
  return tn__random_bernoulli(c, &shape, k->f[0]);
}

#define RANDOM(dtype_, ...) \
  tn__build(&(tn__call){.ctx = ctx, .i[0] = (int64_t)(dtype_), .i[1] = rank, .p = shape, __VA_ARGS__})

tn_tensor *tn_rand_bits(tn_ctx *ctx, const tn_dim *shape, int rank) {
  return RANDOM(TN_U32, .name = "tn_rand_bits", .fn = rand_bits);
}
tn_tensor *tn_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double lo, double hi) {
  return RANDOM(dtype, .name = "tn_uniform", .fn = uniform, .f[0] = lo, .f[1] = hi);
}
tn_tensor *tn_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double mean, double std) {
  return RANDOM(dtype, .name = "tn_normal", .fn = normal, .f[0] = mean, .f[1] = std);
}
tn_tensor *tn_randint(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, int64_t lo, int64_t hi) {
  return RANDOM(dtype, .name = "tn_randint", .fn = randint, .i[2] = lo, .i[3] = hi);
}
tn_tensor *tn_bernoulli(tn_ctx *ctx, const tn_dim *shape, int rank, double p) {
  return RANDOM(TN_F32, .name = "tn_bernoulli", .fn = bernoulli, .f[0] = p);
}
