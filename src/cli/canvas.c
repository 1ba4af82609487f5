/* A picture in memory. */
#include "cli/canvas.h"
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows of five pixels, the leftmost being bit 4; rows 7 and 8 lie below the line. */
enum { GLYPH_ROWS = 9, GLYPH_COLUMNS = 5 };
static const char glyph_names[] = " 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz.,:;%-/";
static const uint8_t glyphs[sizeof glyph_names - 1][GLYPH_ROWS] = {
    {0, 0, 0, 0, 0, 0, 0}, {14, 17, 17, 17, 17, 17, 14}, {4, 12, 20, 4, 4, 4, 4}, {14, 17, 1, 6, 8, 16, 31},
    {31, 2, 4, 2, 1, 17, 14}, {2, 6, 10, 18, 31, 2, 2}, {31, 16, 30, 1, 1, 17, 14}, {6, 8, 16, 30, 17, 17, 14},
    {31, 1, 2, 4, 8, 8, 8}, {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12}, {14, 17, 17, 31, 17, 17, 17},
    {30, 17, 17, 30, 17, 17, 30}, {14, 17, 16, 16, 16, 17, 14}, {30, 17, 17, 17, 17, 17, 30},
    {31, 16, 16, 30, 16, 16, 31}, {31, 16, 16, 30, 16, 16, 16}, {14, 17, 16, 23, 17, 17, 15},
    {17, 17, 17, 31, 17, 17, 17}, {4, 4, 4, 4, 4, 4, 4}, {7, 2, 2, 2, 2, 18, 12}, {17, 18, 20, 24, 20, 18, 17},
    {16, 16, 16, 16, 16, 16, 31}, {17, 27, 21, 21, 17, 17, 17}, {17, 25, 21, 19, 17, 17, 17},
    {14, 17, 17, 17, 17, 17, 14}, {30, 17, 17, 30, 16, 16, 16}, {14, 17, 17, 17, 21, 18, 13},
    {30, 17, 17, 30, 20, 18, 17}, {15, 16, 16, 14, 1, 1, 30}, {31, 4, 4, 4, 4, 4, 4}, {17, 17, 17, 17, 17, 17, 14},
    {17, 17, 17, 17, 17, 10, 4}, {17, 17, 17, 21, 21, 27, 17}, {17, 17, 10, 4, 10, 17, 17}, {17, 17, 10, 4, 4, 4, 4},
    {31, 1, 2, 4, 8, 16, 31}, {0, 0, 14, 1, 15, 17, 15}, {16, 16, 30, 17, 17, 17, 30}, {0, 0, 14, 17, 16, 17, 14},
    {1, 1, 15, 17, 17, 17, 15}, {0, 0, 14, 17, 31, 16, 14}, {6, 8, 28, 8, 8, 8, 8}, {0, 0, 15, 17, 17, 17, 15, 1, 14},
    {16, 16, 30, 17, 17, 17, 17}, {4, 0, 4, 4, 4, 4, 4}, {4, 0, 4, 4, 4, 4, 4, 4, 8}, {16, 16, 18, 20, 24, 20, 18},
    {8, 8, 8, 8, 8, 8, 4}, {0, 0, 30, 21, 21, 21, 21}, {0, 0, 30, 17, 17, 17, 17}, {0, 0, 14, 17, 17, 17, 14},
    {0, 0, 30, 17, 17, 17, 30, 16, 16}, {0, 0, 15, 17, 17, 17, 15, 1, 1}, {0, 0, 22, 24, 16, 16, 16},
    {0, 0, 15, 16, 14, 1, 30}, {8, 8, 28, 8, 8, 8, 4}, {0, 0, 17, 17, 17, 17, 15}, {0, 0, 17, 17, 17, 10, 4},
    {0, 0, 21, 21, 21, 21, 10}, {0, 0, 17, 10, 4, 10, 17}, {0, 0, 17, 17, 17, 17, 15, 1, 14}, {0, 0, 31, 2, 4, 8, 31},
    {0, 0, 0, 0, 0, 0, 4}, {0, 0, 0, 0, 0, 0, 4, 8}, {0, 0, 4, 0, 0, 0, 4}, {0, 0, 4, 0, 0, 0, 4, 8},
    {24, 25, 2, 4, 8, 19, 3}, {0, 0, 0, 14, 0, 0, 0}, {1, 1, 2, 4, 8, 16, 16},
};

bool tn__canvas_open(tn__canvas *c, int width, int height, tn__colour paper) {
  *c = (tn__canvas){width, height, malloc((size_t)width * (size_t)height * 3)};
  if (c->rgb) tn__canvas_box(c, 0, 0, width, height, paper);
  return c->rgb != NULL;
}

void tn__canvas_close(tn__canvas *c) {
  free(c->rgb);
  c->rgb = NULL;
}

/* Lays ink over a pixel, cover from 0 to 1. */
static void dab(tn__canvas *c, int x, int y, double cover, tn__colour ink) {
  if (x < 0 || y < 0 || x >= c->width || y >= c->height) return;
  uint8_t *p = c->rgb + ((size_t)y * (size_t)c->width + (size_t)x) * 3;
  for (int i = 0; i < 3; i++) p[i] = (uint8_t)lround(p[i] + cover * ((double)(ink >> (16 - 8 * i) & 255) - p[i]));
}

