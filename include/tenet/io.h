/* Tensors in files: safetensors (https://github.com/huggingface/safetensors, "Format").
 *
 * A file is an 8-byte little-endian length, a JSON header of that many bytes, and the elements.  Nothing in it is
 * believed beyond what the file is long: a header that lies (sizes, offsets that overlap, leave gaps or reach beyond
 * the end, unknown dtypes, a name twice, JSON nested too deeply) is TN_EFORMAT, and no allocation is larger than the
 * file. */
#ifndef TENET_IO_H
#define TENET_IO_H
#include "tenet/tensor_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A string of the header's "__metadata__". */
typedef struct tn_meta {
  const char *key, *value;
} tn_meta;

/* Realises n tensors and writes them with nmeta metadata strings.  Names are UTF-8, not empty, each once, not
 * "__metadata__".  The file appears under `path` whole and synced to disk, or not at all: on an error (TN_EIO: a full
 * disk, no permission) what was there before stays.  A file that is replaced hands on its permissions, group and owner,
 * so far as the system lets; where `path` is a link, the file is replaced that it leads to (TN_EIO if there is none).
 */
TN_API tn_status tn_save_safetensors(tn_ctx *ctx, const char *path, int n, const char *const *names,
                                     tn_tensor *const *tensors, int nmeta, const tn_meta *meta);

/* An open file, of which only the header has been read. */
typedef struct tn_file tn_file;

/* NULL on error: TN_EIO, TN_EFORMAT. */
TN_API tn_file *tn_load_safetensors(tn_ctx *ctx, const char *path);
TN_API int tn_file_count(const tn_file *f);               /* tensors in the file; 0 for NULL */
TN_API const char *tn_file_name(const tn_file *f, int i); /* in the order of the file's bytes; NULL if out of range */
/* Reads one tensor to the context's device.  TN_EINVAL: no such name.  NULL f gives NULL. */
TN_API tn_tensor *tn_file_tensor(tn_file *f, const char *name);
/* Reads one into the realised tensor dst; its dtype and shape must be dst's (TN_EDTYPE, TN_ESHAPE). */
TN_API tn_status tn_file_read(tn_file *f, const char *name, tn_tensor *dst);
TN_API const char *tn_file_metadata(const tn_file *f, const char *key); /* lives as long as f; NULL if absent */
TN_API void tn_file_close(tn_file *f);                                  /* NULL allowed */

#ifdef __cplusplus
}
#endif
#endif
