/* The loss curve and the misread digits as pictures; the progress bar. */
#include "cli/report.h"
#include "cli/canvas.h"
#include "cli/net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAPER = 0xfbfaf7, CARD = 0xffffff, INK = 0x2b2d42, FAINT = 0xe4e1da, SOFT = 0x8d99ae, BLUE = 0x2a6f97, PALE = 0xb8d8e8, RED = 0xc8553d };

static int text_width(const char *s, int scale) { return (int)strlen(s) * TN__GLYPH_WIDTH * scale; }

static bool save(tn__canvas *c, const char *path) {
  bool ok = tn__canvas_save(c, path);
  tn__canvas_close(c);
  return ok;
}

/* ---- the loss ---- */

enum { CHART_WIDTH = 960, CHART_HEIGHT = 540, LEFT = 90, RIGHT = 40, TOP = 80, BOTTOM = 70 };

/* Logarithmic from `low` to `high`. */
static double height_of(double loss, double low, double high) {
  double t = (log(loss) - log(low)) / (log(high) - log(low));
  return CHART_HEIGHT - BOTTOM - fmin(fmax(t, 0), 1) * (CHART_HEIGHT - TOP - BOTTOM);
}

static double column_of(int64_t i, int64_t n) {
  return LEFT + (double)i / (double)(n > 1 ? n - 1 : 1) * (CHART_WIDTH - LEFT - RIGHT);
}

static void draw_axes(tn__canvas *c, const char *title, int64_t n, double low, double high) {
  char text[64];
  tn__canvas_text(c, LEFT, 30, 3, title, INK);
  for (double decade = 1e-6; decade <= high; decade *= 10)
    for (int m = 1; m <= 5; m = m == 1 ? 2 : m + 3) {
      double v = decade * m;
      if (v < low * .999 || v > high * 1.001) continue;
      int y = (int)height_of(v, low, high);
      tn__canvas_box(c, LEFT, y, CHART_WIDTH - LEFT - RIGHT, 1, FAINT);
      snprintf(text, sizeof text, "%g", v);
      tn__canvas_text(c, LEFT - 12 - text_width(text, 2), y - 7, 2, text, SOFT);
    }
  for (int i = 0; i <= 4; i++) {
    int64_t step = n * i / 4;
    snprintf(text, sizeof text, "%lld", (long long)step);
    int x = (int)column_of(step, n + 1) - text_width(text, 2) / 2;
    tn__canvas_text(c, x, CHART_HEIGHT - BOTTOM + 14, 2, text, SOFT);
  }
  tn__canvas_text(c, (CHART_WIDTH - text_width("step", 2)) / 2, CHART_HEIGHT - 26, 2, "step", SOFT);
  tn__canvas_box(c, LEFT, CHART_HEIGHT - BOTTOM, CHART_WIDTH - LEFT - RIGHT, 2, SOFT);
}

bool tn__report_loss(const char *path, const char *title, const float *loss, int64_t n) {
  tn__canvas c;
  double low = INFINITY, high = 0, mean = 0, weight = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(loss[i]) && loss[i] > 0) low = fmin(low, loss[i]), high = fmax(high, loss[i]);
  low = fmax(fmin(low, 1), 1e-3) * .8;
  high = fmax(high, 2 * low) * 1.2;
  if (!tn__canvas_open(&c, CHART_WIDTH, CHART_HEIGHT, PAPER)) return false;
  draw_axes(&c, title, n, low, high);
  double keep = 1 - 1 / fmin(fmax((double)n / 60, 1), 100), x0 = 0, y0 = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = column_of(i, n), y = height_of(fmax(loss[i], low), low, high);
    if (isfinite(loss[i])) tn__canvas_line(&c, x, y, x, y, 2.5, PALE);
  }
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(loss[i])) continue;
    mean = keep * mean + (1 - keep) * loss[i];
    weight = keep * weight + 1 - keep;
    double x = column_of(i, n), y = height_of(mean / weight, low, high);
    if (x0 > 0) tn__canvas_line(&c, x0, y0, x, y, 3, BLUE);
    x0 = x;
    y0 = y;
  }
  return save(&c, path);
}

/* ---- misread digits ---- */

enum { ACROSS = 6, SCALE = 4, IMAGE = TN__SIDE * SCALE, CELL_WIDTH = IMAGE + 24, CELL_HEIGHT = IMAGE + 54, HEAD = 84 };

bool tn__report_misread(const char *path, const tn__misread *m, int n, int64_t total, int64_t of) {
  tn__canvas c;
  char text[64];
  int rows = n ? (n + ACROSS - 1) / ACROSS : 1;
  if (!tn__canvas_open(&c, ACROSS * CELL_WIDTH + 24, HEAD + rows * CELL_HEIGHT + 12, PAPER)) return false;
  snprintf(text, sizeof text, "%lld of %lld misread", (long long)total, (long long)of);
  tn__canvas_text(&c, 24, 32, 3, text, INK);
  for (int i = 0; i < n; i++) {
    int x = 24 + i % ACROSS * CELL_WIDTH, y = HEAD + i / ACROSS * CELL_HEIGHT;
    tn__canvas_image(&c, x, y, SCALE, m[i].image, TN__SIDE, CARD, INK);
    snprintf(text, sizeof text, "read %d", m[i].read);
    tn__canvas_text(&c, x, y + IMAGE + 6, 2, text, RED);
    snprintf(text, sizeof text, "is %d", m[i].is);
    tn__canvas_text(&c, x, y + IMAGE + 24, 2, text, SOFT);
  }
  return save(&c, path);
}

/* ---- progress ---- */

enum { BAR = 24, LINES = 5 }; /* lines in all where there is no terminal */

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
  printf("%s%s %s%3d%%  loss %.4f  %6.0f images/s  %d:%02d left %s", p->terminal ? "\r" : "", p->label, bar, (int)(100 * step / p->steps),
         loss, rate, seconds / 60, seconds % 60, p->terminal ? "" : "\n");
  fflush(stdout);
}

void tn__progress_end(tn__progress *p) {
  if (p->terminal) printf("\r\033[K");
}
