/* Whole files or none. */
#include "data/outfile.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
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
    if (lstat(f->path, &link) == 0)
      tn__fail(c, TN_EIO, "%s cannot be written: it is a link that leads nowhere", f->path);
    target = f->path;
  }
  char *own = tn__mem_alloc(&c->mem, strlen(target) + 1);
  return strcpy(own, target);
}

/* A name of its own beside the target, short whatever that one's length. */
static void open_temp(tn_ctx *c, tn__outfile *f, mode_t mode) {
  static atomic_uint used;
  enum { NAME = sizeof ".tenet-" + 2 * 8 + 1 };
  const char *slash = strrchr(f->target, '/');
  size_t dir = slash ? (size_t)(slash - f->target) + 1 : 0;
  f->temp = tn__mem_alloc(&c->mem, dir + NAME);
  memcpy(f->temp, f->target, dir);
  do {
    snprintf(f->temp + dir, NAME, ".tenet-%x-%x", (unsigned)getpid(), atomic_fetch_add(&used, 1));
    f->fd = open(f->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  } while (f->fd < 0 && errno == EEXIST);
  if (f->fd < 0) tn__outfile_fail(c, f, errno);
}

/* Owner, group and permissions of the file that is replaced, so far as the system lets; a group that may not be given
 * gets none.  On file systems without modes it stays private. */
static void hand_on(const tn__outfile *f, const struct stat *old) {
  bool group = fchown(f->fd, old->st_uid, old->st_gid) == 0 || fchown(f->fd, (uid_t)-1, old->st_gid) == 0;
  fchmod(f->fd, old->st_mode & (group ? 0777 : 0707));
}

void tn__outfile_open(tn_ctx *c, tn__outfile *f, const char *path) {
  *f = (tn__outfile){.path = path, .fd = -1};
  if (!path) tn__fail(c, TN_EINVAL, "the path is NULL");
  struct stat old; /* renaming would put a plain file in the place of a device or a pipe */
  bool there = stat(path, &old) == 0;
  if (there && !S_ISREG(old.st_mode)) tn__fail(c, TN_EIO, "%s cannot be written: it is no regular file", path);
  f->target = find_target(c, f);
  open_temp(c, f, there ? 0600 : 0666);
  if (there) hand_on(f, &old);
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
