/* What Tenet needs of NVIDIA's libraries, declared here because none of their headers is needed to build.  Prefix
 * tn__cuda_.
 *
 * Each library is one list of its functions: the member that holds the function, its exported name (the driver numbers
 * incompatible versions of a function by suffix: the header that everybody else includes hides that), its parameters.
 * From the list come the struct of function pointers and the table by which they are found.  One load serves the
 * process; nothing changes afterwards.
 *
 * Handles are opaque pointers, enums ints, addresses on the device 64-bit integers. */
#ifndef TN_BACKEND_CUDA_CUDA_API_H
#define TN_BACKEND_CUDA_CUDA_API_H
#include "base/mem.h"

typedef struct tn__cu_context *tn__cu_context;
typedef struct tn__cu_stream *tn__cu_stream;
typedef struct tn__cu_event *tn__cu_event;
typedef struct tn__cu_module *tn__cu_module;
typedef struct tn__cu_function *tn__cu_function;
typedef struct tn__cu_pool *tn__cu_pool;
typedef struct tn__cu_graph *tn__cu_graph;
typedef struct tn__cu_node *tn__cu_node;
typedef struct tn__cu_exec *tn__cu_exec;
typedef uint64_t tn__cu_address;
typedef struct tn__nvrtc_program *tn__nvrtc_program;
typedef void *tn__lt_handle; /* of any kind */
typedef void *tn__dnn_handle;

/* ---- the driver: libcuda ---- */

enum {
  CU_OUT_OF_MEMORY = 2,
  /* of a device */
  CU_MAX_THREADS_PER_BLOCK = 1,
  CU_MULTIPROCESSORS = 16,
  CU_CAPABILITY_MAJOR = 75,
  CU_CAPABILITY_MINOR = 76,
  CU_SHARED_OPTIN = 97,
  CU_DYNAMIC_SHARED = 8,    /* of a function; */
  CU_PREFERRED_SHARED = 9,  /* its part of the most there is that units are to have, in a hundred */
  CU_RELEASE_THRESHOLD = 4, /* of a memory pool */
  CU_NON_BLOCKING = 1,      /* a stream that does not wait for the default one */
  CU_NO_TIMING = 2,         /* an event */
  CU_CAPTURE_THREAD_LOCAL = 1,
  CU_SET_DEPENDENCIES = 1,
  /* an attribute of a launch: it may begin before the kernel in front of it is done, for which its text then waits */
  CU_LAUNCH_SERIALIZED = 6,
  CU_LAUNCH_PRIORITY = 8,   /* another: less goes first, */
  CU_NODE_PRIORITIES = 8,   /* as of a graph that was made so */
};

typedef struct tn__cu_attribute {
  int what;
  union {
    int number;
    char room[64];
  } value __attribute__((aligned(8)));
} tn__cu_attribute;

typedef struct tn__cu_launch {
  unsigned grid[3], block[3], shared;
  tn__cu_stream stream;
  const tn__cu_attribute *attribute;
  unsigned nattribute;
} tn__cu_launch;

