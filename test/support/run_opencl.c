/* OpenCL text on the first device of the first platform, through the loader by dlopen. */
#include "support/group_run.h"
#include <dlfcn.h>

enum { CL_DEVICE_TYPE_ALL = -1, CL_COPY = 1 << 5, CL_READ_WRITE = 1, CL_BUILD_LOG = 0x1183 };

#define FUNCTIONS(X)                                                                                                   \
  X(GetPlatformIDs, (uint32_t, void **, uint32_t *))                                                                   \
  X(GetDeviceIDs, (void *, uint64_t, uint32_t, void **, uint32_t *))                                                   \
  X(BuildProgram, (void *, uint32_t, void *const *, const char *, void *, void *))                                     \
  X(GetProgramBuildInfo, (void *, void *, uint32_t, size_t, void *, size_t *))                                         \
  X(SetKernelArg, (void *, uint32_t, size_t, const void *))                                                            \
  X(EnqueueNDRangeKernel, (void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,         \
      void *, void *))                                                                                                 \
  X(EnqueueReadBuffer, (void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *, void *))                   \
  X(Finish, (void *))                                                                                                  \
  X(ReleaseKernel, (void *))                                                                                           \
  X(ReleaseProgram, (void *))                                                                                          \
  X(ReleaseMemObject, (void *))
#define MAKERS(X)                                                                                                      \
  X(CreateContext, (void *, uint32_t, void *const *, void *, void *, int32_t *))                                       \
  X(CreateCommandQueue, (void *, void *, uint64_t, int32_t *))                                                         \
  X(CreateProgramWithSource, (void *, uint32_t, const char **, const size_t *, int32_t *))                             \
  X(CreateKernel, (void *, const char *, int32_t *))                                                                   \
  X(CreateBuffer, (void *, uint64_t, size_t, void *, int32_t *))

static struct {
  bool tried;
  void *device, *context, *queue;
#define MEMBER(name, parameters) int32_t(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
#define MEMBER(name, parameters) void *(*name)parameters;
  MAKERS(MEMBER)
#undef MEMBER
} cl;

struct group_code {
  void *program;
  tn__kernel *const *kernels;
};

static void find(void *lib, const char *name, void *into) {
  void *s = dlsym(lib, name);
  memcpy(into, &s, sizeof s);
}

static bool open_device(void) {
  void *platform = NULL;
  int32_t status;
  if (cl.tried) return cl.queue;
  cl.tried = true;
  void *lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!lib) return false;
#define FIND(name, parameters) find(lib, "cl" #name, &cl.name);
  FUNCTIONS(FIND)
  MAKERS(FIND)
#undef FIND
  if (cl.GetPlatformIDs(1, &platform, NULL) || !platform || cl.GetDeviceIDs(platform, 0xffffffff, 1, &cl.device, NULL))
    return false;
  cl.context = cl.CreateContext(NULL, 1, &cl.device, NULL, NULL, &status);
  cl.queue = cl.context ? cl.CreateCommandQueue(cl.context, cl.device, 0, &status) : NULL;
  return cl.queue;
}

static group_code *compile(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed) {
  static char text[8192];
  int32_t status;
  (void)n;
  *why = "there is no OpenCL device";
  *failed = false;
  if (!open_device()) return NULL;
  void *program = cl.CreateProgramWithSource(cl.context, 1, &source, NULL, &status);
  if (cl.BuildProgram(program, 1, &cl.device, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt", NULL, NULL)) {
    cl.GetProgramBuildInfo(program, cl.device, CL_BUILD_LOG, sizeof text - 1, text, NULL);
    *why = text;
    *failed = true;
    return NULL;
  }
  group_code *code = calloc(1, sizeof *code);
  *code = (group_code){program, kernels};
  return code;
}

static void must(int32_t status, const char *what) {
  if (!status) return;
  fprintf(stderr, "%s: OpenCL error %d\n", what, status);
  abort();
}

static void launch(group_code *code, uint32_t i, uint32_t part, uint32_t groups, lin_bufs *b, const int64_t *var) {
  const tn__kernel *k = code->kernels[i];
  char name[80];
  int32_t status;
  void *mem[LIN_BUFS];
  size_t room[LIN_BUFS];
  uint64_t offset = LIN_GUARD;
  snprintf(name, sizeof name, "%s_%u", k->name, part);
  void *f = cl.CreateKernel(code->program, name, &status);
  must(status, name);
  for (uint32_t s = 0; s < k->nbuf; s++) { /* guards and all */
    room[s] = b->bytes[s] + 2 * LIN_GUARD;
    mem[s] = cl.CreateBuffer(cl.context, CL_COPY | CL_READ_WRITE, room[s], b->block[s], &status);
    must(status, name);
    must(cl.SetKernelArg(f, 2 * s, sizeof(void *), &mem[s]), name);
    must(cl.SetKernelArg(f, 2 * s + 1, sizeof offset, &offset), name);
  }
  for (uint32_t v = 0; v < k->nvar; v++) must(cl.SetKernelArg(f, 2 * k->nbuf + v, sizeof(int64_t), &var[v]), name);
  size_t local = (size_t)tn__threads_of_block(&k->part[part]), global = groups * local;
  must(cl.EnqueueNDRangeKernel(cl.queue, f, 1, NULL, &global, &local, 0, NULL, NULL), name);
  for (uint32_t s = 0; s < k->nbuf; s++)
    must(cl.EnqueueReadBuffer(cl.queue, mem[s], 1, 0, room[s], b->block[s], 0, NULL, NULL), name);
  must(cl.Finish(cl.queue), name);
  for (uint32_t s = 0; s < k->nbuf; s++) cl.ReleaseMemObject(mem[s]);
  cl.ReleaseKernel(f);
}

static void release(group_code *code) {
  cl.ReleaseProgram(code->program);
  free(code);
}

const group_runner group_opencl = {"opencl", &tn__dialect_opencl, compile, launch, release};
