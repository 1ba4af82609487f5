#include "base/child.h"
#include <errno.h>
#include <fcntl.h>
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

int64_t tn__child_clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool tn__child_find(const char *name, char *path, size_t size) {
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
    /* a group of its own, so that its children can be killed with it */
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    bool ok = !posix_spawn_file_actions_adddup2(&actions, in, 0) &&
              !posix_spawn_file_actions_adddup2(&actions, out, 1) &&
              !posix_spawn_file_actions_adddup2(&actions, out, 2);
    if (!ok || posix_spawn(&pid, argv[0], &actions, &attr, (char *const *)argv, environ)) pid = -1;
    posix_spawnattr_destroy(&attr);
  }
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

bool tn__child_start(tn__child *k, const char *const *argv, const char *input, int limit_ms) {
  int in = memory_file(input, strlen(input));
  *k = (tn__child){.pid = -1, .out = memory_file("", 0), .limit_ms = limit_ms, .began_ms = tn__child_clock_ms()};
  if (in >= 0 && k->out >= 0) k->pid = start_program(argv, in, k->out);
  if (in >= 0) close(in);
  if (k->pid < 0) tn__child_close(k);
  return k->pid >= 0;
}

static void end_group(tn__child *k) {
  kill(-k->pid, SIGKILL);
  waitpid(k->pid, &k->status, 0);
}

/* Of the processors' time; its own children's counts for nothing. */
static int64_t worked_ms(pid_t pid) {
  clockid_t clock;
  struct timespec t = {0};
  if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return INT64_MAX;
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool has_time(const tn__child *k) {
  int64_t ms = tn__child_clock_ms() - k->began_ms;
  return ms <= k->limit_ms || (ms <= (int64_t)k->limit_ms * k->patience && worked_ms(k->pid) <= k->limit_ms);
}

tn__child_state tn__child_poll(tn__child *k) {
  pid_t got = waitpid(k->pid, &k->status, WNOHANG);
  if (got == k->pid) return TN__CHILD_ENDED;
  if (got < 0 && errno != EINTR) { /* the host reaps all children: what it left behind tells */
    k->status = 0;
    return TN__CHILD_ENDED;
  }
  if (has_time(k)) return TN__CHILD_RUNS;
  end_group(k);
  return TN__CHILD_TOO_LONG;
}

tn__child_state tn__child_wait(tn__child *k) {
  struct timespec nap = {.tv_nsec = 300000};
  for (;;) {
    tn__child_state s = tn__child_poll(k);
    if (s != TN__CHILD_RUNS) return s;
    nanosleep(&nap, NULL);
  }
}

size_t tn__child_said(const tn__child *k, char *said, size_t size) {
  ssize_t n = pread(k->out, said, size - 1, 0);
  if (n < 0) n = 0;
  said[n] = '\0';
  return (size_t)n;
}

void tn__child_close(tn__child *k) {
  if (k->out >= 0) close(k->out);
  k->out = -1;
}

void tn__child_stop(tn__child *k) {
  end_group(k);
  tn__child_close(k);
}
