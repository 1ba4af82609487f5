/* Finding and running the C compiler.
 *
 * No shell, no file but the result: source and messages travel in anonymous memory files, which, unlike pipes, can neither fill up
 * nor block. */
#include "backend/cpu/compiler.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { COMPILE_LIMIT_MS = 60000 };

/* -O3 for the vectoriser's full cost model; contraction off and no -ffast-math: results are those of the scalar evaluator.  Loops are vectorised,
 * blocks are not: where gcc 12 vectorises a block that sums up (or takes the least or the most of) what is 0 or 1, it takes masks, so -1, for 1. */
static const char *const flags[] = {
#if defined(__x86_64__)
    "-mprefer-vector-width=512", /* kernels are long loops: worth the widest vectors there are */
#endif
    "-x", "c", "-std=gnu17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-semantic-interposition",
    "-fno-tree-slp-vectorize", "-fno-stack-protector", "-fPIC", "-shared", "-nostartfiles", "-pipe", "-w", NULL};

/* ---- running a program ---- */

typedef enum outcome { RAN, NO_START, TOO_LONG } outcome;

static int memory_file(const char *text, size_t n) {
  int fd = memfd_create("tenet", MFD_CLOEXEC);
  for (size_t done = 0; fd >= 0 && done < n;) {
    ssize_t k = write(fd, text + done, n - done);
    if (k > 0) done += (size_t)k;
    else if (errno != EINTR) {
      close(fd);
      return -1;
    }
  }
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  return fd;
}

static pid_t start_program(const char *const *argv, int in, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attr;
  pid_t pid = -1;
  if (posix_spawn_file_actions_init(&actions)) return -1;
  if (!posix_spawnattr_init(&attr)) {
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP); /* a group of its own, so that its children can be killed with it */
    bool ok = !posix_spawn_file_actions_adddup2(&actions, in, 0) && !posix_spawn_file_actions_adddup2(&actions, out, 1) &&
              !posix_spawn_file_actions_adddup2(&actions, out, 2);
    if (!ok || posix_spawn(&pid, argv[0], &actions, &attr, (char *const *)argv, environ)) pid = -1;
    posix_spawnattr_destroy(&attr);
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

static outcome wait_program(pid_t pid, int limit_ms, int *status) {
  struct timespec start, now, nap = {.tv_nsec = 300000};
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (;;) {
    pid_t got = waitpid(pid, status, WNOHANG);
    if (got == pid) return RAN;
    if (got < 0 && errno != EINTR) { /* the host reaps all children: the result file tells */
      *status = 0;
      return RAN;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 > limit_ms) break;
    nanosleep(&nap, NULL);
  }
  kill(-pid, SIGKILL);
  waitpid(pid, status, 0);
  return TOO_LONG;
}

/* Runs argv with `input` on its standard input; what it prints, cut to size, goes to `said`. */
static outcome run_program(const char *const *argv, const char *input, int limit_ms, int *status, char *said, size_t size) {
  outcome result = NO_START;
  int in = memory_file(input, strlen(input)), out = memory_file("", 0);
  said[0] = '\0';
  if (in >= 0 && out >= 0) {
    pid_t pid = start_program(argv, in, out);
    if (pid > 0) result = wait_program(pid, limit_ms, status);
    ssize_t n = pread(out, said, size - 1, 0);
    said[n > 0 ? n : 0] = '\0';
  }
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  return result;
}

/* ---- finding the compiler ---- */

/* Looks `name` up as a shell would. */
static bool find_program(const char *name, char *path, size_t size) {
  struct stat st;
  const char *dirs = getenv("PATH");
  if (strchr(name, '/')) dirs = "";
  else if (!dirs) dirs = "/usr/local/bin:/usr/bin:/bin";
  for (const char *d = dirs;; d++) {
    size_t n = strcspn(d, ":");
    int len = n ? snprintf(path, size, "%.*s/%s", (int)n, d, name) : snprintf(path, size, "%s", name);
    bool fits = len > 0 && (size_t)len < size && strchr(path, '/');
    if (fits && !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK)) return true;
    d += n;
    if (!*d) return false;
  }
}

bool tn__cc_find(tn_ctx *c, tn__cc *cc) {
  const char *const usual[] = {"cc", "gcc", "clang", NULL}, *const asked[] = {c->opt.cc, NULL};
  const char *const *name = c->opt.cc ? asked : usual;
  cc->limit_ms = COMPILE_LIMIT_MS;
  for (; *name && **name; name++)
    if (find_program(*name, cc->path, sizeof cc->path)) return true;
  cc->path[0] = '\0';
  return false;
}

/* Another version of the compiler is another file: asking it would cost a process in every program that uses Tenet. */
const char *tn__cc_identity(tn_ctx *c, const tn__cc *cc, const char *machine) {
  char real[PATH_MAX];
  struct stat st = {0};
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  const char *path = realpath(cc->path, real) ? real : cc->path;
  if (stat(path, &st)) st.st_size = -1;
  tn__sb_printf(&b, "%s %lld %lld.%09ld\n%s\n", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, machine);
  for (int i = 0; flags[i]; i++) tn__sb_printf(&b, "%s ", flags[i]);
  return tn__sb_str(&b);
}

void tn__cc_compile(tn_ctx *c, const tn__cc *cc, const char *source, const char *out) {
  enum { NFLAGS = sizeof flags / sizeof *flags - 1 };
  const char *argv[NFLAGS + 8];
  char said[800];
  int n = 0, status = 0;
  argv[n++] = cc->path;
  for (int i = 0; i < NFLAGS; i++) argv[n++] = flags[i];
  argv[n++] = "-o";
  argv[n++] = out;
  argv[n++] = "-";
  argv[n++] = "-lm";
  argv[n] = NULL;
  outcome result = run_program(argv, source, cc->limit_ms, &status, said, sizeof said);
  if (result == RAN && !status && !access(out, R_OK)) return;
  unlink(out);
  if (result == NO_START) tn__fail(c, TN_ECOMPILE, "the C compiler %s does not start", cc->path);
  if (result == TOO_LONG) tn__fail(c, TN_ECOMPILE, "the C compiler %s ran for more than %g s", cc->path, cc->limit_ms / 1000.0);
  for (char *s = said; *s; s++)
    if (*s == '\n') *s = s[1] ? '|' : '\0'; /* an error is one line */
  tn__fail(c, TN_ECOMPILE, "the C compiler %s failed: %s", cc->path, *said ? said : "it gave no reason");
}