#define TN__CUDA_DRIVER(X)                                                                                             \
  X(init, "cuInit", (unsigned))                                                                                        \
  X(version, "cuDriverGetVersion", (int *))                                                                            \
  X(error_name, "cuGetErrorName", (int, const char **))                                                                \
  X(error_text, "cuGetErrorString", (int, const char **))                                                              \
  X(device_count, "cuDeviceGetCount", (int *))                                                                         \
  X(device_get, "cuDeviceGet", (int *, int))                                                                           \
  X(device_name, "cuDeviceGetName", (char *, int, int))                                                                \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t *, int))                                                             \
  X(device_attribute, "cuDeviceGetAttribute", (int *, int, int))                                                       \
  X(context_retain, "cuDevicePrimaryCtxRetain", (tn__cu_context *, int))                                               \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (int))                                                            \
  X(context_reset, "cuDevicePrimaryCtxReset_v2", (int))                                                                \
  X(context_use, "cuCtxSetCurrent", (tn__cu_context))                                                                  \
  X(memory_info, "cuMemGetInfo_v2", (size_t *, size_t *))                                                              \
  X(pool_of, "cuDeviceGetDefaultMemPool", (tn__cu_pool *, int))                                                        \
  X(pool_set, "cuMemPoolSetAttribute", (tn__cu_pool, int, void *))                                                     \
  X(pool_trim, "cuMemPoolTrimTo", (tn__cu_pool, size_t))                                                               \
  X(alloc_async, "cuMemAllocAsync", (tn__cu_address *, size_t, tn__cu_stream))                                         \
  X(free_async, "cuMemFreeAsync", (tn__cu_address, tn__cu_stream))                                                     \
  X(alloc, "cuMemAlloc_v2", (tn__cu_address *, size_t))                                                                \
  X(free, "cuMemFree_v2", (tn__cu_address))                                                                            \
  X(host_alloc, "cuMemHostAlloc", (void **, size_t, unsigned))                                                         \
  X(host_free, "cuMemFreeHost", (void *))                                                                              \
  X(to_device, "cuMemcpyHtoDAsync_v2", (tn__cu_address, const void *, size_t, tn__cu_stream))                          \
  X(to_host, "cuMemcpyDtoHAsync_v2", (void *, tn__cu_address, size_t, tn__cu_stream))                                  \
  X(to_peer, "cuMemcpyPeerAsync", (tn__cu_address, tn__cu_context, tn__cu_address, tn__cu_context, size_t,             \
      tn__cu_stream))                                                                                                  \
  X(fill_rows, "cuMemsetD2D8Async", (tn__cu_address, size_t pitch, unsigned char, size_t width, size_t rows,           \
      tn__cu_stream))                                                                                                  \
  X(priorities, "cuCtxGetStreamPriorityRange", (int *least, int *greatest))                                            \
  X(stream_create, "cuStreamCreate", (tn__cu_stream *, unsigned))                                                      \
  X(stream_destroy, "cuStreamDestroy_v2", (tn__cu_stream))                                                             \
  X(stream_wait, "cuStreamSynchronize", (tn__cu_stream))                                                               \
  X(stream_after, "cuStreamWaitEvent", (tn__cu_stream, tn__cu_event, unsigned))                                        \
  X(event_create, "cuEventCreate", (tn__cu_event *, unsigned))                                                         \
  X(event_destroy, "cuEventDestroy_v2", (tn__cu_event))                                                                \
  X(event_record, "cuEventRecord", (tn__cu_event, tn__cu_stream))                                                      \
  X(event_wait, "cuEventSynchronize", (tn__cu_event))                                                                  \
  X(module_load, "cuModuleLoadData", (tn__cu_module *, const void *))                                                  \
  X(module_unload, "cuModuleUnload", (tn__cu_module))                                                                  \
  X(module_function, "cuModuleGetFunction", (tn__cu_function *, tn__cu_module, const char *))                          \
  X(function_set, "cuFuncSetAttribute", (tn__cu_function, int, int))                                                   \
  X(launch, "cuLaunchKernelEx", (const tn__cu_launch *, tn__cu_function, void **argument, void **extra))               \
  X(capture_begin, "cuStreamBeginCapture_v2", (tn__cu_stream, int))                                                    \
  X(capture_info, "cuStreamGetCaptureInfo_v2",                                                                         \
    (tn__cu_stream, int *, uint64_t *, tn__cu_graph *, tn__cu_node const **, size_t *))                                \
  X(capture_depend, "cuStreamUpdateCaptureDependencies", (tn__cu_stream, tn__cu_node *, size_t, unsigned))             \
  X(capture_end, "cuStreamEndCapture", (tn__cu_stream, tn__cu_graph *))                                                \
  X(graph_destroy, "cuGraphDestroy", (tn__cu_graph))                                                                   \
  X(exec_create, "cuGraphInstantiateWithFlags", (tn__cu_exec *, tn__cu_graph, unsigned long long))                     \
  X(exec_upload, "cuGraphUpload", (tn__cu_exec, tn__cu_stream))                                                        \
  X(exec_launch, "cuGraphLaunch", (tn__cu_exec, tn__cu_stream))                                                        \
  X(exec_destroy, "cuGraphExecDestroy", (tn__cu_exec))

/* ---- the compiler: libnvrtc ---- */

#define TN__CUDA_NVRTC(X)                                                                                              \
  X(create, "nvrtcCreateProgram", (tn__nvrtc_program *, const char *source, const char *name, int,                     \
      const char *const *, const char *const *))                                                                       \
  X(destroy, "nvrtcDestroyProgram", (tn__nvrtc_program *))                                                             \
  X(compile, "nvrtcCompileProgram", (tn__nvrtc_program, int, const char *const *option))                               \
  X(cubin_size, "nvrtcGetCUBINSize", (tn__nvrtc_program, size_t *))                                                    \
  X(cubin, "nvrtcGetCUBIN", (tn__nvrtc_program, char *))                                                               \
  X(log_size, "nvrtcGetProgramLogSize", (tn__nvrtc_program, size_t *))                                                 \
  X(log, "nvrtcGetProgramLog", (tn__nvrtc_program, char *))

