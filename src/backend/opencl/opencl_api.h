/* What Tenet needs of OpenCL 1.2, declared here because none of its headers is needed to build.  Prefix tn__cl_.
 *
 * One list of functions: result, the member that holds the function, its exported name, its parameters.  From it come
 * the struct of function pointers and the table by which they are found.  One load serves the process; nothing changes
 * afterwards. */
#ifndef TN_BACKEND_OPENCL_OPENCL_API_H
#define TN_BACKEND_OPENCL_OPENCL_API_H
#include "base/mem.h"

typedef struct tn__cl_platform *tn__cl_platform;
typedef struct tn__cl_device *tn__cl_device;
typedef struct tn__cl_context *tn__cl_context;
typedef struct tn__cl_queue *tn__cl_queue;
typedef struct tn__cl_mem *tn__cl_mem;
typedef struct tn__cl_program *tn__cl_program;
typedef struct tn__cl_kernel *tn__cl_kernel;
typedef struct tn__cl_event *tn__cl_event;
typedef void (*tn__cl_notify)(void); /* always NULL here */

enum {
  /* results; all others by name only */
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_INVALID_CONTEXT = -34,
  CL_INVALID_COMMAND_QUEUE = -36,
  CL_INVALID_BUFFER_SIZE = -61,
  /* questions about a platform, */
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  /* a device, */
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_SINGLE_FP_CONFIG = 0x101b,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101f,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_AVAILABLE = 0x1027,
  CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
  CL_DEVICE_NAME = 0x102b,
  CL_DRIVER_VERSION = 0x102d,
  CL_DEVICE_VERSION = 0x102f,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x1067, /* from OpenCL 3.0 on; before, vendors' own: */
  CL_DEVICE_WARP_SIZE_NV = 0x4003,
  CL_DEVICE_WAVEFRONT_WIDTH_AMD = 0x4043,
  /* a program */
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  /* bits of answers */
  CL_TYPE_CPU = 1 << 1,
  CL_TYPE_GPU = 1 << 2,
  CL_FP_DENORM = 1 << 0,
  CL_FP_CORRECTLY_ROUNDED = 1 << 7,
  CL_CONTEXT_PLATFORM = 0x1084, /* a context */
  CL_READ_WRITE = 1,            /* a buffer */
};
static const uint64_t tn__cl_all_types = 0xffffffff;

#define TN__CL_FUNCTIONS(X)                                                                                            \
  X(int32_t, platforms, "clGetPlatformIDs", (uint32_t, tn__cl_platform *, uint32_t *))                                 \
  X(int32_t, platform_info, "clGetPlatformInfo", (tn__cl_platform, uint32_t, size_t, void *, size_t *))                \
  X(int32_t, devices, "clGetDeviceIDs", (tn__cl_platform, uint64_t types, uint32_t, tn__cl_device *, uint32_t *))      \
  X(int32_t, device_info, "clGetDeviceInfo", (tn__cl_device, uint32_t, size_t, void *, size_t *))                      \
  X(tn__cl_context, context_create, "clCreateContext",                                                                 \
    (const intptr_t *, uint32_t, const tn__cl_device *, tn__cl_notify, void *, int32_t *))                             \
  X(int32_t, context_release, "clReleaseContext", (tn__cl_context))                                                    \
  X(tn__cl_queue, queue_create, "clCreateCommandQueue", (tn__cl_context, tn__cl_device, uint64_t, int32_t *))          \
  X(int32_t, queue_release, "clReleaseCommandQueue", (tn__cl_queue))                                                   \
  X(int32_t, flush, "clFlush", (tn__cl_queue))                                                                         \
  X(int32_t, finish, "clFinish", (tn__cl_queue))                                                                       \
  X(int32_t, events_wait, "clWaitForEvents", (uint32_t, const tn__cl_event *))                                         \
  X(int32_t, event_release, "clReleaseEvent", (tn__cl_event))                                                          \
  X(tn__cl_mem, buffer_create, "clCreateBuffer", (tn__cl_context, uint64_t, size_t, void *, int32_t *))                \
  X(int32_t, buffer_release, "clReleaseMemObject", (tn__cl_mem))                                                       \
  X(int32_t, read, "clEnqueueReadBuffer",                                                                              \
    (tn__cl_queue, tn__cl_mem, uint32_t wait, size_t at, size_t, void *, uint32_t, const tn__cl_event *,               \
     tn__cl_event *))                                                                                                  \
  X(int32_t, write, "clEnqueueWriteBuffer",                                                                            \
    (tn__cl_queue, tn__cl_mem, uint32_t wait, size_t at, size_t, const void *, uint32_t, const tn__cl_event *,         \
     tn__cl_event *))                                                                                                  \
  X(tn__cl_program, program_of_text, "clCreateProgramWithSource",                                                      \
    (tn__cl_context, uint32_t, const char **, const size_t *, int32_t *))                                              \
  X(tn__cl_program, program_of_binary, "clCreateProgramWithBinary",                                                    \
    (tn__cl_context, uint32_t, const tn__cl_device *, const size_t *, const unsigned char **, int32_t *, int32_t *))   \
  X(int32_t, build, "clBuildProgram",                                                                                  \
    (tn__cl_program, uint32_t, const tn__cl_device *, const char *, tn__cl_notify, void *))                            \
  X(int32_t, program_info, "clGetProgramInfo", (tn__cl_program, uint32_t, size_t, void *, size_t *))                   \
  X(int32_t, build_info, "clGetProgramBuildInfo", (tn__cl_program, tn__cl_device, uint32_t, size_t, void *, size_t *)) \
  X(int32_t, program_release, "clReleaseProgram", (tn__cl_program))                                                    \
  X(tn__cl_kernel, kernel_create, "clCreateKernel", (tn__cl_program, const char *, int32_t *))                         \
  X(int32_t, kernel_release, "clReleaseKernel", (tn__cl_kernel))                                                       \
  X(int32_t, argument, "clSetKernelArg", (tn__cl_kernel, uint32_t, size_t, const void *))                              \
  X(int32_t, launch, "clEnqueueNDRangeKernel",                                                                         \
    (tn__cl_queue, tn__cl_kernel, uint32_t, const size_t *offset, const size_t *global, const size_t *local, uint32_t, \
     const tn__cl_event *, tn__cl_event *))

#define TN__CL_MEMBER(result, member, symbol, parameters) result(*member) parameters;
typedef struct tn__cl {
  TN__CL_FUNCTIONS(TN__CL_MEMBER)
} tn__cl;

/* The loader's functions; NULL if it, or one of them, is missing: *why then says so (it may be NULL). */
const tn__cl *tn__cl_load(const char **why);
const char *tn__cl_error(int32_t result); /* "CL_OUT_OF_RESOURCES" */
#endif
