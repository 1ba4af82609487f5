/* Stand-ins for NVIDIA's libraries, so that the host's side of the CUDA device is tested where there is no GPU.
 *
 * The driver's memory is the host's.  What is asked of a stream is done only when somebody waits, as late as the real
 * one may, so that memory that is used again too early is noticed.  It knows two kernels by name:
 *   iota(i64 *b0, i64 n)   b0[i] += i
 *   fault(i64 *b0, i64 n)  the illegal address error, for good
 * NVRTC's cubin is the source itself; a source with the word "mistake" does not compile.  cuBLASLt multiplies f32 and
 * f64. */
#ifndef TN_TEST_FAKE_FAKE_H
#define TN_TEST_FAKE_FAKE_H
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fake_state {
  int contexts, resets, streams, events, modules, graphs, execs; /* that exist; resets: how often */
  int launches;           /* done */
  int peers;              /* copies between devices */
  unsigned grid, threads, shared; /* of the last one */
  size_t memory, limit;   /* device memory held, and how much there is */
  size_t pinned;
  int priority;           /* the last one goes before others: below 0 */
  int ordered;            /* the last graph heeds that */
  int most_shared;        /* set by cuFuncSetAttribute */
  int preferred_shared;   /* so, of what units have */
  int no_pools;           /* 1: an old driver */
  int bad_module;         /* 1: the next one does not load */
  int any_function;       /* 1: modules are taken to have every function (they are real cubins) */
  unsigned frames;        /* bytes that functions of these keep in memory of a thread's own, as registers they lack */
} fake_state;

/* Makes the fake driver the one that Tenet loads, with the fake toolkit or the system's; NULL if it is missing.  Before
 * anything of CUDA is used. */
static inline fake_state *fake_open(bool toolkit) {
  const char *build = getenv("TENET_BUILD");
  char path[600];
  fake_state *(*get)(void);
  if (!build) build = "build";
  snprintf(path, sizeof path, "%s/fake/toolkit", build);
  if (toolkit) setenv("CUDA_HOME", path, 1);
  snprintf(path, sizeof path, "%s/fake/driver", build);
  setenv("TENET_CUDA_PATH", path, 1);
  strcat(path, "/libcuda.so.1");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *p = library ? dlsym(library, "fake_cuda") : NULL;
  memcpy(&get, &p, sizeof p);
  return p ? get() : NULL;
}
#endif
