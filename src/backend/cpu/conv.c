/* Convolutions as matrix products of blocks: each thread copies the windows of a block of places, as a matrix that its
 * caches hold, and multiplies it at once; the windows of all places never stand in memory.
 *
 * A window's elements are the image's under a filter, in the filter's order.  Forward, windows are multiplied by
 * filters; for the filters' gradient, what comes back at the places by windows.  For the images' gradient that is
 * multiplied by filters, which gives windows of what goes to the images: each thread adds them up in a part of the
 * images that is its own; or it is itself a convolution of what comes back, turned round.  Half floats become f32
 * as they are copied, and sums of f32 are rounded once.  What is around images counts as 0, which makes NaN of what is
 * infinite in a filter.
 *
 * All operands are in planes: rows of windows' matrices are then what lies beside each other in the images. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/half.h"
#include <stddef.h>
#include <string.h>

/* What a thread's matrices have room for, in elements: windows, sums, what is copied of filters and of what comes back.
 * Together with what the library copies of them they go into what a core caches for itself. */
enum {
  WINDOWS = 1 << 17,
  SUMS = 1 << 16,
  COPIED = 1 << 16,
  ROOM = WINDOWS + SUMS + 2 * COPIED,
  STEPS = 512,    /* elements of a window at a time */
  COLUMNS = 1024, /* places at a time */
  FILTERS = 128,  /* filters at a time, where they are copied */
  TILE = 16,      /* the library's kernels are of multiples of that */
  LEAST = 64,     /* columns that it multiplies well */
  CHUNK = 8,      /* elements that are copied at once */
  FEW = 2,        /* times as many elements has a window of few filters: what is copied of their places counts little */
  ADDING = 2,     /* times as long as copying takes adding up */
  CALL = 1 << 15, /* multiplications that take longer than a call does besides */
  SHARED = 4,     /* channels of images for which a mask or a list pays */
  MASKED = 32,    /* places: wider rows' borders are quicker cleared one by one */
  SINGLES = 64,   /* elements of a list */
  SLICES = 4,     /* for each thread */
  WORTH = 1 << 17 /* multiplications that are worth waking a thread for */
};

/* What runs once a call, or a slice, is compiled to be small. */
#define SMALL __attribute__((cold))

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t pieces(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* n cut into pieces of at most `size`: how long they are when they are as even as can be */
SMALL static int64_t even(int64_t n, int64_t size) { return n > 0 ? pieces(n, pieces(n, size)) : 1; }

/* ---- elements ---- */

/* Where a tap is at a block's places: rows of so many neighbours, each so much behind the last among the places and in
 * the image.  What is in no row is outside of the image.  Where places and images are equally wide, rows go on behind
 * each other as one, and what is outside are holes in it, as far apart as the image is wide. */
typedef struct runs {
  int64_t places;         /* of one image of the block */
  int64_t rows, n, place, next_place, at, next_at;
  int64_t step;           /* between the image's places of a row */
  int64_t nholes, hole, wide, apart;
  bool all, masked;       /* nothing is outside, but in holes; a mask has no bits of these */
  int64_t nsingles;       /* few elements are listed, one by one */
  struct {
    int32_t place, at;
  } single[SINGLES];
  uint32_t mask[COLUMNS]; /* of places */
} runs;

#define CLEAR_HOLES(y, r)                                                                                              \
  for (int64_t hole_ = 0; hole_ < (r)->nholes; hole_++)                                                                \
    for (int64_t i_ = 0; i_ < (r)->wide; i_++) (y)[(r)->hole + hole_ * (r)->apart + i_] = 0

/* f32 as what they are made of */
typedef uint32_t __attribute__((may_alias)) bits32;

/* Windows' elements of so many images, which are `apart`; takes whatever has their size.  Chunks of constant length are
 * a few vectors, without a call for what is mostly short; the end of a row is copied with what is in front of it. */
#define TAKE(name, T)                                                                                                  \
  static void name(void *restrict to, const void *restrict from, const runs *r, int64_t images, int64_t apart) {       \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    int64_t n = r->n, half = CHUNK / 2, step = r->step, nsingles = r->nsingles, places = r->places;                    \
    for (; images > 0; images--, y += places, x += apart) {                                                            \
      int64_t head = r->all ? 0 : places, tail = places;                                                               \
      if (r->rows == 1) head = r->place, tail = head + n;                                                              \
      memset(y, 0, (size_t)head * sizeof(T));                                                                          \
      memset(y + tail, 0, (size_t)(places - tail) * sizeof(T));                                                        \
      T *a = y + r->place;                                                                                             \
      const T *b = x + r->at;                                                                                          \
      for (int64_t i = 0; i < nsingles; i++) y[r->single[i].place] = x[r->single[i].at];                               \
      if (nsingles) continue;                                                                                          \
      if (r->masked) {                                                                                                 \
        const uint32_t *m = r->mask + r->place;                                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + CHUNK <= n; i += CHUNK)                                                                             \
          for (int j = 0; j < CHUNK; j++) a[i + j] = (T)(b[i + j] & (T)m[i + j]);                                      \
        for (; i < n; i++) a[i] = (T)(b[i] & (T)m[i]);                                                                 \
      } else if (step == 1 && n >= CHUNK) {                                                                            \
        for (int64_t row = r->rows; row > 0; row--, a += r->next_place, b += r->next_at) {                             \
          for (int64_t i = 0; i + CHUNK < n; i += CHUNK) memcpy(a + i, b + i, CHUNK * sizeof(T));                      \
          memcpy(a + n - CHUNK, b + n - CHUNK, CHUNK * sizeof(T));                                                     \
        }                                                                                                              \
      } else if (step == 1 && n >= half) {                                                                             \
        for (int64_t row = r->rows; row > 0; row--, a += r->next_place, b += r->next_at) {                             \
          memcpy(a, b, CHUNK / 2 * sizeof(T));                                                                         \
          memcpy(a + n - half, b + n - half, CHUNK / 2 * sizeof(T));                                                   \
        }                                                                                                              \
      } else if (n < r->rows) {                                                                                        \
        for (int64_t i = 0; i < n; i++)                                                                                \
          for (int64_t row = 0; row < r->rows; row++) a[row * r->next_place + i] = b[row * r->next_at + i * step];     \
      } else {                                                                                                         \
        for (int64_t row = r->rows; row > 0; row--, a += r->next_place, b += r->next_at) {                             \
          const T *at = b;                                                                                             \
          int64_t i = 0;                                                                                               \
          for (; i + 4 <= n; i += 4, at += 4 * step)                                                                   \
            a[i] = at[0], a[i + 1] = at[step], a[i + 2] = at[2 * step], a[i + 3] = at[3 * step];                       \
          for (; i < n; i++, at += step) a[i] = *at;                                                                   \
        }                                                                                                              \
      }                                                                                                                \
      if (!r->masked) CLEAR_HOLES(y, r);                                                                               \
    }                                                                                                                  \
  }
