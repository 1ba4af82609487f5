/* The MNIST digits: found, fetched or drawn.  Prefix tn__mnist_. */
#ifndef TN_CLI_MNIST_H
#define TN_CLI_MNIST_H
#include "tenet/data.h"

typedef enum tn__mnist_file { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, MNIST_FILES } tn__mnist_file;

typedef struct tn__mnist {
  tn_array file[MNIST_FILES]; /* u8: images [n, 28, 28], labels [n], all below 10 */
  char source[512];           /* where they come from, for people */
  bool synthetic;
} tn__mnist;

/* Looks in `dir` if that is not NULL, and nowhere else; else in $TENET_DATA, then in data/mnist; else downloads the
 * original files to data/mnist and verifies their checksums; else draws digits of its own.  Says on stderr what it
 * tried.  False on error, with the context's error set. */
bool tn__mnist_open(tn_ctx *ctx, const char *dir, tn__mnist *m);
void tn__mnist_close(tn_ctx *ctx, tn__mnist *m);
#endif
