/* Small files for tests of readers. */
#ifndef TN_TEST_SUPPORT_FILES_H
#define TN_TEST_SUPPORT_FILES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path in a folder of the process's own, made on first use. */
static inline const char *test_path(const char *name) {
  static char dir[64], path[4][160];
  static int turn;
  if (!*dir) {
    strcpy(dir, "/tmp/tenet-test-XXXXXX");
    if (!mkdtemp(dir)) abort();
  }
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
  return path[turn];
}

static inline const char *test_write_file(const char *name, const void *data, size_t n) {
  const char *path = test_path(name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
  return path;
}

/* The whole file, to be freed. */
static inline char *test_read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *data = malloc(1 << 20);
  *n = fread(data, 1, 1 << 20, f);
  fclose(f);
  return data;
}

/* How often a message names the path. */
static inline int test_mentions(const char *text, const char *path) {
  int n = 0;
  for (const char *at = text; path && (at = strstr(at, path)); at++) n++;
  return n;
}

/* Removes the folder of test_path and what is in it. */
static inline void test_remove_files(void) {
  char command[200];
  snprintf(command, sizeof command, "rm -rf '%s'", test_path(""));
  if (system(command) != 0) abort();
}
#endif
