/* Convolutions as matrix products of blocks: each thread copies the windows of a block of places, as a matrix that its
 * caches hold, and multiplies it at once; the windows of all places never stand in memory.
 *
 * A window's elements are the image's under a filter, in the filter's order.  Forward, windows are multiplied by
 * filters; for the filters' gradient, what comes back at the places by windows.  For the images' gradient that is
 * multiplied by filters, which gives windows of what goes to the images: each thread adds them up in a part of the
 * images that is its own.  Half floats become f32 as they are copied, and sums of f32 are rounded once.  Taps of a
 * filter that are outside of the images wherever it is put are left out.
 *
 * An operand is in planes or has its channels last.  A block's windows are a matrix of a row for each element in the
 * one case, and for each place in the other: rows then lie as the image does. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/half.h"
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
  SHORT = 4,      /* elements: shorter rows are copied one by one */
  CHUNK = 32,     /* bytes that are copied at once */
  SLICES = 4,     /* for each thread */
  WORTH = 1 << 17 /* multiplications that are worth waking a thread for */
};

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t quotient_up(int64_t a, int64_t b) {
  return a > 0 ? (a - 1) / b + 1 : -(-a / b);
}

/* n cut into pieces of at most `size`: how long they are when they are as even as can be */
static int64_t even(int64_t n, int64_t size) {
  return n > 0 ? quotient_up(n, quotient_up(n, size)) : 1;
}

/* ---- elements ---- */

/* Neighbouring places of a block, and the place of the image that a tap is at for the first of them */
typedef struct run {
  int64_t at;
  int32_t place, n;
} run;

/* Where a tap is at a block's places.  What is in no run is outside of the image; so are the holes of runs, which are
 * as good as whole otherwise: where places and images are equally wide, the next row's run goes on behind the last. */
typedef struct runs {
  int64_t n, nholes, places; /* places: of one image of the block */
  int64_t step;              /* between the image's places of a run */
  bool all;                  /* nothing is outside, but in holes */
  run run[COLUMNS];
  run hole[COLUMNS];
} runs;

/* Of so many images, whose windows have `places` elements each: copies, and adds up, which makes holes 0 first */
typedef struct moves { /* by the size of elements */
  void (*take)(void *restrict to, const void *restrict from, const runs *r, int64_t images, int64_t apart);
  void (*pick)(void *restrict to, const void *restrict from, const int64_t *at, int64_t n);
} moves;

typedef struct sums { /* by the type of sums */
  void (*add)(void *restrict to, void *restrict from, const runs *r, int64_t images, int64_t apart);
  void (*join)(void *restrict to, const void *restrict from, int64_t n);
  void (*scale)(void *restrict to, const void *restrict old, double beta, int64_t n); /* adds beta * old */
} sums;

/* Chunks of constant length are a few vectors, without a call for what is mostly short. */
#define MOVES(T)                                                                                                       \
  static void copy_##T(T *restrict y, const T *restrict x, int64_t n) {                                                \
    enum { SOME = CHUNK / sizeof(T) };                                                                                 \
    for (; n >= SOME; n -= SOME, y += SOME, x += SOME) memcpy(y, x, CHUNK);                                            \
    for (int64_t i = 0; i < n; i++) y[i] = x[i];                                                                       \
  }                                                                                                                    \
  static void drop_##T(T *y, const runs *r) {                                                                          \
    for (int64_t i = 0; i < r->nholes; i++)                                                                            \
      for (int32_t k = 0; k < r->hole[i].n; k++) y[r->hole[i].place + k] = 0;                                          \
  }                                                                                                                    \
  static void take_##T(void *restrict to, const void *restrict from, const runs *r, int64_t images, int64_t apart) {   \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    for (; images > 0; images--, y += r->places, x += apart) {                                                         \
      int64_t head = r->all ? 0 : r->places, tail = head;                                                              \
      if (r->n == 1) head = r->run->place, tail = head + r->run->n;                                                    \
      for (int64_t i = 0; i < head; i++) y[i] = 0;                                                                     \
      for (int64_t i = tail; r->n == 1 && i < r->places; i++) y[i] = 0;                                                \
      if (r->n && r->run[0].n == 1)                                                                                    \
        for (int64_t i = 0; i < r->n; i++) y[r->run[i].place] = x[r->run[i].at];                                       \
      else                                                                                                             \
        for (const run *k = r->run; k < r->run + r->n; k++) {                                                          \
          if (r->step == 1)                                                                                            \
            copy_##T(y + k->place, x + k->at, k->n);                                                                   \
          else                                                                                                         \
            for (int64_t i = 0; i < k->n; i++) y[k->place + i] = x[k->at + i * r->step];                               \
        }                                                                                                              \
      drop_##T(y, r);                                                                                                  \
    }                                                                                                                  \
  }                                                                                                                    \
  static void pick_##T(void *restrict to, const void *restrict from, const int64_t *at, int64_t n) {                   \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] = ((const T *)from)[at[i]];                                           \
  }
