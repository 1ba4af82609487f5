/* Where the digits come from. */
#include "cli/mnist.h"
#include "cli/digits.h"
#include "cli/net.h"
#include "ir/ctx.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATH_ROOM = 512, SHA256_HEX = 64, WHY_ROOM = 256, DRAWN = 30000, DRAWN_TEST = 5000 };

static const char home[] = "data/mnist";

/* The four files as published, and the SHA-256 of each. */
static const struct { const char *name, *sha256; } files[MNIST_FILES] = {
    [TRAIN_IMAGES] = {"train-images-idx3-ubyte", "db8f937d487057fb14a9f0fbe97f0bc8d311ab41b750d41e1ff37c43b9e55e19"},
    [TRAIN_LABELS] = {"train-labels-idx1-ubyte", "51fc562b6747b666fbf6e84ce29d43c3cb5f9c388c664d43b33f02095313405a"},
    [TEST_IMAGES] = {"t10k-images-idx3-ubyte", "cfeddb84311ecf044fc6a5b0f6ee8a24d265d4e83e388400186eb114082f4209"},
    [TEST_LABELS] = {"t10k-labels-idx1-ubyte", "e41c74e484045d39b462a7790a4af51301bd9b0b24f0154798d713ec68c45920"},
};

static const char *const mirrors[] = {
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
};

/* ---- commands ---- */