void tn__canvas_box(tn__canvas *c, int x, int y, int width, int height, tn__colour ink) {
  for (int j = y; j < y + height; j++)
    for (int i = x; i < x + width; i++) dab(c, i, j, 1, ink);
}

void tn__canvas_line(tn__canvas *c, double x0, double y0, double x1, double y1, double width, tn__colour ink) {
  double vx = x1 - x0, vy = y1 - y0, length = vx * vx + vy * vy, reach = width / 2 + 1;
  int left = (int)floor(fmin(x0, x1) - reach), right = (int)ceil(fmax(x0, x1) + reach);
  int top = (int)floor(fmin(y0, y1) - reach), bottom = (int)ceil(fmax(y0, y1) + reach);
  for (int j = top; j <= bottom; j++)
    for (int i = left; i <= right; i++) {
      double wx = i + .5 - x0, wy = j + .5 - y0, t = length > 0 ? fmin(fmax((wx * vx + wy * vy) / length, 0), 1) : 0;
      double cover = width / 2 + .5 - hypot(wx - t * vx, wy - t * vy);
      if (cover > 0) dab(c, i, j, fmin(cover, 1), ink);
    }
}

/* ---- text ---- */

static const uint8_t *glyph_of(char name) {
  const char *at = name ? strchr(glyph_names, name) : NULL;
  return glyphs[at ? at - glyph_names : 0];
}

static bool is_set(const uint8_t *glyph, int column, int row) {
  return column >= 0 && column < GLYPH_COLUMNS && row >= 0 && row < GLYPH_ROWS &&
         glyph[row] >> (GLYPH_COLUMNS - 1 - column) & 1;
}

/* The columns that a glyph fills; a space fills two. */
static void extent(const uint8_t *glyph, int *first, int *count) {
  int all = 0, last = GLYPH_COLUMNS - 1;
  for (int row = 0; row < GLYPH_ROWS; row++) all |= glyph[row];
  *first = 0;
  *count = 2;
  if (!all) return;
  while (!(all >> (GLYPH_COLUMNS - 1 - *first) & 1)) ++*first;
  while (!(all >> (GLYPH_COLUMNS - 1 - last) & 1)) last--;
  *count = last - *first + 1;
}

/* Neighbouring pixels are joined by strokes, those at a corner only where no others join them: so that curves come out
 * round. */
static void draw_glyph(tn__canvas *c, double x, double y, double scale, const uint8_t *glyph, tn__colour ink) {
  static const int way[][2] = {{0, 0}, {1, 0}, {0, 1}, {1, 1}, {-1, 1}};
  double pen = fmax(scale * .8, 1);
  for (int j = 0; j < GLYPH_ROWS; j++)
    for (int i = 0; i < GLYPH_COLUMNS; i++)
      for (size_t k = 0; is_set(glyph, i, j) && k < sizeof way / sizeof *way; k++) {
        int dx = way[k][0], dy = way[k][1];
        bool corner = dx && dy;
        if (!is_set(glyph, i + dx, j + dy) || (corner && (is_set(glyph, i + dx, j) || is_set(glyph, i, j + dy))))
          continue;
        double x0 = x + (i + .5) * scale, y0 = y + (j + .5) * scale;
        tn__canvas_line(c, x0, y0, x0 + dx * scale, y0 + dy * scale, pen, ink);
      }
}

void tn__canvas_text(tn__canvas *c, double x, double y, double scale, const char *text, tn__colour ink) {
  for (int first, count; *text; text++, x += (count + 1) * scale) {
    const uint8_t *glyph = glyph_of(*text);
    extent(glyph, &first, &count);
    draw_glyph(c, x - first * scale, y, scale, glyph, ink);
  }
}

double tn__canvas_text_width(double scale, const char *text) {
  double width = 0;
  for (int first, count; *text; text++, width += (count + 1) * scale) extent(glyph_of(*text), &first, &count);
  return width > 0 ? width - scale : 0;
}

/* ---- images ---- */

static double pixel(const uint8_t *grey, int side, int x, int y) {
  return x < 0 || y < 0 || x >= side || y >= side ? 0 : grey[y * side + x] / 255.0;
}

void tn__canvas_image(tn__canvas *c, int x, int y, int scale, const uint8_t *grey, int side, tn__colour paper,
                      tn__colour ink) {
  tn__canvas_box(c, x, y, side * scale, side * scale, paper);
  for (int j = 0; j < side * scale; j++)
    for (int i = 0; i < side * scale; i++) { /* between the centres of the four pixels around */
      double u = (i + .5) / scale - .5, v = (j + .5) / scale - .5, fu = u - floor(u), fv = v - floor(v);
      int a = (int)floor(u), b = (int)floor(v);
      double upper = pixel(grey, side, a, b) * (1 - fu) + pixel(grey, side, a + 1, b) * fu;
      double lower = pixel(grey, side, a, b + 1) * (1 - fu) + pixel(grey, side, a + 1, b + 1) * fu;
      dab(c, x + i, y + j, upper * (1 - fv) + lower * fv, ink);
    }
}

bool tn__canvas_save(const tn__canvas *c, const char *path) {
  char temp[1024];
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)c->width,
                     .height = (png_uint_32)c->height,
                     .format = PNG_FORMAT_RGB};
  if (snprintf(temp, sizeof temp, "%s.part", path) >= (int)sizeof temp) return false;
  if (png_image_write_to_file(&image, temp, 0, c->rgb, 0, NULL) && rename(temp, path) == 0) return true;
  unlink(temp);
  return false;
}
