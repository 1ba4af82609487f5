/* Files that appear whole or not at all: written under a temporary name beside the final one, synced, then renamed.  A
 * link stays one, and what it leads to is replaced; a file that was there hands on its permissions, group and owner, so
 * far as the system lets.  Prefix tn__outfile_. */
#ifndef TN_DATA_OUTFILE_H
#define TN_DATA_OUTFILE_H
#include "ir/ctx.h"

typedef struct tn__outfile {
  const char *path;
  char *target, *temp; /* where `path` leads, and the name beside it; on the context's heap */
  int fd;              /* -1 when closed */
} tn__outfile;

/* Each throws TN_EIO, naming the path and the system's reason.  After a throw, as ever, call tn__outfile_discard. */
void tn__outfile_open(tn_ctx *c, tn__outfile *f, const char *path);
void tn__outfile_write(tn_ctx *c, tn__outfile *f, const void *data, size_t size);
void tn__outfile_commit(tn_ctx *c, tn__outfile *f);
_Noreturn void tn__outfile_fail(tn_ctx *c, const tn__outfile *f, int error); /* an errno */
void tn__outfile_discard(tn_ctx *c, tn__outfile *f); /* nothing if it was committed or never opened ({.fd = -1}) */
#endif
