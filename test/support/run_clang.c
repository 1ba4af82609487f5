/* OpenCL text through clang: is it OpenCL C 1.2 and no more?  Drivers differ in what they take beyond that: PoCL takes
 * variadic macros, NVIDIA's refuses them. */
#include "support/group_run.h"
#include <stdio.h>
#include <unistd.h>

#define COMMAND                                                                                                        \
  "clang -x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header -fsyntax-only -pedantic-errors"

bool group_opencl_takes(const char *options, const char *source, char *log, size_t size) {
  char path[] = "/tmp/tenet_opencl_XXXXXX", command[512];
  int fd = mkstemp(path);
  snprintf(command, sizeof command, COMMAND " %s - 2>%s", options, path);
  FILE *compiler = fd < 0 ? NULL : popen(command, "w");
  bool good = compiler && fputs(source, compiler) >= 0;
  if (compiler) good &= !pclose(compiler);
  ssize_t said = fd < 0 ? 0 : read(fd, log, size - 1);
  log[said > 0 ? said : 0] = '\0';
  if (fd >= 0) {
    close(fd);
    unlink(path);
  }
  return good;
}

bool group_opencl_checked(void) { return !system("clang --version >/dev/null 2>&1"); }

static group_code *compile(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed) {
  static char log[8192];
  (void)kernels, (void)n;
  *why = "there is no clang";
  *failed = false;
  if (!group_opencl_checked()) return NULL;
  *why = log;
  *failed = !group_opencl_takes("", source, log, sizeof log);
  return NULL;
}

const group_runner group_clang = {"clang", &tn__dialect_opencl, compile, NULL, NULL};