TAKE(take_floats, bits32)
TAKE(take_halves, uint16_t)
#undef TAKE

static void join(float *restrict y, const float *restrict x, int64_t n) {
  for (; n >= CHUNK; n -= CHUNK, y += CHUNK, x += CHUNK)
    for (int i = 0; i < CHUNK; i++) y[i] += x[i];
  for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* Adds windows' elements up where they come from; holes become 0 first. */
static void add(float *restrict y, float *restrict x, const runs *r, int64_t images, int64_t apart) {
  for (; images > 0; images--, y += apart, x += r->places) {
    float *a = y + r->at, *b = x + r->place;
    CLEAR_HOLES(x, r);
    if (r->step == 1 && r->n > 1)
      for (int64_t row = r->rows; row > 0; row--, a += r->next_at, b += r->next_place) join(a, b, r->n);
    else
      for (int64_t i = 0; i < r->n; i++)
        for (int64_t row = 0; row < r->rows; row++) a[row * r->next_at + i * r->step] += b[row * r->next_place + i];
  }
}

/* ---- what is computed ---- */

typedef struct block { /* places: rows of them are whole, or there is one; images are whole, or there is one */
  int64_t image, p, q, images, rows, width;
} block;

typedef struct area { /* of an image */
  int64_t h, w, height, width;
} area;

typedef struct conv {
  const tn__conv_call *v;
  const tn__device *d;
  const tn__half *half;    /* NULL: no half floats */
  bool turned;             /* filters and channels of what is convolved are the other way round than filters stand */
  size_t size;             /* of an element, in bytes */
  int64_t taps, window;    /* of a filter in a channel, and all its elements */
  int64_t wanted;          /* slices */
  block by;                /* its size, and the number of blocks: along images, p and q */
  int64_t nblocks[3];
  int64_t filters, steps, parts; /* of a slice; parts of a sum */
  area part;                     /* images' gradient: of an image, and the number of such areas */
  int64_t channels, nparts[2];
} conv;

static int64_t at_size(const conv *g, tn__conv_dim d) { return g->v->size[d]; }
static bool copies_filters(const conv *g) { return g->half || g->turned; }
static int64_t places(const block *b) { return b->rows * b->width; }
static int64_t columns(const block *b) { return b->images * places(b); }

typedef struct room {
  float *windows, *sums, *filters, *back;
} room;

static room room_of(const conv *g, int64_t thread) {
  float *p = tn__cpu_scratch(g->d, (int)thread);
  return (room){p, p + WINDOWS, p + WINDOWS + SUMS, p + WINDOWS + SUMS + COPIED};
}

/* Places lo..hi-1 of `n` along an axis where a tap at `offset` (in front of the padding) is in the image's lo..hi-1 */
static void meet(const conv *g, int axis, int64_t tap, int64_t lo, int64_t hi, int64_t *from, int64_t *to) {
  int64_t shift = g->v->pad[axis] - tap * g->v->dilation[axis], n = g->v->size[CONV_P + axis];
  *from = least(n, pieces(most(0, lo + shift), g->v->stride[axis]));
  *to = most(*from, least(n, pieces(most(0, hi + shift), g->v->stride[axis])));
}

/* Where tap number t is in the part of an image, `at` counting places of the part: of the block's places, of which
 * there are at most COLUMNS, for so many channels of images. */
static void find_runs(const conv *g, const block *b, const area *part, int64_t t, int64_t uses, runs *out) {
  int64_t tap[2] = {t / at_size(g, CONV_S), t % at_size(g, CONV_S)}, lo[2], hi[2], at[2];
  const int64_t first[2] = {b->p, b->q}, count[2] = {b->rows, b->width}, origin[2] = {part->h, part->w},
                size[2] = {part->height, part->width}, *stride = g->v->stride;
  for (int i = 0; i < 2; i++) {
    meet(g, i, tap[i], origin[i], origin[i] + size[i], &lo[i], &hi[i]);
    lo[i] = most(lo[i], first[i]), hi[i] = most(lo[i], least(hi[i], first[i] + count[i]));
    at[i] = lo[i] * stride[i] + tap[i] * g->v->dilation[i] - g->v->pad[i] - origin[i];
  }
  int64_t rows = hi[0] - lo[0], n = hi[1] - lo[1];
  bool any = rows > 0 && n > 0, goes_on = any && stride[0] == 1 && stride[1] == 1 && b->width == part->width;
  memset(out, 0, offsetof(runs, single));
  out->places = places(b), out->step = stride[1];
  if (!any) return;
  out->all = rows * n == out->places;
  out->rows = rows, out->n = n;
  out->place = (lo[0] - b->p) * b->width + lo[1] - b->q, out->next_place = b->width;
  out->at = at[0] * part->width + at[1], out->next_at = stride[0] * part->width;
  bool tiny = uses >= SHARED && rows * n <= SINGLES && (n < CHUNK / 2 || out->step != 1);
  for (int64_t i = 0; tiny && !goes_on && i < rows * n; i++, out->nsingles++) {
    int64_t row = i / n, k = i % n;
    out->single[i].place = (int32_t)(out->place + row * out->next_place + k);
    out->single[i].at = (int32_t)(out->at + row * out->next_at + k * out->step);
  }
  if (!goes_on) return;
  out->rows = 1, out->n = (rows - 1) * b->width + n;
  if (n == b->width) return;
  out->nholes = rows - 1, out->hole = out->place + n, out->wide = b->width - n, out->apart = b->width;
  out->masked = uses >= SHARED && rows > 1 && b->width <= MASKED;
  if (!out->masked) return;
  memset(out->mask, 0xff, (size_t)out->places * sizeof *out->mask);
  CLEAR_HOLES(out->mask, out);
}

/* ---- copying ---- */

static void widen(const conv *g, float *to, const void *from, int64_t n) {
  if (g->half)
    g->half->widen(to, from, (size_t)n);
  else
    memcpy(to, from, (size_t)n * sizeof *to);
}

/* ... of few elements */
static void copy(const conv *g, float *to, const void *from, int64_t n) {
  const float *x = from;
  if (g->half)
    widen(g, to, from, n);
  else
    for (; n > 0; n -= CHUNK, to += CHUNK, x += CHUNK) {
      if (n >= CHUNK)
        memcpy(to, x, CHUNK * sizeof *to);
      else
        for (int64_t i = 0; i < n; i++) to[i] = x[i];
    }
}

static char *element(const conv *g, int operand, int64_t at) {
  return (char *)g->v->operand[operand] + (size_t)at * g->size;
}

/* Elements lo..hi-1 of all windows of the block */
static void copy_windows(const conv *g, const block *b, int64_t lo, int64_t hi, float *to) {
  runs r;
  _Alignas(64) uint16_t halves[COLUMNS];
  int64_t taps = g->taps, image = at_size(g, CONV_H) * at_size(g, CONV_W),
          apart = at_size(g, CONV_C) * image, n = columns(b);
  area all_of = {0, 0, at_size(g, CONV_H), at_size(g, CONV_W)};
  for (int64_t t = 0; t < taps; t++) {
    find_runs(g, b, &all_of, t, (hi - lo) / taps * b->images, &r);
    for (int64_t c = pieces(lo - t, taps); c * taps + t < hi; c++) {
      float *y = to + (c * taps + t - lo) * n;
      const void *x = element(g, CONV_DATA, b->image * apart + c * image);
      if (g->half)
        take_halves(halves, x, &r, b->images, apart), widen(g, y, halves, n);
      else
        take_floats(y, x, &r, b->images, apart);
    }
  }
}

/* Elements lo..hi-1 (at most STEPS) of n filters, where they stand or copied */
static const void *take_filters(const conv *g, int64_t k, int64_t n, int64_t lo, int64_t hi, float *to, int64_t *ld) {
  *ld = copies_filters(g) ? hi - lo : g->window;
  for (int64_t i = 0, first = lo / g->taps * g->taps; g->turned && i < n; i++)
    for (int64_t j = lo, channel = first, length; j < hi; j += length, channel += g->taps) {
      length = least(channel + g->taps, hi) - j;
      copy(g, to + i * *ld + j - lo,
           element(g, CONV_FILTER, channel * at_size(g, CONV_K) + (k + i) * g->taps + j - channel), length);
    }
  if (g->turned) return to;
  if (!g->half) return element(g, CONV_FILTER, k * g->window + lo);
  for (int64_t i = 0; i < n; i++)
    widen(g, to + i * *ld, element(g, CONV_FILTER, (k + i) * g->window + lo), hi - lo);
  return to;
}

/* The results' element for filter k at the block's first place, of its image number i */
static char *result_at(const conv *g, const block *b, int64_t i, int64_t k) {
  int64_t plane = (b->image + i) * at_size(g, CONV_K) + k;
  return element(g, CONV_FORWARD, (plane * at_size(g, CONV_P) + b->p) * at_size(g, CONV_Q) + b->q);
}

/* What came back for n filters at the block's places, as it stands or copied */
static const void *take_back(const conv *g, const block *b, int64_t k, int64_t n, float *to, int64_t *ld) {
  *ld = at_size(g, CONV_P) * at_size(g, CONV_Q);
  if (!g->half && b->images == 1) return result_at(g, b, 0, k);
  *ld = columns(b);
  for (int64_t r = 0; r < n; r++)
    for (int64_t i = 0; i < b->images; i++)
      widen(g, to + r * *ld + i * places(b), result_at(g, b, i, k + r), places(b));
  return to;
}

/* n sums become neighbours of the result. */
static void store(const conv *g, void *to, const float *from, int64_t n) {
  if (g->half)
    g->half->round(to, from, (size_t)n);
  else
    memcpy(to, from, (size_t)n * sizeof *from);
}

static tn__product product(int64_t m, int64_t n, int64_t k) {
  return (tn__product){.dtype = TN_F32, .m = m, .n = n, .k = k};
}

/* ---- blocks ---- */

SMALL static block block_at(const conv *g, int64_t i) {
  int64_t q = i % g->nblocks[2] * g->by.width, p = i / g->nblocks[2] % g->nblocks[1] * g->by.rows,
          image = i / g->nblocks[2] / g->nblocks[1] * g->by.images;
  return (block){image,
                 p,
                 q,
                 least(g->by.images, at_size(g, CONV_N) - image),
                 least(g->by.rows, at_size(g, CONV_P) - p),
                 least(g->by.width, at_size(g, CONV_Q) - q)};
}

static int64_t count_blocks(const conv *g) {
  return g->nblocks[0] * g->nblocks[1] * g->nblocks[2];
}

/* Blocks of at most n places: of several images where what stands in planes has to be copied anyway, or is so little
 * that the library's time for a call would count, or is little besides the windows */
SMALL static void cut_blocks(conv *g, int64_t n) {
  int64_t p = at_size(g, CONV_P), q = at_size(g, CONV_Q), images = at_size(g, CONV_N);
  bool in_place = !g->half && g->window < FEW * at_size(g, CONV_K);
  double work = (double)g->window * (double)at_size(g, CONV_K) * (double)p * (double)q;
  g->by = (block){.images = 1, .rows = 1, .width = q};
  if (q > n)
    g->by.width = even(q, n);
  else if (p > n / q)
    g->by.rows = even(p, n / q);
  else
    g->by.rows = p, g->by.images = in_place && work >= CALL ? 1 : even(images, n / (p * q));
  g->nblocks[0] = pieces(images, g->by.images);
  g->nblocks[1] = pieces(p, g->by.rows);
  g->nblocks[2] = pieces(q, g->by.width);
}

/* Places for a block, of which there is to be one for each slice wanted, but of `at_least` places */
SMALL static int64_t places_for(const conv *g, int64_t at_least, int64_t at_most) {
  int64_t all = at_size(g, CONV_N) * at_size(g, CONV_P) * at_size(g, CONV_Q), n = pieces(all, g->wanted);
  return least(most(pieces(n, TILE) * TILE, at_least), at_most);
}

/* ---- forward ---- */

SMALL static void plan_forward(conv *g) {
  int64_t k = at_size(g, CONV_K);
  g->steps = even(g->window, STEPS);
  int64_t together = least(COLUMNS, WINDOWS / g->steps);
  /* filters that are copied are so for each block: all at once, and for many places */
  if (g->half) together = least(together, most(2 * FILTERS, SUMS / k));
  cut_blocks(g, places_for(g, copies_filters(g) ? 2 * FILTERS : LEAST, together));
  int64_t n = columns(&g->by), missing = pieces(g->wanted, count_blocks(g)), at_most = k;
  if (g->half || g->by.images > 1) at_most = least(at_most, SUMS / n);
  if (copies_filters(g)) at_most = least(at_most, COPIED / g->steps);
  if (missing > 1) at_most = least(at_most, most(LEAST, pieces(pieces(k, missing), TILE) * TILE));
  g->filters = even(k, at_most);
}

static void forward(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  room at = room_of(g, thread);
  int64_t tiles = pieces(at_size(g, CONV_K), g->filters), k = slice % tiles * g->filters;
  block b = block_at(g, slice / tiles);
  bool in_place = !g->half && b.images == 1;
  tn__product x = product(least(g->filters, at_size(g, CONV_K) - k), columns(&b), 0);
  x.c = in_place ? (void *)result_at(g, &b, 0, k) : at.sums;
  x.ldc = in_place ? at_size(g, CONV_P) * at_size(g, CONV_Q) : x.n;
  x.b = at.windows, x.ldb = x.n;
  for (int64_t j = 0; j < g->window; j += g->steps, x.beta = 1) {
    x.k = least(g->steps, g->window - j);
    x.a = take_filters(g, k, x.m, j, j + x.k, at.filters, &x.lda);
    copy_windows(g, &b, j, j + x.k, at.windows);
    tn__cpu_multiply(&x);
  }
  for (int64_t r = 0; !in_place && r < x.m; r++)
    for (int64_t i = 0; i < b.images; i++)
      store(g, result_at(g, &b, i, k + r), at.sums + r * x.n + i * places(&b), places(&b));
}

/* ---- the filters' gradient ---- */

/* Tiles of the filters' elements.  Where these are few, the places are shared out, too, and each slice leaves its sums
 * where it has room, to be added up in their order. */
SMALL static void plan_filter(conv *g) {
  int64_t k = at_size(g, CONV_K), threads = tn__pool_threads(g->d->ctx->pool);
  g->filters = even(k, 2 * FILTERS);
  /* the library takes up to three times as long for few rows if it has many columns */
  g->steps = even(g->window, least(k <= TILE ? STEPS / 2 : 2 * STEPS, SUMS / g->filters));
  cut_blocks(g, places_for(g, LEAST, least(least(COLUMNS, WINDOWS / g->steps), COPIED / g->filters)));
  int64_t tiles = pieces(k, g->filters) * pieces(g->window, g->steps), blocks = count_blocks(g);
  g->parts = most(1, least(least(threads, g->wanted) / tiles, blocks));
}

/* m filters' elements j..j+n-1 */
static void store_filters(const conv *g, int64_t k, int64_t m, int64_t j, int64_t n, const float *from) {
  for (int64_t i = 0; i < m; i++) store(g, element(g, CONV_FILTER, (k + i) * g->window + j), from + i * n, n);
}

typedef struct tile { /* of filters and their elements */
  int64_t k, j, m, n;
} tile;

SMALL static tile tile_at(const conv *g, int64_t i) {
  int64_t across = pieces(g->window, g->steps), k = i / across * g->filters, j = i % across * g->steps;
  return (tile){k, j, least(g->filters, at_size(g, CONV_K) - k), least(g->steps, g->window - j)};
}

static void sum_filters(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  room at = room_of(g, thread);
  tile t = tile_at(g, slice / g->parts);
  int64_t blocks = count_blocks(g), part = slice % g->parts, lo = blocks * part / g->parts,
          hi = blocks * (part + 1) / g->parts;
  tn__product x = product(t.m, t.n, 0);
  x.c = g->parts > 1 ? room_of(g, slice).sums : at.sums;
  x.ldc = t.n;
  x.trans_b = true;
  for (int64_t i = lo; i < hi; i++, x.beta = 1) {
    block b = block_at(g, i);
    x.k = columns(&b);
    x.a = take_back(g, &b, t.k, t.m, at.back, &x.lda);
    copy_windows(g, &b, t.j, t.j + t.n, at.windows);
    x.b = at.windows, x.ldb = x.k;
    tn__cpu_multiply(&x);
  }
  if (g->parts == 1) store_filters(g, t.k, t.m, t.j, t.n, x.c);
}

static void join_filters(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  tile t = tile_at(g, slice);
  float *first = room_of(g, slice * g->parts).sums;
  (void)thread;
  for (int64_t i = 1; i < g->parts; i++) join(first, room_of(g, slice * g->parts + i).sums, t.m * t.n);
  store_filters(g, t.k, t.m, t.j, t.n, first);
}

/* ---- the images' gradient ---- */

/* Parts of images: of all channels or some, and of all rows or some. */
SMALL static void plan_data(conv *g) {
  int64_t c = at_size(g, CONV_C), h = at_size(g, CONV_H), w = at_size(g, CONV_W), n = at_size(g, CONV_N);
  int64_t taps = g->taps, halo = (at_size(g, CONV_R) - 1) * g->v->dilation[0],
          across = (at_size(g, CONV_S) - 1) * g->v->dilation[1];
  g->by.images = 1;
  g->channels = even(c, most(1, STEPS / taps));
  g->part.width = even(w, most(1, SUMS / g->channels));
  g->part.height = even(h, most(1, SUMS / (g->channels * g->part.width)));
  int64_t have = n * pieces(c, g->channels) * pieces(w, g->part.width) * pieces(h, g->part.height);
  int64_t missing = pieces(g->wanted, have);
  if (missing > 1 && g->channels > 1) {
    int64_t fewer = even(g->channels, most(pieces(TILE, taps), g->channels / missing));
    missing = pieces(missing, pieces(g->channels, fewer));
    g->channels = fewer;
  }
  if (missing > 1) {
    int64_t lower = even(g->part.height, most(halo + 1, g->part.height / missing));
    missing = pieces(missing, pieces(g->part.height, lower));
    g->part.height = lower;
  }
  if (missing > 1) g->part.width = even(g->part.width, most(most(LEAST, 4 * across), g->part.width / missing));
  int64_t size = g->channels * h * w, columns_of = at_size(g, CONV_P) * at_size(g, CONV_Q);
  if (g->part.height == h && g->part.width == w && have > g->wanted)
    g->by.images = even(n, most(1, least(least(have / g->wanted, SUMS / size), LEAST / most(1, columns_of))));
  g->nparts[0] = pieces(h, g->part.height), g->nparts[1] = pieces(w, g->part.width);
}

typedef struct share { /* of the images' gradient, what one slice computes; `sums` of it */
  area part;
  int64_t image, images, c, channels;
  room at;
} share;

/* Elements lo..hi-1 of windows go where they come from. */
static void add_windows(const conv *g, const share *s, const block *b, int64_t lo, int64_t hi) {
  runs r;
  int64_t taps = g->taps, size = s->part.height * s->part.width;
  for (int64_t t = 0; t < taps; t++) {
    find_runs(g, b, &s->part, t, 1, &r);
    for (int64_t c = pieces(lo - t, taps); c * taps + t < hi; c++)
      add(s->at.sums + (c - s->c) * size, s->at.windows + (c * taps + t - lo) * columns(b), &r, b->images,
          s->channels * size);
  }
}

/* Elements lo..hi-1 of the windows at the block's places */
static void spread_back(const conv *g, const share *s, const block *b, int64_t lo, int64_t hi) {
  int64_t k = at_size(g, CONV_K), each = even(k, g->half || b->images > 1 ? FILTERS : k);
  tn__product x = product(hi - lo, columns(b), 0);
  x.c = s->at.windows, x.ldc = x.n, x.trans_a = true;
  for (int64_t i = 0; i < k; i += each, x.beta = 1) {
    x.k = least(each, k - i);
    x.a = take_filters(g, i, x.k, lo, hi, s->at.filters, &x.lda);
    x.b = take_back(g, b, i, x.k, s->at.back, &x.ldb);
    tn__cpu_multiply(&x);
  }
  add_windows(g, s, b, lo, hi);
}

/* Elements lo..hi-1 of all windows that meet the part */
static void spread(const conv *g, const share *s, int64_t lo, int64_t hi) {
  int64_t from[2], to[2], other, first[] = {s->part.h, s->part.w}, end[] = {s->part.height, s->part.width};
  for (int i = 0; i < 2; i++) {
    end[i] += first[i];
    meet(g, i, g->v->size[CONV_R + i] - 1, first[i], end[i], &from[i], &other);
    meet(g, i, 0, first[i], end[i], &other, &to[i]);
  }
  if (s->images > 1) from[0] = from[1] = 0, to[0] = at_size(g, CONV_P), to[1] = at_size(g, CONV_Q);
  int64_t each = even(hi - lo, STEPS);
  int64_t n = least(COPIED / FILTERS, WINDOWS / each), width = to[1] - from[1];
  bool single = s->images == 1 && (width < at_size(g, CONV_Q) || width > n);
  int64_t rows = single ? 1 : s->images > 1 ? at_size(g, CONV_P) : most(1, n / most(1, width));
  for (int64_t p = from[0]; p < to[0]; p += rows)
    for (int64_t q = from[1]; q < to[1]; q += single ? n : width) {
      block b = {s->image, p, q, s->images, least(rows, to[0] - p), single ? least(n, to[1] - q) : width};
      for (int64_t j = lo; j < hi; j += each) spread_back(g, s, &b, j, least(hi, j + each));
    }
}

static void sum_images(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  int64_t c = at_size(g, CONV_C), h = at_size(g, CONV_H), w = at_size(g, CONV_W), taps = g->taps,
          i = slice, tiles = pieces(c, g->channels);
  share s = {.at = room_of(g, thread)};
  s.part.w = i % g->nparts[1] * g->part.width, i /= g->nparts[1];
  s.part.h = i % g->nparts[0] * g->part.height, i /= g->nparts[0];
  s.c = i % tiles * g->channels;
  s.image = i / tiles * g->by.images;
  s.part.width = least(g->part.width, w - s.part.w);
  s.part.height = least(g->part.height, h - s.part.h);
  s.channels = least(g->channels, c - s.c), s.images = least(g->by.images, at_size(g, CONV_N) - s.image);
  int64_t rows = s.images * s.channels * s.part.height;
  memset(s.at.sums, 0, (size_t)(rows * s.part.width) * sizeof(float));
  spread(g, &s, s.c * taps, (s.c + s.channels) * taps);
  for (int64_t r = 0; r < rows; r++) {
    int64_t plane = r / s.part.height, image = s.image + plane / s.channels, channel = s.c + plane % s.channels;
    int64_t at = ((image * c + channel) * h + s.part.h + r % s.part.height) * w + s.part.w;
    store(g, element(g, CONV_DATA, at), s.at.sums + r * s.part.width, s.part.width);
  }
}

/* ---- calls ---- */

bool tn__cpu_has_conv(tn__device *d, int dtype) {
  if (tn__dtype_acc(dtype) != TN_F32 || !tn__cpu_has_gemm(d, dtype)) return false;
  tn__cpu_grow_scratch(d, ROOM * sizeof(float));
  return true;
}

static bool is_empty(const tn__conv_call *v, const uint8_t *dim, int n) {
  for (int i = 0; i < n; i++)
    if (v->size[dim[i]] == 0) return true;
  return false;
}

/* What is summed up over nothing at all */
SMALL static void clear(const conv *g) {
  int64_t n = 1;
  for (int i = 0; i < 4; i++) n *= g->v->size[tn__conv_dims[g->v->kind][i]];
  memset(g->v->operand[g->v->kind], 0, (size_t)n * g->size);
}

typedef struct way {
  void (*plan)(conv *g);
  tn__slice_fn slice;
} way;

SMALL static int64_t count_slices(const conv *g) {
  int64_t k = pieces(at_size(g, CONV_K), g->filters), steps = pieces(g->window, g->steps);
  switch (g->v->kind) {
  case CONV_FORWARD: return count_blocks(g) * k;
  case CONV_FILTER: return k * steps * g->parts;
  case CONV_DATA:
  default:
    return pieces(at_size(g, CONV_N), g->by.images) * pieces(at_size(g, CONV_C), g->channels) * g->nparts[0] *
           g->nparts[1];
  }
}

SMALL static void convolve(conv *g) {
  static const way ways[] = {[CONV_DATA] = {plan_data, sum_images},
                             [CONV_FILTER] = {plan_filter, sum_filters},
                             [CONV_FORWARD] = {plan_forward, forward}};
  tn__pool *pool = g->d->ctx->pool;
  int64_t threads = tn__pool_threads(pool);
  double work = (double)g->window * (double)at_size(g, CONV_K) * (double)at_size(g, CONV_N) *
                (double)at_size(g, CONV_P) * (double)at_size(g, CONV_Q);
  g->wanted = threads == 1 ? 1 : SLICES * threads;
  if (work < (double)g->wanted * WORTH) g->wanted = most(1, (int64_t)(work / WORTH));
  g->filters = g->steps = g->parts = 1;
  ways[g->v->kind].plan(g);
  int64_t n = count_slices(g);
  tn__pool_run(pool, ways[g->v->kind].slice, g, n);
  if (g->v->kind == CONV_FILTER && g->parts > 1) tn__pool_run(pool, join_filters, g, n / g->parts);
}

/* Are all filters' elements finite?  Times the zeros around what is convolved they would be none. */
SMALL static bool are_finite(const conv *g) {
  int64_t n = at_size(g, CONV_K) * g->window, each;
  float x[COLUMNS];
  uint32_t bits[CHUNK], all[CHUNK] = {0}, any = 0;
  for (int64_t i = 0; i < n; i += each) {
    each = least(COLUMNS, n - i);
    widen(g, x, element(g, CONV_FILTER, i), each);
    for (int64_t j = each; j % CHUNK; j++) x[j] = 0;
    for (int64_t j = 0; j < each; j += CHUNK) {
      memcpy(bits, x + j, sizeof bits);
      for (int b = 0; b < CHUNK; b++) all[b] |= (bits[b] & 0x7f800000) + 0x00800000;
    }
  }
  for (int b = 0; b < CHUNK; b++) any |= all[b];
  return !(any >> 31);
}

/* Where windows are put at every place, what goes to images is what came back, convolved with filters whose taps go
 * the other way.  That copies windows of as many channels as there are filters, where adding up goes through those of
 * all channels; and filters, which takes many places to pay. */
SMALL static bool turns(const conv *g) {
  double all = (double)at_size(g, CONV_H) * (double)at_size(g, CONV_W);
  bool everywhere = true;
  for (int i = 0; i < 2; i++) everywhere &= g->v->stride[i] == 1 || g->v->size[CONV_P + i] == 1;
  bool many = all <= INT32_MAX && all * (double)at_size(g, CONV_N) >= 2 * FILTERS;
  return everywhere && many && g->v->kind == CONV_DATA && at_size(g, CONV_K) <= ADDING * at_size(g, CONV_C) &&
         are_finite(g);
}

SMALL static tn__conv_call turn(const tn__conv_call *v) {
  tn__conv_call x = *v;
  x.kind = CONV_FORWARD;
  x.size[CONV_C] = v->size[CONV_K], x.size[CONV_K] = v->size[CONV_C];
  x.operand[CONV_DATA] = v->operand[CONV_FORWARD], x.operand[CONV_FORWARD] = v->operand[CONV_DATA];
  for (int i = 0; i < 2; i++) {
    x.size[CONV_H + i] = v->size[CONV_P + i], x.size[CONV_P + i] = v->size[CONV_H + i];
    x.stride[i] = 1, x.pad[i] = -v->pad[i], x.dilation[i] = -v->dilation[i];
  }
  return x;
}

/* Row distances are the library's numbers. */
SMALL static tn_status check_call(const conv *g) {
  double k = (double)at_size(g, CONV_K), all = (double)at_size(g, CONV_P) * (double)at_size(g, CONV_Q);
  bool beta = !(g->v->beta >= 0 && g->v->beta <= 0);
  bool fits = (double)g->window <= INT32_MAX && k <= INT32_MAX && all <= INT32_MAX;
  if (fits && !beta && !g->v->channels_last) return TN_OK;
  tn__error(
      g->d->ctx, TN_ENOTSUP,
      "convolution: %.0f filters of %lld elements at %.0f places are more than the BLAS library takes, or beta is "
      "not 0, or channels are last",
      k, (long long)g->window, all);
  return TN_ENOTSUP;
}

SMALL tn_status tn__cpu_conv(tn__device *d, const tn__conv_call *v) {
  tn_status status = tn__cpu_need_library(d, v->dtype);
  if (status || is_empty(v, tn__conv_dims[v->kind], 4)) return status;
  tn__cpu_has_conv(d, v->dtype); /* makes room, if nobody asked before */
  conv g = {.v = v, .d = d, .half = tn__half_of(v->dtype, d->ctx->vector_bytes), .size = tn__size_of(v->dtype)};
  g.taps = at_size(&g, CONV_R) * at_size(&g, CONV_S);
  g.window = at_size(&g, CONV_C) * g.taps;
  status = check_call(&g);
  if (status) return status;
  bool empty = is_empty(v, tn__conv_summed[v->kind], 3) || g.window == 0;
  tn__conv_call forward;
  if (!empty && turns(&g)) {
    forward = turn(v);
    g.v = &forward, g.turned = true;
    g.window = at_size(&g, CONV_C) * g.taps;
  }
  if (empty)
    clear(&g);
  else
    convolve(&g);
  return TN_OK;
}
