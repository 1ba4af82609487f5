/* Whole files or none. */
#include "data/outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void tn__outfile_fail(tn_ctx *c, const tn__outfile *f, int error) {
  tn__fail(c, TN_EIO, "%s cannot be written: %s", f->path, strerror(error));
}

/* Where a path leads, over all links. */
static char *find_target(tn_ctx *c, const tn__outfile *f) {
  char real[PATH_MAX];
  struct stat link;
  const char *target = realpath(f->path, real);
  if (!target) {
    if (errno != ENOENT) tn__outfile_fail(c, f, errno);
    if (lstat(f->path, &link) == 0) tn__fail(c, TN_EIO, "%s cannot be written: it is a link that leads nowhere", f->path);
    target = f->path;
  }
  char *own = tn__mem_alloc(&c->mem, strlen(target) + 1);
  return strcpy(own, target);
}

/* Permissions of a new file. */
static mode_t usual_mode(void) {
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

void tn__outfile_open(tn_ctx *c, tn__outfile *f, const char *path) {
  *f = (tn__outfile){.path = path, .fd = -1};
  if (!path) tn__fail(c, TN_EINVAL, "the path is NULL");
  struct stat old; /* renaming would put a plain file in the place of a device or a pipe */
  bool there = stat(path, &old) == 0;
  if (there && !S_ISREG(old.st_mode)) tn__fail(c, TN_EIO, "%s cannot be written: it is no regular file", path);
  f->target = find_target(c, f);
  size_t n = strlen(f->target);
  f->temp = tn__mem_alloc(&c->mem, n + sizeof ".XXXXXX");
  memcpy(f->temp, f->target, n);
  memcpy(f->temp + n, ".XXXXXX", sizeof ".XXXXXX");
  f->fd = mkostemp(f->temp, O_CLOEXEC);
  if (f->fd < 0) tn__outfile_fail(c, f, errno);
  fchmod(f->fd, there ? old.st_mode & 0777 : usual_mode()); /* mkostemp makes it private; on file systems without modes it stays so */
}

void tn__outfile_write(tn_ctx *c, tn__outfile *f, const void *data, size_t size) {
  for (const char *p = data; size;) {
    ssize_t n = write(f->fd, p, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) tn__outfile_fail(c, f, n < 0 ? errno : ENOSPC);
    p += n;
    size -= (size_t)n;
  }
}

/* So that the new name survives a crash, too; where directories cannot be synced, it need not be. */
static void sync_directory(tn_ctx *c, const char *path) {
  const char *slash = strrchr(path, '/');
  char *dir = tn__alloc(c, strlen(path) + 2);
  size_t n = slash ? (size_t)(slash - path) + 1 : 0;
  memcpy(dir, n ? path : ".", n ? n : 1);
  dir[n ? n : 1] = 0;
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

void tn__outfile_commit(tn_ctx *c, tn__outfile *f) {
  if (fsync(f->fd) != 0 && errno != EINVAL && errno != EROFS) tn__outfile_fail(c, f, errno);
  if (rename(f->temp, f->target) != 0) tn__outfile_fail(c, f, errno);
  close(f->fd); /* all is synced: nothing can fail any more */
  f->fd = -1;
  sync_directory(c, f->target);
  tn__outfile_discard(c, f);
}

void tn__outfile_discard(tn_ctx *c, tn__outfile *f) {
  if (f->fd >= 0) {
    close(f->fd);
    unlink(f->temp);
  }
  tn__mem_free(&c->mem, f->temp);
  tn__mem_free(&c->mem, f->target);
  *f = (tn__outfile){.fd = -1};
}
