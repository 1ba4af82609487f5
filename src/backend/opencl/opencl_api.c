/* Finding the OpenCL loader, and the names of its errors. */
#include "backend/opencl/opencl_api.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define SLOT(result, member, name, parameters) {name, offsetof(tn__cl, member)},
static const struct slot {
  const char *symbol;
  size_t at;
} slots[] = {TN__CL_FUNCTIONS(SLOT)};

static tn__cl api;
static char missing[120]; /* empty if all went well */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
  void *handle = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) snprintf(missing, sizeof missing, "there is no OpenCL loader (libOpenCL.so.1)");
  for (size_t i = 0; i < COUNT(slots) && !*missing; i++) {
    void *p = dlsym(handle, slots[i].symbol);
    if (!p) snprintf(missing, sizeof missing, "libOpenCL.so.1 has no %s", slots[i].symbol);
    /* POSIX makes object and function pointers interchangeable, C does not */
    memcpy((char *)&api + slots[i].at, &p, sizeof p);
  }
}

const tn__cl *tn__cl_load(const char **why) {
  pthread_once(&once, load);
  if (why) *why = missing;
  return *missing ? NULL : &api;
}

const char *tn__cl_error(int32_t result) {
  static const char *const first[] = {"CL_SUCCESS",
                                      "CL_DEVICE_NOT_FOUND",
                                      "CL_DEVICE_NOT_AVAILABLE",
                                      "CL_COMPILER_NOT_AVAILABLE",
                                      "CL_MEM_OBJECT_ALLOCATION_FAILURE",
                                      "CL_OUT_OF_RESOURCES",
                                      "CL_OUT_OF_HOST_MEMORY",
                                      "CL_PROFILING_INFO_NOT_AVAILABLE",
                                      "CL_MEM_COPY_OVERLAP",
                                      "CL_IMAGE_FORMAT_MISMATCH",
                                      "CL_IMAGE_FORMAT_NOT_SUPPORTED",
                                      "CL_BUILD_PROGRAM_FAILURE",
                                      "CL_MAP_FAILURE",
                                      "CL_MISALIGNED_SUB_BUFFER_OFFSET",
                                      "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
                                      "CL_COMPILE_PROGRAM_FAILURE",
                                      "CL_LINKER_NOT_AVAILABLE",
                                      "CL_LINK_PROGRAM_FAILURE",
                                      "CL_DEVICE_PARTITION_FAILED",
                                      "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"};
  static const char *const invalid[] = {/* from -30 down: CL_INVALID_... */
                                        "VALUE",
                                        "DEVICE_TYPE",
                                        "PLATFORM",
                                        "DEVICE",
                                        "CONTEXT",
                                        "QUEUE_PROPERTIES",
                                        "COMMAND_QUEUE",
                                        "HOST_PTR",
                                        "MEM_OBJECT",
                                        "IMAGE_FORMAT_DESCRIPTOR",
                                        "IMAGE_SIZE",
                                        "SAMPLER",
                                        "BINARY",
                                        "BUILD_OPTIONS",
                                        "PROGRAM",
                                        "PROGRAM_EXECUTABLE",
                                        "KERNEL_NAME",
                                        "KERNEL_DEFINITION",
                                        "KERNEL",
                                        "ARG_INDEX",
                                        "ARG_VALUE",
                                        "ARG_SIZE",
                                        "KERNEL_ARGS",
                                        "WORK_DIMENSION",
                                        "WORK_GROUP_SIZE",
                                        "WORK_ITEM_SIZE",
                                        "GLOBAL_OFFSET",
                                        "EVENT_WAIT_LIST",
                                        "EVENT",
                                        "OPERATION",
                                        "GL_OBJECT",
                                        "BUFFER_SIZE",
                                        "MIP_LEVEL",
                                        "GLOBAL_WORK_SIZE",
                                        "PROPERTY",
                                        "IMAGE_DESCRIPTOR",
                                        "COMPILER_OPTIONS",
                                        "LINKER_OPTIONS",
                                        "DEVICE_PARTITION_COUNT"};
  enum { INVALID = 30 };
  static _Thread_local char text[48];
  int64_t n = -(int64_t)result;
  if (n >= 0 && n < (int64_t)COUNT(first)) return first[n];
  if (n >= INVALID && n < INVALID + (int64_t)COUNT(invalid))
    snprintf(text, sizeof text, "CL_INVALID_%s", invalid[n - INVALID]);
  else snprintf(text, sizeof text, "OpenCL error %d", result);
  return text;
}
