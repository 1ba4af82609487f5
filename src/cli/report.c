/* The loss curve and the misread digits as pictures; the progress bar. */
#include "cli/report.h"
#include "cli/canvas.h"
#include "cli/net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  PAPER = 0xfbfaf7,
  CARD = 0xffffff,
  INK = 0x2b2d42,
  FAINT = 0xe8e5de,
  SOFT = 0x6b7385,
  BLUE = 0x1f5f8b,
  PALE = 0x9cc5dd,
  RED = 0xb8432b
};

static const double large = 2.6, normal = 1.8;

static bool save(tn__canvas *c, const char *path) {
  bool ok = tn__canvas_save(c, path);
  tn__canvas_close(c);
  return ok;
}

/* ---- the loss ---- */

enum { CHART_WIDTH = 960, CHART_HEIGHT = 560, LEFT = 80, RIGHT = 40, TOP = 110, BOTTOM = 70, TICKS = 5 };

typedef struct chart {
  tn__canvas canvas;
  const float *loss;
  int64_t first, n;
  double low, high; /* of the logarithmic axis */
} chart;

static double height_of(const chart *k, double loss) {
  double t = (log(loss) - log(k->low)) / (log(k->high) - log(k->low));
  return CHART_HEIGHT - BOTTOM - fmin(fmax(t, 0), 1) * (CHART_HEIGHT - TOP - BOTTOM);
}

static double column_of(const chart *k, double step) {
  return LEFT + step / (double)(k->n > 1 ? k->n - 1 : 1) * (CHART_WIDTH - LEFT - RIGHT);
}

/* The smallest of 1, 2, 5, 10, 20, ... that cuts n into at most so many parts. */
static int64_t round_step(int64_t n, int64_t parts) {
  int64_t step = 1;
  for (int i = 0; n / step > parts; i++) step = i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

static void draw_axes(chart *k) {
  char text[64];
  for (double decade = 1e-6; decade <= k->high; decade *= 10)
    for (int m = 1; m <= 5; m = m == 1 ? 2 : m + 3) {
      double v = decade * m;
      if (v < k->low * .999 || v > k->high * 1.001) continue;
      double y = floor(height_of(k, v));
      tn__canvas_box(&k->canvas, LEFT, (int)y, CHART_WIDTH - LEFT - RIGHT, 1, FAINT);
      snprintf(text, sizeof text, "%g", v);
      tn__canvas_text(&k->canvas, LEFT - 14 - tn__canvas_text_width(normal, text), y - 6, normal, text, SOFT);
    }
  int64_t step = round_step(k->n, TICKS);
  for (int64_t at = (k->first + step - 1) / step * step; at < k->first + k->n; at += step) {
    double x = column_of(k, (double)(at - k->first));
    snprintf(text, sizeof text, "%lld", (long long)at);
    tn__canvas_box(&k->canvas, (int)x, CHART_HEIGHT - BOTTOM, 1, 6, SOFT);
    tn__canvas_text(&k->canvas, x - tn__canvas_text_width(normal, text) / 2, CHART_HEIGHT - BOTTOM + 14, normal, text,
                    SOFT);
  }
  tn__canvas_text(&k->canvas, (CHART_WIDTH - tn__canvas_text_width(normal, "step")) / 2, CHART_HEIGHT - 26, normal,
                  "step", SOFT);
  tn__canvas_box(&k->canvas, LEFT, CHART_HEIGHT - BOTTOM, CHART_WIDTH - LEFT - RIGHT, 1, SOFT);
}

static void draw_dots(chart *k) {
  for (int64_t i = 0; i < k->n; i++) {
    if (!isfinite(k->loss[i])) continue;
    double x = column_of(k, (double)i), y = height_of(k, fmax(k->loss[i], k->low));
    tn__canvas_line(&k->canvas, x, y, x, y, 2.5, PALE);
  }
}

/* The mean of the steps up to `reach` on both sides, of equally many on both at the start: a curve must not lag behind
 * the fall. */
static void draw_curve(chart *k, int64_t reach) {
  double x0 = 0, y0 = 0;
  for (int64_t i = 0; i < k->n; i++) {
    int64_t r = reach < i ? reach : i, count = 0;
    double sum = 0;
    for (int64_t j = i - r; j <= i + r && j < k->n; j++)
      if (isfinite(k->loss[j])) sum += k->loss[j], count++;
    if (!count) continue;
    double x = column_of(k, (double)i), y = height_of(k, fmax(sum / (double)count, k->low));
    if (x0 > 0) tn__canvas_line(&k->canvas, x0, y0, x, y, 3, BLUE);
    x0 = x;
    y0 = y;
  }
}

static void draw_head(chart *k, const tn__report *r, int64_t reach) {
  char text[128];
  snprintf(text, sizeof text, "Training loss, %s on %s", r->model, r->digits);
  tn__canvas_text(&k->canvas, LEFT, 26, large, text, INK);
  double right = 100.0 * (double)(r->of - r->wrong) / (double)r->of;
  snprintf(text, sizeof text, "cross-entropy, logarithmic; %.2f %% of %lld test digits are read right", right,
           (long long)r->of);
  tn__canvas_text(&k->canvas, LEFT, 58, normal, text, SOFT);
  snprintf(text, sizeof text, "mean of %lld steps", (long long)(2 * reach + 1));
  double x = CHART_WIDTH - RIGHT - tn__canvas_text_width(normal, text);
  tn__canvas_line(&k->canvas, x - 34, TOP + 18, x - 12, TOP + 18, 3, BLUE);
  tn__canvas_text(&k->canvas, x, TOP + 12, normal, text, SOFT);
  for (int i = 0; i < 3; i++)
    tn__canvas_line(&k->canvas, x - 32 + 9 * i, TOP + 38 + i % 2 * 4, x - 32 + 9 * i, TOP + 38 + i % 2 * 4, 3, PALE);
  tn__canvas_text(&k->canvas, x, TOP + 34, normal, "each step", SOFT);
}

bool tn__report_loss(const char *path, const tn__report *r, const float *loss, int64_t first, int64_t n) {
  chart k = {.loss = loss, .first = first, .n = n, .low = 1};
  int64_t reach = n / 60 < 50 ? n / 60 : 50;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(loss[i]) && loss[i] > 0) k.low = fmin(k.low, loss[i]), k.high = fmax(k.high, loss[i]);
  k.low = fmax(k.low, 1e-3) * .8;
  k.high = fmax(k.high, 2 * k.low) * 1.2;
  if (!tn__canvas_open(&k.canvas, CHART_WIDTH, CHART_HEIGHT, PAPER)) return false;
  draw_axes(&k);
  draw_dots(&k);
  draw_curve(&k, reach);
  draw_head(&k, r, reach);
  return save(&k.canvas, path);
}

