/* What a training run leaves behind for people: pictures, and a progress bar while it lasts.  Prefix tn__report_,
 * tn__progress_. */
#ifndef TN_CLI_REPORT_H
#define TN_CLI_REPORT_H
#include "tenet/data.h"

/* What was trained and how well: stands at the head of each picture. */
typedef struct tn__report {
  const char *model, *digits; /* "cnn", "MNIST" */
  int64_t wrong, of;          /* test digits misread, of so many */
} tn__report;

/* The loss of every step, and a smoothed curve through them; step 0 of the picture is step `first` of the run. */
bool tn__report_loss(const char *path, const tn__report *r, const float *loss, int64_t first, int64_t n);
/* Misread digits: images are 28 x 28, `read` and `is` what was read and what it is. */
typedef struct tn__misread {
  const uint8_t *image;
  int read, is;
} tn__misread;
bool tn__report_misread(const char *path, const tn__report *r, const tn__misread *m, int n);

/* One line that renews itself on a terminal; elsewhere a line now and then. */
typedef struct tn__progress {
  char label[32];
  int64_t steps, done; /* done: when shown last */
  double start, shown; /* seconds */
  bool terminal;
} tn__progress;
double tn__seconds(void); /* a clock that only runs forward */
void tn__progress_start(tn__progress *p, const char *label, int64_t steps, int64_t done);
void tn__progress_show(tn__progress *p, int64_t step, double loss, double images_per_second, double seconds_left);
void tn__progress_end(tn__progress *p);
#endif
