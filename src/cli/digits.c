/* Digits as strokes: lines and arcs in the unit square, x to the right and y down, angles in degrees from the right
 * over the bottom. */
#include "cli/digits.h"
#include "base/mem.h"
#include "cli/net.h"
#include "ir/ctx.h"
#include <math.h>

enum { ARC_PIECES = 14, MAX_SEGMENTS = 4 * ARC_PIECES };

typedef struct stroke {
  int digit;
  bool arc;
  float a, b, c, d, from, to; /* line: (a, b) to (c, d); arc: centre (a, b), radii (c, d) */
} stroke;

static const stroke strokes[] = {
    {0, true, .50f, .50f, .25f, .38f, 0, 360},
    {1, false, .38f, .28f, .54f, .12f, 0, 0},
    {1, false, .54f, .12f, .54f, .88f, 0, 0},
    {2, true, .50f, .32f, .24f, .20f, 180, 385},
    {2, false, .72f, .40f, .26f, .86f, 0, 0},
    {2, false, .26f, .86f, .76f, .86f, 0, 0},
    {3, true, .47f, .30f, .22f, .18f, 200, 450},
    {3, true, .47f, .68f, .25f, .20f, 270, 520},
    {4, false, .60f, .12f, .24f, .62f, 0, 0},
    {4, false, .24f, .62f, .80f, .62f, 0, 0},
    {4, false, .62f, .38f, .62f, .90f, 0, 0},
    {5, false, .72f, .14f, .34f, .14f, 0, 0},
    {5, false, .34f, .14f, .31f, .46f, 0, 0},
    {5, true, .48f, .65f, .24f, .22f, 225, 500},
    {6, true, .50f, .66f, .22f, .21f, 0, 360},
    {6, true, .68f, .62f, .40f, .50f, 180, 255},
    {7, false, .26f, .14f, .76f, .14f, 0, 0},
    {7, false, .76f, .14f, .44f, .88f, 0, 0},
    {8, true, .50f, .31f, .19f, .18f, 0, 360},
    {8, true, .50f, .68f, .23f, .20f, 0, 360},
    {9, true, .50f, .34f, .22f, .21f, 0, 360},
    {9, false, .72f, .34f, .62f, .88f, 0, 0},
};

typedef struct segment {
  float x0, y0, x1, y1;
} segment;

typedef struct dice {
  uint64_t key, n;
} dice;

static float roll(dice *d, float lo, float hi) {
  return lo + (hi - lo) * (float)(tn__hash_mix(d->key, d->n++) >> 40) * 0x1p-24f;
}

/* The strokes of a digit as straight pieces. */
static int trace(int digit, segment *out) {
  int n = 0;
  for (size_t i = 0; i < sizeof strokes / sizeof *strokes; i++) {
    const stroke *s = &strokes[i];
    if (s->digit != digit) continue;
    if (!s->arc) {
      out[n++] = (segment){s->a, s->b, s->c, s->d};
      continue;
    }
    for (int k = 0; k < ARC_PIECES; k++) {
      float turn = (float)M_PI / 180, step = (s->to - s->from) / ARC_PIECES;
      float t0 = (s->from + step * (float)k) * turn, t1 = (s->from + step * (float)(k + 1)) * turn;
      out[n++] =
          (segment){s->a + s->c * cosf(t0), s->b + s->d * sinf(t0), s->a + s->c * cosf(t1), s->b + s->d * sinf(t1)};
    }
  }
  return n;
}