/* ---- misread digits ---- */

enum { ACROSS = 6, SCALE = 4, IMAGE = TN__SIDE * SCALE, CELL_WIDTH = IMAGE + 24, CELL_HEIGHT = IMAGE + 46, HEAD = 98 };

bool tn__report_misread(const char *path, const tn__report *r, const tn__misread *m, int n) {
  tn__canvas c;
  char text[128];
  int rows = (n + ACROSS - 1) / ACROSS;
  if (!tn__canvas_open(&c, ACROSS * CELL_WIDTH + 24, HEAD + rows * CELL_HEIGHT + 12, PAPER)) return false;
  snprintf(text, sizeof text, "%lld of %lld test digits misread", (long long)r->wrong, (long long)r->of);
  tn__canvas_text(&c, 24, 26, large, text, INK);
  snprintf(text, sizeof text, "by the %s, on %s", r->model, r->digits);
  if (n < r->wrong) snprintf(text + strlen(text), sizeof text - strlen(text), "; these are the first %d", n);
  tn__canvas_text(&c, 24, 58, normal, text, SOFT);
  for (int i = 0; i < n; i++) {
    int x = 24 + i % ACROSS * CELL_WIDTH, y = HEAD + i / ACROSS * CELL_HEIGHT;
    tn__canvas_image(&c, x, y, SCALE, m[i].image, TN__SIDE, CARD, INK);
    snprintf(text, sizeof text, "read %d", m[i].read);
    tn__canvas_text(&c, x, y + IMAGE + 10, normal, text, RED);
    snprintf(text, sizeof text, "is %d", m[i].is);
    tn__canvas_text(&c, x + IMAGE - tn__canvas_text_width(normal, text), y + IMAGE + 10, normal, text, SOFT);
  }
  return save(&c, path);
}

/* ---- progress ---- */

enum { BAR = 16, LINES = 5 }; /* the whole within 80 columns; lines in all where there is no terminal */

double tn__seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tn__progress_start(tn__progress *p, const char *label, int64_t steps, int64_t done) {
  *p = (tn__progress){.steps = steps, .done = done, .start = tn__seconds(), .terminal = isatty(1)};
  snprintf(p->label, sizeof p->label, "%s", label);
}

void tn__progress_show(tn__progress *p, int64_t step, double loss, double rate, double left) {
  double now = tn__seconds();
  bool due = p->terminal ? now - p->shown > .1 : step * LINES / p->steps != p->done * LINES / p->steps;
  if (!due && step != p->steps) return;
  p->shown = now;
  p->done = step;
  char bar[3 * BAR + 1] = "";
  for (int i = 0; p->terminal && i < BAR; i++) strcat(bar, i < step * BAR / p->steps ? "━" : "─");
  int seconds = (int)fmin(ceil(left), 1e6);
  printf("%s%s %s%3d%%  loss %.4f  %6.0f images/s  %d:%02d left%s", p->terminal ? "\r" : "", p->label, bar,
         (int)(100 * step / p->steps), loss, rate, seconds / 60, seconds % 60, p->terminal ? "\033[K" : "\n");
  fflush(stdout);
}

void tn__progress_end(tn__progress *p) {
  if (p->terminal) printf("\r\033[K");
}
