/* Data sets in host memory: arrays, IDX files, batches. */
#ifndef TENET_DATA_H
#define TENET_DATA_H
#include "tenet/tensor_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A dense row-major array in host memory.  What tn_idx_read() fills belongs to the context's heap: end it with
 * tn_array_free() before the context closes.  Arrays of the caller's own may be passed in, too. */
typedef struct tn_array {
  tn_dtype dtype;
  int rank;
  int64_t shape[TN_MAX_RANK];
  void *data;
  size_t bytes; /* product of the shape times the dtype's size */
} tn_array;

/* Reads an IDX file (LeCun, "The MNIST database of handwritten digits": the IDX file format), plain or compressed by
 * gzip; u8, i8, i16, i32, f32 or f64 of any rank up to TN_MAX_RANK.  Memory grows with what really comes out of the
 * file, whatever its header promises. TN_EIO: it cannot be read; TN_EFORMAT: no IDX file, damaged, cut short, or longer
 * than its header says. *out is then empty. */
TN_API tn_status tn_idx_read(tn_ctx *ctx, const char *path, tn_array *out);
/* Writes one, compressed if the path ends in ".gz"; whole and synced, or not at all.  Sizes must be below 2^32. */
TN_API tn_status tn_idx_write(tn_ctx *ctx, const char *path, const tn_array *array);
TN_API void tn_array_free(tn_ctx *ctx, tn_array *array); /* and empties *array */

/* Batches of rows of one or more arrays (images and labels), gathered into buffers that are used again for every batch.
 *
 *   tn_batches_start(b, epoch);
 *   while ((rows = tn_batches_next(b)) > 0) { ... tn_batches_rows(b, 0) ... }
 *
 * The order of an epoch depends on (seed, epoch, number of rows) only; the last batch may be short. */
typedef struct tn_batches tn_batches;

/* n arrays of one first size, read but not copied; they must outlive the iterator.  shuffle = false: in the order of
 * the arrays.  NULL on error. */
TN_API tn_batches *tn_batches_open(tn_ctx *ctx, int n, const tn_array *arrays, int64_t batch, bool shuffle,
                                   uint64_t seed);
/* To the start of an epoch, skipping its first `skip` batches (to continue an epoch that was interrupted). */
TN_API void tn_batches_start(tn_batches *b, uint64_t epoch, int64_t skip);
/* gathers the next batch; its rows; 0 at the end of the epoch */
TN_API int64_t tn_batches_next(tn_batches *b);
/* rows of array i, until the next call; NULL if out of range */
TN_API const void *tn_batches_rows(const tn_batches *b, int i);
TN_API int64_t tn_batches_count(const tn_batches *b);           /* batches in an epoch */
TN_API void tn_batches_close(tn_batches *b);                    /* NULL allowed */

#ifdef __cplusplus
}
#endif
#endif