/* ---- matrix products: libcublasLt ---- */

enum {
  LT_R_32F = 0,
  LT_R_64F = 1,
  LT_R_16F = 2,
  LT_R_16BF = 14,
  LT_COMPUTE_32F = 68,
  LT_COMPUTE_32F_FAST_TF32 = 77,
  LT_COMPUTE_64F = 70,
  LT_DESC_TRANS_A = 3,
  LT_DESC_TRANS_B = 4,
  LT_DESC_EPILOGUE = 7,
  LT_DESC_ROW = 8,
  LT_EPILOGUE_NOTHING = 1,
  LT_EPILOGUE_RELU = 2,
  LT_EPILOGUE_ROW = 4,
  LT_EPILOGUE_GELU = 32,
  LT_LAYOUT_BATCH = 5,
  LT_LAYOUT_STRIDE = 6,
  LT_PREF_WORKSPACE = 1,
  LT_PREF_REDUCTIONS = 3,
  LT_PREF_ALIGN_A = 5,
  LT_PREF_ALIGN_B = 6,
  LT_PREF_ALIGN_C = 7,
  LT_PREF_ALIGN_D = 8,
  LT_REDUCE_IN_COMPUTE_TYPE = 2,
};

typedef struct tn__lt_algo {
  uint64_t data[8];
} tn__lt_algo;

typedef struct tn__lt_choice {
  tn__lt_algo algo;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
} tn__lt_choice;

#define TN__CUDA_LT(X)                                                                                                 \
  X(create, "cublasLtCreate", (tn__lt_handle *))                                                                       \
  X(destroy, "cublasLtDestroy", (tn__lt_handle))                                                                       \
  X(desc_create, "cublasLtMatmulDescCreate", (tn__lt_handle *, int compute, int scale))                                \
  X(desc_destroy, "cublasLtMatmulDescDestroy", (tn__lt_handle))                                                        \
  X(desc_set, "cublasLtMatmulDescSetAttribute", (tn__lt_handle, int, const void *, size_t))                            \
  X(layout_create, "cublasLtMatrixLayoutCreate", (tn__lt_handle *, int type, uint64_t rows, uint64_t cols,             \
      int64_t ld))                                                                                                     \
  X(layout_destroy, "cublasLtMatrixLayoutDestroy", (tn__lt_handle))                                                    \
  X(layout_set, "cublasLtMatrixLayoutSetAttribute", (tn__lt_handle, int, const void *, size_t))                        \
  X(pref_create, "cublasLtMatmulPreferenceCreate", (tn__lt_handle *))                                                  \
  X(pref_destroy, "cublasLtMatmulPreferenceDestroy", (tn__lt_handle))                                                  \
  X(pref_set, "cublasLtMatmulPreferenceSetAttribute", (tn__lt_handle, int, const void *, size_t))                      \
  X(choose, "cublasLtMatmulAlgoGetHeuristic", (tn__lt_handle, tn__lt_handle desc, tn__lt_handle a, tn__lt_handle b,    \
      tn__lt_handle c,                                                                                                 \
                                               tn__lt_handle d, tn__lt_handle pref, int, tn__lt_choice *, int *))      \
  X(multiply, "cublasLtMatmul", (tn__lt_handle, tn__lt_handle desc, const void *alpha, const void *a, tn__lt_handle,   \
      const void *b, tn__lt_handle,                                                                                    \
                                 const void *beta, const void *c, tn__lt_handle, void *d, tn__lt_handle,               \
                                     const tn__lt_algo *,                                                              \
                                 void *workspace, size_t, tn__cu_stream))

/* ---- convolutions: libcudnn 9 ---- */

enum {
  DNN_FLOAT = 0, DNN_HALF = 2, DNN_BFLOAT16 = 9,
  DNN_NCHW = 0, DNN_NHWC = 1,
  DNN_DEFAULT_MATH = 0, DNN_TENSOR_OP_MATH = 1, DNN_TENSOR_OP_MATH_CONVERT = 2, DNN_FMA_MATH = 3,
  DNN_CROSS_CORRELATION = 1,
};

typedef struct tn__dnn_choice {
  int algo, status;
  float time;
  size_t memory;
  int deterministic, math;
  int reserved[3];
} tn__dnn_choice;

