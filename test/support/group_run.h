/* Text of kernels for work groups, compiled and run without a GPU: OpenCL by any installable driver (PoCL), Metal as
 * C++ with threads for threads and a small stand-in for its library. */
#ifndef TN_TEST_SUPPORT_GROUP_RUN_H
#define TN_TEST_SUPPORT_GROUP_RUN_H
#include "render/render.h"
#include "support/linear.h"

typedef struct group_code group_code;

typedef struct group_runner {
  const char *name;
  const tn__dialect *dialect;
  /* NULL and why: there is no such thing here (the test is skipped), or the text does not compile (then *failed). */
  group_code *(*compile)(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed);
  /* Runs part `part` of kernel i in `groups` groups. */
  void (*launch)(group_code *code, uint32_t i, uint32_t part, uint32_t groups, lin_bufs *b, const int64_t *var);
  void (*release)(group_code *code);
} group_runner;

/* Does a C++ compiler take the Metal text?  What it says against it goes to log. */
bool group_metal_takes(const char *source, char *log, size_t size);

/* clang as a compiler of OpenCL C 1.2 that takes no extensions but f64 and f16; without the latter clang 14 would lack
 * vload_half, which every OpenCL has. */
#define GROUP_CLANG                                                                                                    \
  "clang -x cl -cl-std=CL1.2 -target spir64 -Xclang -finclude-default-header -fsyntax-only -pedantic-errors"           \
  " -Xclang -cl-ext=-all,+cl_khr_fp64,+cl_khr_fp16"
bool group_has_clang(void);
/* Does it take the OpenCL text, with these options besides?  What it says against it goes to log. */
bool group_opencl_takes(const char *options, const char *source, char *log, size_t size);

extern const group_runner group_opencl, group_metal;
extern const group_runner group_nvrtc, group_clang; /* compile only: launch is NULL */
#endif
