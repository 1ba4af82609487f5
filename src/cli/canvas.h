/* A picture in memory: boxes, lines, text, grey images; written as PNG.  Prefix tn__canvas_. */
#ifndef TN_CLI_CANVAS_H
#define TN_CLI_CANVAS_H
#include <stdbool.h>
#include <stdint.h>

typedef uint32_t tn__colour; /* 0xRRGGBB */

typedef struct tn__canvas {
  int width, height;
  uint8_t *rgb;
} tn__canvas;

enum { TN__GLYPH_WIDTH = 6, TN__GLYPH_HEIGHT = 7 }; /* of a character at scale 1, its gap included */

bool tn__canvas_open(tn__canvas *c, int width, int height, tn__colour paper); /* false when memory is out */
void tn__canvas_close(tn__canvas *c);
/* What lies outside of the canvas is not drawn. */
void tn__canvas_box(tn__canvas *c, int x, int y, int width, int height, tn__colour ink);
void tn__canvas_line(tn__canvas *c, double x0, double y0, double x1, double y1, double width, tn__colour ink); /* smooth */
/* Top left corner at x, y.  Letters (all as capitals), digits, space and .,:%-/ */
void tn__canvas_text(tn__canvas *c, int x, int y, int scale, const char *text, tn__colour ink);
/* side x side bytes, 0 = paper, 255 = ink, each pixel `scale` wide, smoothly enlarged */
void tn__canvas_image(tn__canvas *c, int x, int y, int scale, const uint8_t *grey, int side, tn__colour paper, tn__colour ink);
bool tn__canvas_save(const tn__canvas *c, const char *path); /* whole or not at all; false with errno's reason */
#endif
