/* CUDA text through NVRTC: does it compile? */
#include "backend/cuda/target.h"
#include "support/group_run.h"
#include "backend/cuda/cuda_api.h"

static group_code *compile(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed) {
  static const char *const option[] = {"--gpu-architecture=sm_90a", "--std=c++17", "--fmad=false"};
  static char text[8192];
  (void)kernels, (void)n;
  *failed = false;
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(why);
  if (!nvrtc) return NULL;
  tn__nvrtc_program program = NULL;
  size_t size = 0;
  *failed = nvrtc->create(&program, source, "kernels.cu", 0, NULL, NULL) || nvrtc->compile(program, 3, option);
  if (*failed && !nvrtc->log_size(program, &size) && size < sizeof text) nvrtc->log(program, text);
  *why = text;
  nvrtc->destroy(&program);
  return NULL;
}

const group_runner group_nvrtc = {"nvrtc", &tn__dialect_cuda, compile, NULL, NULL};