/* Runs argv; what it says goes to out: at most room - 1 bytes and a NUL.  The exit code, -1 if it could not run. */
static int run_command(const char *const *argv, char *out, size_t room) {
  int pipes[2], status;
  pid_t pid;
  if (pipe(pipes) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
  posix_spawn_file_actions_addclose(&actions, pipes[0]);
  posix_spawn_file_actions_addclose(&actions, pipes[1]);
  int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipes[1]);
  char chunk[256];
  size_t used = 0;
  for (ssize_t n; error == 0 && (n = read(pipes[0], chunk, sizeof chunk)) != 0;) {
    if (n < 0 && errno != EINTR) break;
    for (ssize_t i = 0; i < n; i++)
      if (used + 1 < room) out[used++] = chunk[i];
  }
  out[used] = 0;
  close(pipes[0]);
  if (error) return -1;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool fetch(const char *url, const char *path, char *why) {
  const char *const curl[] = {"curl", "-fsSL", "--connect-timeout", "10", "--max-time", "120", "-o", path, url, NULL};
  const char *const wget[] = {"wget", "-nv", "--tries=1", "--timeout=20", "-O", path, url, NULL};
  int code = run_command(curl, why, WHY_ROOM);
  if (code < 0) code = run_command(wget, why, WHY_ROOM);
  if (code < 0) snprintf(why, WHY_ROOM, "neither curl nor wget is installed");
  else if (code && !*why) snprintf(why, WHY_ROOM, "exit code %d", code);
  return code == 0;
}

static bool has_checksum(const char *path, const char *sha256, char *why) {
  const char *const argv[] = {"sha256sum", path, NULL};
  char out[WHY_ROOM];
  int code = run_command(argv, out, sizeof out);
  if (code == 0 && !strncmp(out, sha256, SHA256_HEX)) return true;
  snprintf(why, WHY_ROOM, "%s, so it is not used",
           code ? "sha256sum does not run to verify it" : "damaged (its SHA-256 is not the published one)");
  return false;
}

/* ---- files ---- */

static bool exists(const char *path) { return access(path, R_OK) == 0; }

/* Path of a file in dir, compressed or not; false if it is not there. */
static bool locate(const char *dir, int f, char *path) {
  snprintf(path, PATH_ROOM, "%s/%s.gz", dir, files[f].name);
  if (exists(path)) return true;
  snprintf(path, PATH_ROOM, "%s/%s", dir, files[f].name);
  return exists(path);
}

/* dir, or the folder mnist in it: the one that holds all four files. */
static bool find_in(const char *dir, char *found) {
  for (int sub = 0; sub < 2; sub++) {
    char path[PATH_ROOM];
    int n = 0;
    snprintf(found, PATH_ROOM, sub ? "%s/mnist" : "%s", dir);
    while (n < MNIST_FILES && locate(found, n, path)) n++;
    if (n == MNIST_FILES) return true;
  }
  return false;
}

static bool refuse(tn_ctx *ctx, const char *dir, const char *why) {
  tn__error(ctx, TN_EFORMAT, "the digits in %s: %s", dir, why);
  return false;
}

static bool load(tn_ctx *ctx, const char *dir, tn__mnist *m) {
  for (int f = 0; f < MNIST_FILES; f++) {
    char path[PATH_ROOM];
    tn_array *a = &m->file[f];
    if (!locate(dir, f, path)) return refuse(ctx, dir, "a file is missing");
    if (tn_idx_read(ctx, path, a) != TN_OK) return false;
    bool images = f == TRAIN_IMAGES || f == TEST_IMAGES;
    if (a->dtype != TN_U8 || a->rank != (images ? 3 : 1) ||
        (images && (a->shape[1] != TN__SIDE || a->shape[2] != TN__SIDE)))
      return refuse(ctx, dir, "they are not images of 28 x 28 bytes with one byte for each label");
    if (a->shape[0] < 1 || (!images && a->shape[0] != m->file[f - 1].shape[0]))
      return refuse(ctx, dir, "not one label for each image");
    for (size_t i = 0; !images && i < a->bytes; i++)
      if (((const uint8_t *)a->data)[i] >= TN__CLASSES) return refuse(ctx, dir, "a label is above 9");
  }
  snprintf(m->source, sizeof m->source, "%s", dir);
  return true;
}

/* ---- fetching ---- */

static bool fetch_file(int f) {
  char path[PATH_ROOM], temp[PATH_ROOM + 16], url[PATH_ROOM], why[WHY_ROOM];
  snprintf(path, sizeof path, "%s/%s.gz", home, files[f].name);
  snprintf(temp, sizeof temp, "%s.part", path);
  for (size_t i = 0; i < sizeof mirrors / sizeof *mirrors; i++) {
    snprintf(url, sizeof url, "%s/%s.gz", mirrors[i], files[f].name);
    fprintf(stderr, "fetching %s\n", url);
    if (fetch(url, temp, why) && has_checksum(temp, files[f].sha256, why)) {
      if (rename(temp, path) == 0) return true;
      snprintf(why, sizeof why, "it cannot be kept: %s", strerror(errno));
    }
    fprintf(stderr, "  %.*s\n", (int)strcspn(why, "\n"), why);
    unlink(temp);
  }
  return false;
}

static bool fetch_all(void) {
  if ((mkdir("data", 0777) != 0 && errno != EEXIST) || (mkdir(home, 0777) != 0 && errno != EEXIST)) {
    fprintf(stderr, "the folder %s cannot be made: %s\n", home, strerror(errno));
    return false;
  }
  char path[PATH_ROOM];
  for (int f = 0; f < MNIST_FILES; f++)
    if (!locate(home, f, path) && !fetch_file(f)) return false;
  return true;
}

/* ---- all together ---- */

static bool draw(tn_ctx *ctx, tn__mnist *m) {
  fprintf(stderr, "MNIST is neither here nor to be fetched: drawing synthetic digits instead (--data DIR names a "
                  "folder that holds MNIST)\n");
  snprintf(m->source, sizeof m->source, "drawn by Tenet, not MNIST");
  m->synthetic = true;
  return tn__digits_draw(ctx, DRAWN, 1, &m->file[TRAIN_IMAGES], &m->file[TRAIN_LABELS]) &&
         tn__digits_draw(ctx, DRAWN_TEST, 2, &m->file[TEST_IMAGES], &m->file[TEST_LABELS]);
}

bool tn__mnist_open(tn_ctx *ctx, const char *dir, tn__mnist *m) {
  char found[PATH_ROOM];
  const char *env = getenv("TENET_DATA");
  *m = (tn__mnist){0};
  if (dir) return find_in(dir, found) ? load(ctx, found, m) : refuse(ctx, dir, "not all four files of MNIST are there");
  if (env && *env) {
    if (find_in(env, found)) return load(ctx, found, m);
    fprintf(stderr, "$TENET_DATA is %s, but not all four files of MNIST are there\n", env);
  }
  if (find_in(home, found) || (fetch_all() && find_in(home, found))) return load(ctx, found, m);
  return draw(ctx, m);
}

void tn__mnist_close(tn_ctx *ctx, tn__mnist *m) {
  for (int f = 0; f < MNIST_FILES; f++) tn_array_free(ctx, &m->file[f]);
}