MOVES(uint16_t)
MOVES(float)
MOVES(double)

static const moves moves_of[] = {
    [2] = {take_uint16_t, pick_uint16_t}, [4] = {take_float, pick_float}, [8] = {take_double, pick_double}};

#define SUMS_OF(T)                                                                                                     \
  static void join_##T(void *restrict to, const void *restrict from, int64_t n) {                                      \
    T *restrict y = to;                                                                                                \
    const T *restrict x = from;                                                                                        \
    enum { SOME = CHUNK / sizeof(T) };                                                                                 \
    for (; n >= SOME; n -= SOME, y += SOME, x += SOME)                                                                 \
      for (int i = 0; i < SOME; i++) y[i] += x[i];                                                                     \
    for (int64_t i = 0; i < n; i++) y[i] += x[i];                                                                      \
  }                                                                                                                    \
  static void add_##T(void *restrict to, void *restrict from, const runs *r, int64_t images, int64_t apart) {          \
    T *y = to, *x = from;                                                                                              \
    for (; images > 0; images--, y += apart, x += r->places) {                                                         \
      drop_##T(x, r);                                                                                                  \
      if (r->n && r->run[0].n == 1)                                                                                    \
        for (int64_t i = 0; i < r->n; i++) y[r->run[i].at] += x[r->run[i].place];                                      \
      else                                                                                                             \
        for (const run *k = r->run; k < r->run + r->n; k++) {                                                          \
          if (r->step == 1)                                                                                            \
            join_##T(y + k->at, x + k->place, k->n);                                                                   \
          else                                                                                                         \
            for (int64_t i = 0; i < k->n; i++) y[k->at + i * r->step] += x[k->place + i];                              \
        }                                                                                                              \
    }                                                                                                                  \
  }                                                                                                                    \
  static void scale_##T(void *restrict to, const void *restrict old, double beta, int64_t n) {                         \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] += (T)beta * ((const T *)old)[i];                                     \
  }
SUMS_OF(float)
SUMS_OF(double)

static const sums sums_of[] = {
    [TN_F32] = {add_float, join_float, scale_float}, [TN_F64] = {add_double, join_double, scale_double}};

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
  const tn__half *half; /* NULL: no half floats */
  const moves *move;
  const sums *sum;
  int dtype;               /* of sums */
  size_t size, wide;       /* an element's bytes, a sum's */
  int64_t tap[2], taps[2]; /* the first that is in an image anywhere, and how many */
  int64_t window, full;    /* elements, and with all taps; */
  bool copies;             /* the filters are copied */
  int64_t wanted;          /* slices */
  block by;                /* its size, and the number of blocks: along images, p and q */
  int64_t nblocks[3];
  int64_t filters, steps, parts; /* of a slice; parts of a sum */
  area part;                     /* images' gradient: of an image, and the number of such areas */
  int64_t channels, nparts[2];
} conv;

static int64_t at_size(const conv *g, tn__conv_dim d) {
  return g->v->size[d];
}
static int64_t places(const block *b) {
  return b->rows * b->width;
}
static int64_t columns(const block *b) {
  return b->images * places(b);
}

typedef struct room {
  char *windows, *sums, *filters, *back;
} room;

static room room_of(const conv *g, int64_t thread) {
  char *p = tn__cpu_scratch(g->d, (int)thread);
  return (room){p, p + WINDOWS * g->wide, p + (WINDOWS + SUMS) * g->wide, p + (WINDOWS + SUMS + COPIED) * g->wide};
}

/* Places lo..hi-1 of `n` along an axis where a tap at `offset` (in front of the padding) is in the image's lo..hi-1 */
static void meet(const conv *g, int axis, int64_t tap, int64_t lo, int64_t hi, int64_t *from, int64_t *to) {
  int64_t shift = g->v->pad[axis] - tap * g->v->dilation[axis], n = g->v->size[CONV_P + axis];
  *from = most(0, least(n, quotient_up(lo + shift, g->v->stride[axis])));
  *to = most(*from, least(n, quotient_up(hi + shift, g->v->stride[axis])));
}

static void find_taps(conv *g) {
  for (int i = 0; i < 2; i++) {
    int64_t lo, hi, n = g->v->size[CONV_R + i], first = n, last = -1;
    for (int64_t t = 0; t < n; t++) {
      meet(g, i, t, 0, g->v->size[CONV_H + i], &lo, &hi);
      if (lo < hi) first = least(first, t), last = t;
    }
    g->tap[i] = last < 0 ? 0 : first;
    g->taps[i] = last < 0 ? 0 : last + 1 - first;
  }
}

/* Where tap number t of those that count is in the part of an image, `at` counting places of the part: of the block's
 * places, of which there are at most COLUMNS. */
