/* Content-keyed file cache.  An entry is its content and then a trailer; shared objects do not mind the extra bytes. */
#include "base/cache.h"
#include "base/sb.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* a disk with less is full: a compiler that fails for want of room fails in its own words */
enum { ENTRY_ROOM = 4 << 20 };

typedef struct trailer {
  char magic[8];
  uint64_t length; /* of the content */
  tn__key hash;    /* of the content, chained to the entry's own key */
} trailer;
static const char magic[8] = {'t', 'n', 'c', 'a', 'c', 'h', 'e', '1'};

tn__key tn__cache_key(const void *p, size_t n, tn__key chain) {
  return (tn__key){tn__hash_bytes(p, n, chain.a), tn__hash_bytes(p, n, chain.b ^ 0x5bf03635f0935bd1u)};
}

/* mkdir -p, all of it private. */
static bool make_dirs(char *path) {
  for (char *s = path + 1;; s++) {
    char c = *s;
    if (c != '/' && c != 0) continue;
    *s = 0;
    int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
    *s = c;
    if (c == 0) return !failed; /* a parent that could not be made shows here, too */
  }
}

/* Entries are code that will run: nobody else may have written them. */
static bool is_private(const struct stat *st) {
  return st->st_uid == geteuid() && !(st->st_mode & S_IWOTH);
}

const char *tn__cache_open(tn__cache *c, tn__mem *m, const char *dir) {
  *c = (tn__cache){.mem = m};
  if (!dir || !*dir) return NULL;
  size_t n = strlen(dir) + 1;
  c->dir = memcpy(tn__mem_alloc(m, n), dir, n);
  struct stat st;
  const char *why = NULL;
  if (!make_dirs(c->dir) || stat(c->dir, &st) != 0) why = strerror(errno);
  else if (!S_ISDIR(st.st_mode)) why = "it is not a folder";
  else if (!is_private(&st)) why = "others may write to it, or it is another user's";
  if (why) tn__cache_close(c);
  return why || access(c->dir, W_OK | X_OK) == 0 ? why : strerror(errno);
}

void tn__cache_close(tn__cache *c) {
  tn__mem_free(c->mem, c->dir);
  c->dir = NULL;
}

static size_t path_size(const tn__cache *c, const char *suffix) {
  return strlen(c->dir) + 1 + 32 + strlen(suffix) + 1;
}

static char *entry_path(const tn__cache *c, tn__key key, const char *suffix, char *path) {
  snprintf(path, path_size(c, suffix), "%s/%016llx%016llx%s", c->dir, (unsigned long long)key.a,
           (unsigned long long)key.b, suffix);
  return path;
}

/* Reads until `n` bytes or the end of the file; the number read, or -1. */
static ssize_t read_full(int fd, void *p, size_t n) {
  size_t got = 0;
  while (got < n) {
    ssize_t r = read(fd, (char *)p + got, n - got);
    if (r == 0) break;
    if (r > 0)
      got += (size_t)r;
    else if (errno != EINTR)
      return -1;
  }
  return (ssize_t)got;
}

static bool write_full(int fd, const void *p, size_t n) {
  size_t put = 0;
  while (put < n) {
    ssize_t r = write(fd, (const char *)p + put, n - put);
    if (r >= 0)
      put += (size_t)r;
    else if (errno != EINTR)
      return false;
  }
  return true;
}

/* Hash of the next `length` bytes of fd; false if it has fewer. */
static bool hash_content(int fd, uint64_t length, tn__key *hash) {
  char piece[16 << 10];
  while (length > 0) {
    size_t n = length < sizeof piece ? (size_t)length : sizeof piece;
    if (read_full(fd, piece, n) != (ssize_t)n) return false;
    *hash = tn__cache_key(piece, n, *hash);
    length -= n;
  }
  return true;
}

static bool is_valid(int fd, const struct stat *st, tn__key key) {
  trailer t;
  if ((uint64_t)st->st_size < sizeof t) return false;
  uint64_t length = (uint64_t)st->st_size - sizeof t;
  return hash_content(fd, length, &key) && read_full(fd, &t, sizeof t) == sizeof t &&
         memcmp(t.magic, magic, sizeof magic) == 0 && t.length == length && t.hash.a == key.a && t.hash.b == key.b;
}

const char *tn__cache_find(tn__cache *c, tn__key key, const char *suffix, tn__arena *a) {
  if (!c->dir) return NULL;
  const char *path = entry_path(c, key, suffix, tn__arena_alloc(a, path_size(c, suffix)));
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return NULL;
  struct stat st;
  bool ours = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_private(&st);
  bool valid = ours && is_valid(fd, &st, key);
  close(fd);
  if (ours && !valid) unlink(path);
  return valid ? path : NULL;
}

/* Appends the trailer; on failure the file is as it was. */
static bool seal(const char *path, tn__key key) {
  int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat st;
  trailer t = {.hash = key};
  memcpy(t.magic, magic, sizeof magic);
  bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && hash_content(fd, (uint64_t)st.st_size, &t.hash);
  if (ok) {
    t.length = (uint64_t)st.st_size;
    ok = write_full(fd, &t, sizeof t);
    if (!ok && ftruncate(fd, st.st_size) != 0) unlink(path);
  }
  return close(fd) == 0 && ok;
}

bool tn__cache_adopt(tn__cache *c, tn__key key, const char *suffix, const char *tmp) {
  if (!c->dir) return false;
  char *path = tn__mem_try_alloc(c->mem, path_size(c, suffix));
  if (!path) return false;
  bool ok = seal(tmp, key) && rename(tmp, entry_path(c, key, suffix, path)) == 0;
  tn__mem_free(c->mem, path);
  return ok;
}

static const char *temp_in(const char *dir, const char *suffix, tn__arena *a) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_printf(&b, "%s/tmp-XXXXXX%s", dir, suffix);
  int fd = mkstemps(b.s, (int)strlen(suffix));
  if (fd < 0) return NULL;
  close(fd);
  return b.s;
}

static bool has_room(const char *dir) {
  struct statvfs fs;
  return statvfs(dir, &fs) != 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= ENTRY_ROOM;
}

const char *tn__cache_temp(tn__cache *c, const char *suffix, tn__arena *a) {
  const char *path = c->dir && has_room(c->dir) ? temp_in(c->dir, suffix, a) : NULL;
  if (path) return path;
  const char *dir = getenv("TMPDIR");
  return temp_in(dir && *dir ? dir : "/tmp", suffix, a);
}

const void *tn__cache_read(tn__cache *c, tn__key key, const char *suffix, tn__arena *a, size_t *size) {
  const char *path = tn__cache_find(c, key, suffix, a);
  struct stat st;
  if (!path || stat(path, &st) != 0 || (size_t)st.st_size < sizeof(trailer)) return NULL;
  *size = (size_t)st.st_size - sizeof(trailer);
  char *content = tn__arena_alloc(a, *size + 1);
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return NULL;
  bool whole = read_full(fd, content, *size) == (ssize_t)*size;
  close(fd);
  return whole ? content : NULL;
}

void tn__cache_write(tn__cache *c, tn__key key, const char *suffix, const void *content, size_t size, tn__arena *a) {
  const char *path = c->dir ? temp_in(c->dir, suffix, a) : NULL;
  int fd = path ? open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
  if (!path) return;
  bool written = fd >= 0 && write_full(fd, content, size);
  if (fd >= 0) written = close(fd) == 0 && written;
  if (!written || !tn__cache_adopt(c, key, suffix, path)) unlink(path);
}