/* The three kinds have functions of one form: the operands that are read, then the one that is written. */
#define TN__DNN_CHOOSE                                                                                                 \
  (tn__dnn_handle, tn__dnn_handle a, tn__dnn_handle b, tn__dnn_handle conv, tn__dnn_handle out, int, int *,            \
   tn__dnn_choice *)
#define TN__DNN_RUN                                                                                                    \
  (tn__dnn_handle, const void *alpha, tn__dnn_handle, const void *a, tn__dnn_handle, const void *b,                    \
      tn__dnn_handle conv, int algo,                                                                                   \
   void *space, size_t, const void *beta, tn__dnn_handle, void *out)

#define TN__CUDA_DNN(X)                                                                                                \
  X(create, "cudnnCreate", (tn__dnn_handle *))                                                                         \
  X(destroy, "cudnnDestroy", (tn__dnn_handle))                                                                         \
  X(set_stream, "cudnnSetStream", (tn__dnn_handle, tn__cu_stream))                                                     \
  X(tensor_create, "cudnnCreateTensorDescriptor", (tn__dnn_handle *))                                                  \
  X(tensor_destroy, "cudnnDestroyTensorDescriptor", (tn__dnn_handle))                                                  \
  X(tensor_set, "cudnnSetTensor4dDescriptor", (tn__dnn_handle, int format, int type, int n, int c, int h, int w))      \
  X(filter_create, "cudnnCreateFilterDescriptor", (tn__dnn_handle *))                                                  \
  X(filter_destroy, "cudnnDestroyFilterDescriptor", (tn__dnn_handle))                                                  \
  X(filter_set, "cudnnSetFilter4dDescriptor", (tn__dnn_handle, int type, int format, int k, int c, int r, int s))      \
  X(conv_create, "cudnnCreateConvolutionDescriptor", (tn__dnn_handle *))                                               \
  X(conv_destroy, "cudnnDestroyConvolutionDescriptor", (tn__dnn_handle))                                               \
  X(conv_set, "cudnnSetConvolution2dDescriptor", (tn__dnn_handle, int pad_h, int pad_w, int stride_h, int stride_w,    \
      int dilation_h,                                                                                                  \
                                                  int dilation_w, int mode, int compute))                              \
  X(conv_set_math, "cudnnSetConvolutionMathType", (tn__dnn_handle, int))                                               \
  X(choose_forward, "cudnnGetConvolutionForwardAlgorithm_v7", TN__DNN_CHOOSE)                                          \
  X(choose_data, "cudnnGetConvolutionBackwardDataAlgorithm_v7", TN__DNN_CHOOSE)                                        \
  X(choose_filter, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", TN__DNN_CHOOSE)                                    \
  X(forward, "cudnnConvolutionForward", TN__DNN_RUN)                                                                   \
  X(data, "cudnnConvolutionBackwardData", TN__DNN_RUN)                                                                 \
  X(filter, "cudnnConvolutionBackwardFilter", TN__DNN_RUN)

/* ---- loading ---- */

#define TN__CUDA_MEMBER(member, symbol, parameters) int(*member) parameters;
typedef struct tn__cuda_driver {
  TN__CUDA_DRIVER(TN__CUDA_MEMBER)
} tn__cuda_driver;
typedef struct tn__cuda_nvrtc {
  TN__CUDA_NVRTC(TN__CUDA_MEMBER)
} tn__cuda_nvrtc;
typedef struct tn__cuda_lt {
  TN__CUDA_LT(TN__CUDA_MEMBER)
} tn__cuda_lt;
typedef struct tn__cuda_dnn {
  TN__CUDA_DNN(TN__CUDA_MEMBER)
  const char *(*error_text)(int);
} tn__cuda_dnn;

/* NULL if the library or a function of it is missing; *why then says so (it may be NULL).  The driver is initialised.
 */
const tn__cuda_driver *tn__cuda_load_driver(const char **why);
const tn__cuda_nvrtc *tn__cuda_load_nvrtc(const char **why);
const tn__cuda_lt *tn__cuda_load_lt(const char **why);
const tn__cuda_dnn *tn__cuda_load_dnn(const char **why);
int tn__cuda_driver_version(void); /* 13000: 13.0; 0 without a driver */
/* Is there an NVRTC?  Looks for its file, and loads it only where that tells nothing. */
bool tn__cuda_has_nvrtc(void);
/* Which NVRTC will be loaded, without loading it: its file, size and date. */
void tn__cuda_nvrtc_identity(char *out, size_t size);
#endif
