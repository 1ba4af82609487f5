/* OpenCL text through clang: is it OpenCL C 1.2, without extensions but those of GROUP_CLANG?  Drivers differ in what
 * they take beyond that: PoCL takes variadic macros, NVIDIA refuses them. */
#include "support/group_run.h"
#include <stdio.h>
#include <unistd.h>

static void read_file(const char *path, char *text, size_t size) {
  FILE *f = fopen(path, "r");
  text[f ? fread(text, 1, size - 1, f) : 0] = '\0';
  if (f) fclose(f);
}

bool group_opencl_takes(const char *options, const char *source, char *log, size_t size) {
  char path[] = "/tmp/tenet_opencl_XXXXXX", said[sizeof path + 4], command[512];
  int fd = mkstemp(path);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
  snprintf(log, size, "no file can be written in /tmp");
  if (!file) return false;
  snprintf(said, sizeof said, "%s.log", path);
  snprintf(command, sizeof command, GROUP_CLANG " %s %s 2>%s", options, path, said);
  bool good = fputs(source, file) >= 0;
  good = !fclose(file) && good && !system(command);
  read_file(said, log, size);
  unlink(path);
  unlink(said);
  return good;
}

bool group_has_clang(void) {
  static enum { NOT_ASKED, HAS, LACKS } answer;
  char log[256];
  if (answer == NOT_ASKED) answer = group_opencl_takes("", "", log, sizeof log) ? HAS : LACKS;
  return answer == HAS;
}

static group_code *compile(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed) {
  static char log[8192];
  (void)kernels, (void)n;
  *failed = group_has_clang() && !group_opencl_takes("", source, log, sizeof log);
  *why = *failed ? log : group_has_clang() ? "" : "there is no clang";
  return NULL;
}

const group_runner group_clang = {"clang", &tn__dialect_opencl, compile, NULL, NULL};