static void find_runs(const conv *g, const block *b, const area *part, int64_t t, runs *out) {
  int64_t r = g->tap[0] + t / g->taps[1], s = g->tap[1] + t % g->taps[1], lo[2], hi[2], sum = 0;
  const int64_t *stride = g->v->stride;
  meet(g, 0, r, part->h, part->h + part->height, &lo[0], &hi[0]);
  meet(g, 1, s, part->w, part->w + part->width, &lo[1], &hi[1]);
  int64_t p0 = most(lo[0], b->p), p1 = least(hi[0], b->p + b->rows), q0 = most(lo[1], b->q),
          q1 = least(hi[1], b->q + b->width), length = q1 - q0;
  bool goes_on = stride[0] == 1 && stride[1] == 1 && b->width == part->width && length > 0 && p1 > p0;
  int64_t each = goes_on ? (p1 - p0 - 1) * b->width + length : length < SHORT ? 1 : length;
  out->n = out->nholes = 0;
  out->places = places(b);
  out->step = stride[1];
  for (int64_t p = p0; p < p1; p++)
    for (int64_t q = q0; q < q1; q += each) {
      int64_t h = p * stride[0] + r * g->v->dilation[0] - g->v->pad[0] - part->h,
              w = q * stride[1] + s * g->v->dilation[1] - g->v->pad[1] - part->w;
      int32_t place = (int32_t)((p - b->p) * b->width + q - b->q);
      if (!goes_on || p == p0) out->run[out->n++] = (run){h * part->width + w, place, (int32_t)each}, sum += each;
      if (goes_on && p + 1 < p1 && length < b->width)
        out->hole[out->nholes++] = (run){0, (int32_t)(place + length), (int32_t)(b->width - length)};
      if (goes_on) break;
    }
  out->all = sum == out->places;
}

static area whole(const conv *g) {
  return (area){0, 0, at_size(g, CONV_H), at_size(g, CONV_W)};
}

/* ---- copying ---- */

static void widen(const conv *g, void *to, const void *from, int64_t n) {
  if (g->half)
    g->half->widen(to, from, (size_t)n);
  else
    memcpy(to, from, (size_t)n * g->size);
}

/* Elements lo..hi-1 of all windows of the block, in planes */
static void copy_planes(const conv *g, const block *b, int64_t lo, int64_t hi, char *to) {
  runs r;
  uint16_t halves[COLUMNS];
  int64_t taps = g->taps[0] * g->taps[1], image = at_size(g, CONV_H) * at_size(g, CONV_W), n = columns(b);
  area all_of = whole(g);
  for (int64_t t = 0; t < taps; t++) {
    find_runs(g, b, &all_of, t, &r);
    for (int64_t c = quotient_up(lo - t, taps); c * taps + t < hi; c++) {
      char *y = to + (size_t)((c * taps + t - lo) * n) * g->wide;
      const char *x =
          (const char *)g->v->operand[CONV_DATA] + (size_t)((b->image * at_size(g, CONV_C) + c) * image) * g->size;
      g->move->take(g->half ? (void *)halves : y, x, &r, b->images, at_size(g, CONV_C) * image);
      if (g->half) widen(g, y, halves, n);
    }
  }
}

/* The channels of tap t that are elements lo..hi-1 of a window */
static void channels_of(const conv *g, int64_t t, int64_t lo, int64_t hi, int64_t *from, int64_t *to) {
  int64_t c = at_size(g, CONV_C);
  *from = least(c, most(0, lo - t * c));
  *to = most(*from, least(c, hi - t * c));
}

/* So, with channels last: a row for each place */
static void copy_last(const conv *g, const block *b, int64_t lo, int64_t hi, char *to) {
  runs r;
  int64_t c = at_size(g, CONV_C), taps = g->taps[0] * g->taps[1], image = at_size(g, CONV_H) * at_size(g, CONV_W), c0,
          c1;
  area all_of = whole(g);
  for (int64_t t = lo / c; t < taps && t * c < hi; t++) {
    find_runs(g, b, &all_of, t, &r);
    channels_of(g, t, lo, hi, &c0, &c1);
    char *first = to + (size_t)(t * c + c0 - lo) * g->wide;
    size_t row = (size_t)(hi - lo) * g->wide, bytes = (size_t)(c1 - c0) * g->wide;
    for (int64_t i = 0; i < b->images; i++) {
      char *y = first + (size_t)(i * r.places) * row;
      for (int64_t k = 0; !r.all && k < r.places; k++) memset(y + (size_t)k * row, 0, bytes);
      for (const run *o = r.run; o < r.run + r.n; o++)
        for (int64_t k = 0; k < o->n; k++) {
          int64_t at = (b->image + i) * image + o->at + k * r.step;
          widen(g, y + (size_t)(o->place + k) * row,
                (const char *)g->v->operand[CONV_DATA] + (size_t)(at * c + c0) * g->size, c1 - c0);
        }
      for (const run *o = r.hole; o < r.hole + r.nholes; o++)
        for (int64_t k = 0; k < o->n; k++) memset(y + (size_t)(o->place + k) * row, 0, bytes);
    }
  }
}

