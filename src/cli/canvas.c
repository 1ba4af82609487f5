/* A picture in memory. */
#include "cli/canvas.h"
#include <ctype.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seven rows of five pixels, the leftmost being bit 4. */
static const char glyph_names[] = " 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.,:%-/";
static const uint8_t glyphs[sizeof glyph_names - 1][TN__GLYPH_HEIGHT] = {
    {0, 0, 0, 0, 0, 0, 0},        {14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},      {14, 17, 1, 6, 8, 16, 31},
    {31, 2, 4, 2, 1, 17, 14},     {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14},   {6, 8, 16, 30, 17, 17, 14},
    {31, 1, 2, 4, 8, 8, 8},       {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12},   {14, 17, 17, 31, 17, 17, 17},
    {30, 17, 17, 30, 17, 17, 30}, {14, 17, 16, 16, 16, 17, 14}, {30, 17, 17, 17, 17, 17, 30}, {31, 16, 16, 30, 16, 16, 31},
    {31, 16, 16, 30, 16, 16, 16}, {14, 17, 16, 23, 17, 17, 15}, {17, 17, 17, 31, 17, 17, 17}, {14, 4, 4, 4, 4, 4, 14},
    {7, 2, 2, 2, 2, 18, 12},      {17, 18, 20, 24, 20, 18, 17}, {16, 16, 16, 16, 16, 16, 31}, {17, 27, 21, 21, 17, 17, 17},
    {17, 25, 21, 19, 17, 17, 17}, {14, 17, 17, 17, 17, 17, 14}, {30, 17, 17, 30, 16, 16, 16}, {14, 17, 17, 17, 21, 18, 13},
    {30, 17, 17, 30, 20, 18, 17}, {15, 16, 16, 14, 1, 1, 30},   {31, 4, 4, 4, 4, 4, 4},       {17, 17, 17, 17, 17, 17, 14},
    {17, 17, 17, 17, 17, 10, 4},  {17, 17, 17, 21, 21, 27, 17}, {17, 17, 10, 4, 10, 17, 17},  {17, 17, 10, 4, 4, 4, 4},
    {31, 1, 2, 4, 8, 16, 31},     {0, 0, 0, 0, 0, 12, 12},      {0, 0, 0, 0, 12, 4, 8},       {0, 12, 12, 0, 12, 12, 0},
    {24, 25, 2, 4, 8, 19, 3},     {0, 0, 0, 14, 0, 0, 0},       {1, 1, 2, 4, 8, 16, 16},
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

void tn__canvas_text(tn__canvas *c, int x, int y, int scale, const char *text, tn__colour ink) {
  for (; *text; text++, x += TN__GLYPH_WIDTH * scale) {
    const char *at = strchr(glyph_names, toupper((unsigned char)*text));
    if (!at) continue;
    for (int j = 0; j < TN__GLYPH_HEIGHT; j++)
      for (int i = 0; i < 5; i++)
        if (glyphs[at - glyph_names][j] >> (4 - i) & 1) tn__canvas_box(c, x + i * scale, y + j * scale, scale, scale, ink);
  }
}

static double pixel(const uint8_t *grey, int side, int x, int y) {
  return x < 0 || y < 0 || x >= side || y >= side ? 0 : grey[y * side + x] / 255.0;
}

void tn__canvas_image(tn__canvas *c, int x, int y, int scale, const uint8_t *grey, int side, tn__colour paper, tn__colour ink) {
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
  png_image image = {.version = PNG_IMAGE_VERSION, .width = (png_uint_32)c->width, .height = (png_uint_32)c->height, .format = PNG_FORMAT_RGB};
  if (snprintf(temp, sizeof temp, "%s.part", path) >= (int)sizeof temp) return false;
  if (png_image_write_to_file(&image, temp, 0, c->rgb, 0, NULL) && rename(temp, path) == 0) return true;
  unlink(temp);
  return false;
}