/* Turns, shears, scales and shifts; afterwards coordinates are pixels. */
static void distort(segment *s, int n, dice *d) {
  float turn = roll(d, -.26f, .26f), shear = roll(d, -.25f, .25f), sx = roll(d, 15, 24), sy = roll(d, 19, 25);
  float dx = roll(d, -2, 2) + TN__SIDE / 2, dy = roll(d, -2, 2) + TN__SIDE / 2, co = cosf(turn), si = sinf(turn);
  for (int i = 0; i < n; i++) {
    float *p[2][2] = {{&s[i].x0, &s[i].y0}, {&s[i].x1, &s[i].y1}};
    for (int e = 0; e < 2; e++) {
      float x = (*p[e][0] - .5f) * sx, y = (*p[e][1] - .5f) * sy;
      x -= shear * y;
      *p[e][0] = co * x - si * y + dx;
      *p[e][1] = si * x + co * y + dy;
    }
  }
}

static float distance(const segment *s, float x, float y) {
  float vx = s->x1 - s->x0, vy = s->y1 - s->y0, wx = x - s->x0, wy = y - s->y0, len = vx * vx + vy * vy;
  float t = len > 0 ? fminf(fmaxf((wx * vx + wy * vy) / len, 0), 1) : 0;
  return hypotf(wx - t * vx, wy - t * vy);
}

static int at_least(float x) { return (int)fmaxf(floorf(x), 0); }
static int at_most(float x) { return (int)fminf(ceilf(x), TN__SIDE - 1); }

/* How near a stroke comes to each pixel's centre, where it comes nearer than `reach`. */
static void measure(const segment *s, int n, float reach, float *near) {
  for (int i = 0; i < TN__PIXELS; i++) near[i] = reach;
  for (const segment *end = s + n; s < end; s++)
    for (int y = at_least(fminf(s->y0, s->y1) - reach - 1); y <= at_most(fmaxf(s->y0, s->y1) + reach); y++)
      for (int x = at_least(fminf(s->x0, s->x1) - reach - 1); x <= at_most(fmaxf(s->x0, s->x1) + reach); x++)
        near[y * TN__SIDE + x] = fminf(near[y * TN__SIDE + x], distance(s, (float)x + .5f, (float)y + .5f));
}

static void draw(int digit, dice *d, uint8_t *pixel) {
  segment s[MAX_SEGMENTS];
  int n = trace(digit, s);
  distort(s, n, d);
  float pen = roll(d, .8f, 1.9f), ink = roll(d, .8f, 1), grain = roll(d, 0, .15f);
  float near[TN__PIXELS];
  measure(s, n, pen + .5f, near);
  for (int i = 0; i < TN__PIXELS; i++) {
    float v = ink * fminf(fmaxf(pen + .5f - near[i], 0), 1) + roll(d, -grain, grain);
    pixel[i] = (uint8_t)(255 * fminf(fmaxf(v, 0), 1));
  }
}

typedef struct drawing {
  int64_t n;
  uint64_t seed;
  tn_array *images, *labels;
} drawing;

static void do_draw(tn_ctx *c, void *arg) {
  const drawing *k = arg;
  size_t n = (size_t)k->n;
  *k->images = (tn_array){TN_U8, 3, {k->n, TN__SIDE, TN__SIDE}, NULL, n * TN__PIXELS};
  *k->labels = (tn_array){TN_U8, 1, {k->n}, NULL, n};
  uint8_t *pixel = k->images->data = tn__mem_alloc(&c->mem, k->images->bytes);
  uint8_t *label = k->labels->data = tn__mem_alloc(&c->mem, k->labels->bytes);
  for (size_t i = 0; i < n; i++) {
    dice d = {.key = tn__hash_mix(k->seed, i)};
    label[i] = (uint8_t)(tn__hash_mix(d.key, UINT64_MAX) % TN__CLASSES);
    draw(label[i], &d, pixel + i * TN__PIXELS);
  }
}

bool tn__digits_draw(tn_ctx *ctx, int64_t n, uint64_t seed, tn_array *images, tn_array *labels) {
  drawing k = {n, seed, images, labels};
  if (tn__ctx_run(ctx, "drawing digits", do_draw, &k)) return true;
  tn_array_free(ctx, images);
  tn_array_free(ctx, labels);
  return false;
}