/* Where in a filter, with all its taps, element j of windows is */
static int64_t in_filter(const conv *g, int64_t j) {
  int64_t c = at_size(g, CONV_C), s = at_size(g, CONV_S), rs = at_size(g, CONV_R) * s, taps = g->taps[0] * g->taps[1];
  int64_t t = g->v->channels_last ? j / c : j % taps, channel = g->v->channels_last ? j % c : j / taps;
  int64_t tap = (g->tap[0] + t / g->taps[1]) * s + g->tap[1] + t % g->taps[1];
  return g->v->channels_last ? tap * c + channel : channel * rs + tap;
}

static const char *filter_at(const conv *g, int64_t k) {
  return (const char *)g->v->operand[CONV_FILTER] + (size_t)(k * g->full) * g->size;
}

/* Elements lo..hi-1 (at most STEPS) of n filters, where they stand or copied */
static const void *take_filters(const conv *g, int64_t k, int64_t n, int64_t lo, int64_t hi, char *to, int64_t *ld) {
  int64_t at[STEPS];
  uint16_t halves[STEPS];
  *ld = g->copies ? hi - lo : g->full;
  if (!g->copies) return filter_at(g, k) + (size_t)lo * g->size;
  int64_t first = in_filter(g, lo);
  for (int64_t j = lo; j < hi; j++) at[j - lo] = in_filter(g, j) - first;
  for (int64_t i = 0; i < n; i++) {
    char *y = to + (size_t)(i * (hi - lo)) * g->wide, *z = g->half ? (char *)halves : y;
    g->move->pick(z, filter_at(g, k + i) + (size_t)first * g->size, at, hi - lo);
    if (g->half) widen(g, y, z, hi - lo);
  }
  return to;
}

/* The results' element for filter k at the block's first place, of its image number i */
static char *result_at(const conv *g, const block *b, int64_t i, int64_t k) {
  int64_t all = at_size(g, CONV_P) * at_size(g, CONV_Q), place = b->p * at_size(g, CONV_Q) + b->q, n = b->image + i;
  int64_t at =
      g->v->channels_last ? (n * all + place) * at_size(g, CONV_K) + k : (n * at_size(g, CONV_K) + k) * all + place;
  return (char *)g->v->operand[CONV_FORWARD] + (size_t)at * g->size;
}

/* What came back for n filters at the block's places, as they stand or copied */
static const void *take_back(const conv *g, const block *b, int64_t k, int64_t n, char *to, int64_t *ld) {
  bool last = g->v->channels_last;
  int64_t rows = last ? columns(b) : n, length = last ? n : places(b);
  if (!g->half && (last || b->images == 1)) {
    *ld = last ? at_size(g, CONV_K) : at_size(g, CONV_P) * at_size(g, CONV_Q);
    return result_at(g, b, 0, k);
  }
  *ld = last ? n : columns(b);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < (last ? 1 : b->images); i++)
      widen(g, to + (size_t)(r * *ld + i * length) * g->wide,
            last ? result_at(g, b, 0, k) + (size_t)(r * at_size(g, CONV_K)) * g->size : result_at(g, b, i, k + r),
            length);
  return to;
}

/* n sums become neighbours of the result. */
static void store(const conv *g, char *to, void *from, int64_t n) {
  float old[STEPS];
  for (int64_t i = 0, m; i < n; i += m) {
    char *y = to + (size_t)i * g->size, *x = (char *)from + (size_t)i * g->wide;
    m = least(n - i, STEPS);
    if (g->v->beta != 0 && g->half) widen(g, old, y, m);
    if (g->v->beta != 0) g->sum->scale(x, g->half ? (char *)old : y, g->v->beta, m);
    if (g->half)
      g->half->round((uint16_t *)(void *)y, (const float *)(const void *)x, (size_t)m);
    else
      memcpy(y, x, (size_t)m * g->size);
  }
}

static tn__product product(const conv *g, int64_t m, int64_t n, int64_t k) {
  return (tn__product){.dtype = g->dtype, .m = m, .n = n, .k = k};
}

/* ---- blocks ---- */

