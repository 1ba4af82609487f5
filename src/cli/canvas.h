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

bool tn__canvas_open(tn__canvas *c, int width, int height, tn__colour paper); /* false when memory is out */
void tn__canvas_close(tn__canvas *c);
/* What lies outside of the canvas is not drawn. */
void tn__canvas_box(tn__canvas *c, int x, int y, int width, int height, tn__colour ink);
/* smooth */
void tn__canvas_line(tn__canvas *c, double x0, double y0, double x1, double y1, double width, tn__colour ink);
/* Top left corner at x, y; capitals are 7 * scale high.  Letters, digits, space and .,:;%-/ */
void tn__canvas_text(tn__canvas *c, double x, double y, double scale, const char *text, tn__colour ink);
double tn__canvas_text_width(double scale, const char *text);
/* side x side bytes, 0 = paper, 255 = ink, each pixel `scale` wide, smoothly enlarged */
void tn__canvas_image(tn__canvas *c, int x, int y, int scale, const uint8_t *grey, int side, tn__colour paper,
                      tn__colour ink);
bool tn__canvas_save(const tn__canvas *c, const char *path); /* whole or not at all; false with errno's reason */
#endif