static block block_at(const conv *g, int64_t i) {
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
 * that the library's time for a call would count */
static void cut_blocks(conv *g, int64_t n) {
  int64_t p = at_size(g, CONV_P), q = at_size(g, CONV_Q), images = at_size(g, CONV_N);
  bool stands = !g->half && !g->v->channels_last;
  g->by = (block){.images = 1, .rows = 1, .width = q};
  if (q > n)
    g->by.width = even(q, n);
  else if (p > n / q)
    g->by.rows = even(p, n / q);
  else
    g->by.rows = p, g->by.images = stands && p * q >= LEAST ? 1 : even(images, n / (p * q));
  g->nblocks[0] = quotient_up(images, g->by.images);
  g->nblocks[1] = quotient_up(p, g->by.rows);
  g->nblocks[2] = quotient_up(q, g->by.width);
}

/* Places for a block, of which there is to be one for each slice wanted */
static int64_t places_for(const conv *g, int64_t at_most) {
  int64_t all = at_size(g, CONV_N) * at_size(g, CONV_P) * at_size(g, CONV_Q), n = quotient_up(all, g->wanted);
  return least(most(quotient_up(n, TILE) * TILE, LEAST), at_most);
}

/* ---- forward ---- */

static void plan_forward(conv *g) {
  int64_t k = at_size(g, CONV_K);
  g->steps = even(g->window, STEPS);
  int64_t together = least(COLUMNS, WINDOWS / g->steps);
  if (g->copies)
    together = least(together, most(2 * FILTERS, SUMS / k)); /* filters are copied for each block, all at once */
  cut_blocks(g, places_for(g, together));
  int64_t n = columns(&g->by), missing = quotient_up(g->wanted, count_blocks(g)), at_most = k;
  if (g->half || (!g->v->channels_last && g->by.images > 1)) at_most = least(at_most, SUMS / n);
  if (g->copies) at_most = least(at_most, COPIED / g->steps);
  if (missing > 1) at_most = least(at_most, most(LEAST, quotient_up(quotient_up(k, missing), TILE) * TILE));
  g->filters = even(k, at_most);
}

static void forward(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  bool last = g->v->channels_last;
  room at = room_of(g, thread);
  int64_t tiles = quotient_up(at_size(g, CONV_K), g->filters), k = slice % tiles * g->filters;
  block b = block_at(g, slice / tiles);
  int64_t m = least(g->filters, at_size(g, CONV_K) - k), n = columns(&b);
  bool in_place = !g->half && (last || b.images == 1);
  tn__product x = last ? product(g, n, m, 0) : product(g, m, n, 0);
  x.c = in_place ? result_at(g, &b, 0, k) : at.sums;
  x.ldc = !in_place ? x.n : last ? at_size(g, CONV_K) : at_size(g, CONV_P) * at_size(g, CONV_Q);
  x.beta = in_place ? g->v->beta : 0;
  x.trans_b = last;
  for (int64_t j = 0; j < g->window; j += g->steps, x.beta = 1) {
    x.k = least(g->steps, g->window - j);
    const void *filters = take_filters(g, k, m, j, j + x.k, at.filters, last ? &x.ldb : &x.lda);
    (last ? copy_last : copy_planes)(g, &b, j, j + x.k, at.windows);
    if (last)
      x.a = at.windows, x.lda = x.k, x.b = filters;
    else
      x.a = filters, x.b = at.windows, x.ldb = n;
    tn__cpu_multiply(&x);
  }
  for (int64_t r = 0; !in_place && r < x.m; r++)
    for (int64_t i = 0; i < (last ? 1 : b.images); i++)
      store(g, last ? result_at(g, &b, 0, k) + (size_t)(r * at_size(g, CONV_K)) * g->size : result_at(g, &b, i, k + r),
            at.sums + (size_t)(r * x.n + i * places(&b)) * g->wide, last ? m : places(&b));
}

/* ---- the filters' gradient ---- */

/* Tiles of the filters' elements.  Where these are few, the places are shared out, too, and each slice leaves its sums
 * where it has room, to be added up in their order. */
static void plan_filter(conv *g) {
  int64_t k = at_size(g, CONV_K), threads = tn__pool_threads(g->d->ctx->pool);
  g->filters = even(k, 2 * FILTERS);
  g->steps = even(g->window, least(2 * STEPS, SUMS / g->filters));
  cut_blocks(g, places_for(g, least(least(COLUMNS, WINDOWS / g->steps), COPIED / g->filters)));
  int64_t tiles = quotient_up(k, g->filters) * quotient_up(g->window, g->steps), blocks = count_blocks(g);
  g->parts = most(1, least(least(threads, g->wanted) / tiles, blocks));
}

/* m filters' elements j..j+n-1, and what is neighbours in the filters, too, at once */
static void store_filters(const conv *g, int64_t k, int64_t m, int64_t j, int64_t n, char *from) {
  int64_t first, some;
  for (int64_t e = 0; e < n; e += some) {
    first = in_filter(g, j + e);
    some = g->window == g->full ? n : 1;
    while (e + some < n && in_filter(g, j + e + some) == first + some) some++;
    for (int64_t i = 0; i < m; i++)
      store(g, (char *)g->v->operand[CONV_FILTER] + (size_t)((k + i) * g->full + first) * g->size,
            from + (size_t)(i * n + e) * g->wide, some);
  }
}

typedef struct tile { /* of filters and their elements */
  int64_t k, j, m, n;
} tile;

static tile tile_at(const conv *g, int64_t i) {
  int64_t across = quotient_up(g->window, g->steps), k = i / across * g->filters, j = i % across * g->steps;
  return (tile){k, j, least(g->filters, at_size(g, CONV_K) - k), least(g->steps, g->window - j)};
}

static void sum_filters(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  bool last = g->v->channels_last;
  room at = room_of(g, thread);
  tile t = tile_at(g, slice / g->parts);
  int64_t blocks = count_blocks(g), part = slice % g->parts, lo = blocks * part / g->parts,
          hi = blocks * (part + 1) / g->parts;
  tn__product x = product(g, t.m, t.n, 0);
  x.c = g->parts > 1 ? room_of(g, slice).sums : at.sums;
  x.ldc = t.n;
  x.trans_a = last, x.trans_b = !last;
  for (int64_t i = lo; i < hi; i++, x.beta = 1) {
    block b = block_at(g, i);
    x.k = columns(&b);
    x.a = take_back(g, &b, t.k, t.m, at.back, &x.lda);
    (last ? copy_last : copy_planes)(g, &b, t.j, t.j + t.n, at.windows);
    x.b = at.windows, x.ldb = last ? t.n : x.k;
    tn__cpu_multiply(&x);
  }
  if (g->parts == 1) store_filters(g, t.k, t.m, t.j, t.n, x.c);
}

static void join_filters(void *arg, int64_t slice, int thread) {
  const conv *g = arg;
  tile t = tile_at(g, slice);
  char *first = room_of(g, slice * g->parts).sums;
  (void)thread;
  for (int64_t i = 1; i < g->parts; i++) g->sum->join(first, room_of(g, slice * g->parts + i).sums, t.m * t.n);
  store_filters(g, t.k, t.m, t.j, t.n, first);
}

/* ---- the images' gradient ---- */

/* Parts of images: of all channels or some, and of all rows or some. */
static void plan_data(conv *g) {
  int64_t c = at_size(g, CONV_C), h = at_size(g, CONV_H), w = at_size(g, CONV_W), n = at_size(g, CONV_N);
  int64_t taps = most(1, g->taps[0] * g->taps[1]), halo = (g->taps[0] - 1) * g->v->dilation[0];
  g->by.images = 1;
  g->channels = even(c, most(1, g->v->channels_last ? SUMS : STEPS / taps));
  g->part.width = even(w, most(1, SUMS / g->channels));
  g->part.height = even(h, most(1, SUMS / (g->channels * g->part.width)));
  int64_t have = n * quotient_up(c, g->channels) * quotient_up(w, g->part.width) * quotient_up(h, g->part.height);
  int64_t missing = quotient_up(g->wanted, have);
  if (missing > 1 && !g->v->channels_last && g->channels > 1) {
    int64_t fewer = even(g->channels, most(quotient_up(TILE, taps), g->channels / missing));
    missing = quotient_up(missing, quotient_up(g->channels, fewer));
    g->channels = fewer;
  }
  if (missing > 1) g->part.height = even(g->part.height, most(halo + 1, g->part.height / missing));
  int64_t size = g->channels * h * w, columns_of = at_size(g, CONV_P) * at_size(g, CONV_Q);
  if (g->part.height == h && g->part.width == w && have > g->wanted)
    g->by.images = even(n, most(1, least(least(have / g->wanted, SUMS / size), LEAST / most(1, columns_of))));
  g->nparts[0] = quotient_up(h, g->part.height), g->nparts[1] = quotient_up(w, g->part.width);
}

static char *image_at(const conv *g, int64_t n, int64_t c, int64_t h, int64_t w) {
  int64_t height = at_size(g, CONV_H), width = at_size(g, CONV_W), channels = at_size(g, CONV_C);
  int64_t at = g->v->channels_last ? ((n * height + h) * width + w) * channels + c
                                   : ((n * channels + c) * height + h) * width + w;
  return (char *)g->v->operand[CONV_DATA] + (size_t)at * g->size;
}

typedef struct share { /* of the images' gradient, what one slice computes; `sums` of it */
  area part;
  int64_t image, images, c, channels;
  room at;
} share;

/* Elements lo..hi-1 of windows go where they come from. */
static void add_planes(const conv *g, const share *s, const block *b, int64_t lo, int64_t hi) {
  runs r;
  int64_t taps = g->taps[0] * g->taps[1], size = s->part.height * s->part.width;
  for (int64_t t = 0; t < taps; t++) {
    find_runs(g, b, &s->part, t, &r);
    for (int64_t c = quotient_up(lo - t, taps); c * taps + t < hi; c++)
      g->sum->add(s->at.sums + (size_t)((c - s->c) * size) * g->wide,
                  s->at.windows + (size_t)((c * taps + t - lo) * columns(b)) * g->wide, &r, b->images,
                  s->channels * size);
  }
}

static void add_last(const conv *g, const share *s, const block *b, int64_t lo, int64_t hi) {
  runs r;
  int64_t taps = g->taps[0] * g->taps[1], size = s->part.height * s->part.width, c = at_size(g, CONV_C), c0, c1;
  for (int64_t t = lo / c; t < taps && t * c < hi; t++) {
    find_runs(g, b, &s->part, t, &r);
    channels_of(g, t, lo, hi, &c0, &c1);
    size_t row = (size_t)(hi - lo) * g->wide, bytes = (size_t)(c1 - c0) * g->wide;
    for (int64_t i = 0; i < b->images; i++) {
      char *x = s->at.windows + (size_t)(i * r.places) * row + (size_t)(t * c + c0 - lo) * g->wide;
      char *y = s->at.sums + (size_t)(i * size * s->channels + c0 - s->c) * g->wide;
      for (const run *o = r.hole; o < r.hole + r.nholes; o++)
        for (int64_t k = 0; k < o->n; k++) memset(x + (size_t)(o->place + k) * row, 0, bytes);
      for (const run *o = r.run; o < r.run + r.n; o++)
        for (int64_t k = 0; k < o->n; k++)
          g->sum->join(y + (size_t)((o->at + k * r.step) * s->channels) * g->wide, x + (size_t)(o->place + k) * row,
                       c1 - c0);
    }
  }
}

/* Elements lo..hi-1 of the windows at the block's places */
static void spread_back(const conv *g, const share *s, const block *b, int64_t lo, int64_t hi) {
  bool last = g->v->channels_last;
  int64_t n = columns(b), k = at_size(g, CONV_K), each = g->copies || g->half || b->images > 1 ? FILTERS : k;
  tn__product x = last ? product(g, n, hi - lo, 0) : product(g, hi - lo, n, 0);
  x.c = s->at.windows, x.ldc = x.n, x.trans_a = !last;
  each = even(k, each);
  for (int64_t i = 0; i < k; i += each, x.beta = 1) {
    x.k = least(each, k - i);
    const void *filters = take_filters(g, i, x.k, lo, hi, s->at.filters, last ? &x.ldb : &x.lda);
    const void *back = take_back(g, b, i, x.k, s->at.back, last ? &x.lda : &x.ldb);
    x.a = last ? back : filters, x.b = last ? filters : back;
    tn__cpu_multiply(&x);
  }
  (last ? add_last : add_planes)(g, s, b, lo, hi);
}

/* Elements lo..hi-1 of all windows that meet the part */
static void spread(const conv *g, const share *s, int64_t lo, int64_t hi) {
  int64_t from[2], to[2], other, r = g->tap[0], t = g->tap[1];
  meet(g, 0, r + g->taps[0] - 1, s->part.h, s->part.h + s->part.height, &from[0], &other);
  meet(g, 0, r, s->part.h, s->part.h + s->part.height, &other, &to[0]);
  meet(g, 1, t + g->taps[1] - 1, s->part.w, s->part.w + s->part.width, &from[1], &other);
  meet(g, 1, t, s->part.w, s->part.w + s->part.width, &other, &to[1]);
  if (s->images > 1) from[0] = from[1] = 0, to[0] = at_size(g, CONV_P), to[1] = at_size(g, CONV_Q);
  int64_t each = even(hi - lo, STEPS);
  int64_t n = least(most(1, least(COLUMNS, WINDOWS / each)), COPIED / FILTERS), width = to[1] - from[1];
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
  bool last = g->v->channels_last;
  int64_t c = at_size(g, CONV_C), taps = g->taps[0] * g->taps[1], i = slice, tiles = quotient_up(c, g->channels);
  share s = {.at = room_of(g, thread)};
  s.part.w = i % g->nparts[1] * g->part.width, i /= g->nparts[1];
  s.part.h = i % g->nparts[0] * g->part.height, i /= g->nparts[0];
  s.c = i % tiles * g->channels;
  s.image = i / tiles * g->by.images;
  s.part.width = least(g->part.width, at_size(g, CONV_W) - s.part.w);
  s.part.height = least(g->part.height, at_size(g, CONV_H) - s.part.h);
  s.channels = least(g->channels, c - s.c), s.images = least(g->by.images, at_size(g, CONV_N) - s.image);
  memset(s.at.sums, 0, (size_t)(s.images * s.channels * s.part.height * s.part.width) * g->wide);
  if (!last)
    spread(g, &s, s.c * taps, (s.c + s.channels) * taps);
  else if (s.channels == c)
    spread(g, &s, 0, g->window);
  else
    for (int64_t t = 0; t < taps; t++) spread(g, &s, t * c + s.c, t * c + s.c + s.channels);
  /* rows of the part, as they lie */
  int64_t outer = s.images * (last ? 1 : s.channels), length = s.part.width * (last ? s.channels : 1);
  for (int64_t r = 0; r < outer * s.part.height; r++) {
    int64_t image = s.image + r / s.part.height / (last ? 1 : s.channels), h = s.part.h + r % s.part.height;
    int64_t channel = s.c + (last ? 0 : r / s.part.height % s.channels);
    int64_t pieces = last && s.channels < c ? s.part.width : 1;
    for (int64_t w = 0; w < pieces; w++)
      store(g, image_at(g, image, channel, h, s.part.w + w),
            s.at.sums + (size_t)(r * length + w * (length / pieces)) * g->wide, length / pieces);
  }
}

/* ---- calls ---- */

bool tn__cpu_has_conv(tn__device *d, int dtype) {
  if (!tn__cpu_has_gemm(d, dtype)) return false;
  tn__cpu_grow_scratch(d, ROOM * tn__size_of(tn__dtype_acc(dtype)));
  return true;
}

static bool is_empty(const tn__conv_call *v, const uint8_t *dim, int n) {
  for (int i = 0; i < n; i++)
    if (v->size[dim[i]] == 0) return true;
  return false;
}

/* What is summed up over nothing at all, or only in part: out = beta out. */
static void clear(const conv *g) {
  const tn__conv_call *v = g->v;
  int64_t n = 1;
  for (int i = 0; i < 4; i++) n *= v->size[tn__conv_dims[v->kind][i]];
  if (v->beta == 0) memset(v->operand[v->kind], 0, (size_t)n * g->size);
  for (int64_t i = 0; v->beta != 0 && i < n; i += STEPS) {
    double none[STEPS] = {0}; /* or f32 */
    store(g, (char *)v->operand[v->kind] + (size_t)i * g->size, none, least(n - i, STEPS));
  }
}

typedef struct way {
  void (*plan)(conv *g);
  tn__slice_fn slice;
} way;

static int64_t count_slices(const conv *g) {
  int64_t k = quotient_up(at_size(g, CONV_K), g->filters), steps = quotient_up(g->window, g->steps);
  switch (g->v->kind) {
  case CONV_FORWARD: return count_blocks(g) * k;
  case CONV_FILTER: return k * steps * g->parts;
  case CONV_DATA:
  default:
    return quotient_up(at_size(g, CONV_N), g->by.images) * quotient_up(at_size(g, CONV_C), g->channels) * g->nparts[0] *
           g->nparts[1];
  }
}

static void convolve(conv *g, tn__conv_call *v) {
  static const way ways[] = {[CONV_DATA] = {plan_data, sum_images},
                             [CONV_FILTER] = {plan_filter, sum_filters},
                             [CONV_FORWARD] = {plan_forward, forward}};
  tn__pool *pool = g->d->ctx->pool;
  int64_t threads = tn__pool_threads(pool);
  double work = (double)g->window * (double)at_size(g, CONV_K) * (double)at_size(g, CONV_N) *
                (double)at_size(g, CONV_P) * (double)at_size(g, CONV_Q);
  g->wanted = threads == 1 ? 1 : SLICES * threads;
  if (work < (double)g->wanted * WORTH) g->wanted = most(1, (int64_t)(work / WORTH));
  if (v->kind == CONV_FILTER && g->window < g->full) clear(g), v->beta = 1; /* taps that nothing goes through */
  g->filters = g->steps = g->parts = 1;
  ways[v->kind].plan(g);
  int64_t n = count_slices(g);
  tn__pool_run(pool, ways[v->kind].slice, g, n);
  if (v->kind == CONV_FILTER && g->parts > 1) tn__pool_run(pool, join_filters, g, n / g->parts);
}

/* Row distances are the library's numbers. */
static tn_status check_sizes(const conv *g) {
  double k = (double)at_size(g, CONV_K), all = (double)at_size(g, CONV_P) * (double)at_size(g, CONV_Q);
  if ((double)g->full <= INT32_MAX && k <= INT32_MAX && all <= INT32_MAX) return TN_OK;
  tn__error(g->d->ctx, TN_ENOTSUP,
            "convolution: %.0f filters of %lld elements at %.0f places are more than the BLAS library takes", k,
            (long long)g->full, all);
  return TN_ENOTSUP;
}

tn_status tn__cpu_conv(tn__device *d, const tn__conv_call *call) {
  tn__conv_call v = *call;
  tn_status status = tn__cpu_need_library(d, v.dtype);
  if (status || is_empty(&v, tn__conv_dims[v.kind], 4)) return status;
  tn__cpu_has_conv(d, v.dtype); /* makes room, if nobody asked before */
  conv g = {.v = &v, .d = d, .half = tn__half_of(v.dtype, d->ctx->vector_bytes), .dtype = tn__dtype_acc(v.dtype)};
  g.size = tn__size_of(v.dtype), g.wide = tn__size_of(g.dtype);
  g.move = &moves_of[g.size], g.sum = &sums_of[g.dtype];
  find_taps(&g);
  g.window = at_size(&g, CONV_C) * g.taps[0] * g.taps[1];
  g.full = at_size(&g, CONV_C) * at_size(&g, CONV_R) * at_size(&g, CONV_S);
  g.copies = g.half || g.window < g.full;
  status = check_sizes(&g);
  if (status) return status;
  if (is_empty(&v, tn__conv_summed[v.kind], 3) || g.window == 0)
    clear(&g);
  else
    convolve(&g, &v);
  return TN_OK;
}
