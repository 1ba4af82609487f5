/* The context: everything Tenet knows hangs off a tn_ctx. There are no globals.
 *
 * A context is used by one thread at a time; contexts are independent of each other.  The single exception is
 * tn_release(), which any thread may call (garbage-collected hosts run finalisers where they please). */
#ifndef TENET_CTX_H
#define TENET_CTX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif

/* The version of these headers; tn_version() is that of the library. */
#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0
#define TN_VERSION_NUMBER(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define TN_VERSION TN_VERSION_NUMBER(TN_VERSION_MAJOR, TN_VERSION_MINOR, TN_VERSION_PATCH)

/* 0 is good, every failure is negative.  tn_status_text() says the same in words. */
typedef enum tn_status {
  TN_OK = 0,
  TN_EINVAL = -1,   /* invalid argument */
  TN_ESHAPE = -2,   /* shapes do not fit */
  TN_EDTYPE = -3,   /* dtypes do not fit */
  TN_EDEVICE = -4,  /* devices do not fit, or the device is missing */
  TN_ENOMEM = -5,   /* out of memory */
  TN_ECOMPILE = -6, /* kernel compilation failed */
  TN_EIO = -7,      /* file input or output failed */
  TN_EFORMAT = -8,  /* damaged or unsupported file */
  TN_EBOUND = -9,   /* a symbolic size is out of its bounds or breaks a constraint */
  TN_EGRAD = -10,   /* not differentiable */
  TN_ESTATE = -11,  /* not allowed in this state */
  TN_ENOTSUP = -12, /* not supported */
  TN_ERUN = -13     /* a kernel failed while running */
} tn_status;

/* How far floating point may stray from the written order. */
typedef enum tn_mode {
  TN_MODE_DEFAULT = 0, /* elementwise bit for bit, but for functions of half floats
                        * on CUDA; reductions in any order with fused multiply-add,
                        * sums of exponentials about a row's greatest element by
                        * blocks (docs/environment.md) */
  TN_MODE_STRICT = 1,  /* every op rounds to its dtype, reductions in written order */
  TN_MODE_FAST = 2     /* rules that hold over the reals only */
} tn_mode;

typedef struct tn_ctx tn_ctx;

/* Every field zero means "the default".  The environment is read once, in tn_ctx_open, for fields left at zero.  Later
 * versions add fields at the end: see tn_ctx_open_sized. */
typedef struct tn_options {
  /* "cpu", "ref", "cuda:0", "opencl:0", ..., "best" (an NVIDIA GPU, else the CPU); NULL: $TENET_DEVICE, else "best" */
  const char *device;
  int threads;           /* worker threads of the CPU device; 0: $TENET_THREADS, else every core in the affinity mask */
  tn_mode mode;          /* float mode; TN_MODE_DEFAULT: $TENET_MODE (strict, default, fast) decides */
  /* C compiler for CPU kernels, as a path, or as words of which the first is a program and the rest are arguments for
   * it ("gcc -O1"; quotes '...' and "..." and a backslash keep blanks); NULL: $TENET_CC, else cc, gcc, clang; "": none,
   * kernels are interpreted */
  const char *cc;
  /* kernel cache; NULL: $TENET_CACHE, else $XDG_CACHE_HOME/tenet, else ~/.cache/tenet; "": no cache on disk */
  const char *cache_dir;
  /* 1: matrix products and convolutions by own kernels only, not by BLAS, cuBLASLt, cuDNN; 0: $TENET_LIBRARY=off
   * decides */
  int no_library;
  /* 1: GPUs may round the factors of f32 products and convolutions to tf32 (10 bits of fraction); 0: $TENET_TF32=on
   * decides */
  int tf32;
  /* 1: kernels are timed on the device, in a few variants, and the best is remembered beside the kernel cache; -1: what
   * was remembered is not looked at either; 0: $TENET_TUNE (on, off) decides */
  int tune;
  uint64_t seed;         /* first seed of the random generator (tn_manual_seed changes it) */
  int quiet;             /* 1: no notices on stderr */
  int64_t fail_alloc_at; /* testing: the n-th allocation (from 1) fails, and all after it; 0: never */
  size_t mem_limit;      /* most bytes the context's own heap and device buffers may hold; 0: no limit */
  /* "1" or "on": each schedule that is compiled is compared with its graph, symbolically (docs/validation.md); what
   * cannot be is said on stderr, even if `quiet`.  "strict": that is TN_ECOMPILE.  Another text: compared, and a line
   * for each goes to the end of that file, which must be writable.  NULL: $TENET_VERIFY, else not; "", "0", "off": not
   */
  const char *verify;
  /* "index": indices and labels that are negative or beyond their axis are an error (TN_EINVAL, which names the
   * function, the index and the axis) of what realises or runs next, where else they would read 0, or add nothing; on
   * every device, at the price of two reductions for each; NULL: $TENET_CHECK, else not; "": not */
  const char *check;
  /* what CPU kernels may use: "x86-64-v2", "x86-64-v3", "x86-64-v4" ("armv8-a" on ARM); NULL: $TENET_CPU_LEVEL, else
   * the best that the machine has */
  const char *cpu_level;
} tn_options;

/* The first error since tn_clear_error(): the cause, where others follow from it.  A function that returns a tn_status
 * returns its own, whatever is pending here.  A NULL operand is TN_EINVAL; while an error is pending, functions that
 * take several operands (tn_assign, tn_grad, ...) give that of the error that came last, which made it NULL: another
 * operand led them to the context.  Strings live until the next error or tn_ctx_close(). */
typedef struct tn_error {
  tn_status status;
  const char *text; /* one line: the op, the shapes and the rule that was broken */
  const char *op;   /* the public function or graph op that failed, "" if none */
} tn_error;

/* Opens a context.  `opt` may be NULL.  Returns NULL when memory is out, or when an option is unusable (a device that
 * does not exist, a limit below what a context needs); the reason then goes to stderr unless opt->quiet. */
TN_API tn_ctx *tn_ctx_open(const tn_options *opt);
/* So, with the struct's size as the caller knows it, sizeof(tn_options): what C callers call, by the macro, whatever
 * version they were compiled for, and what others should call.  Fields that the caller does not know are zero; fields
 * that this library does not know must be, else NULL: the library is older than its caller.  The function itself takes
 * the struct of version 0.1. */
TN_API tn_ctx *tn_ctx_open_sized(const tn_options *opt, size_t size);
#define tn_ctx_open(...) tn_ctx_open_sized(__VA_ARGS__, sizeof(tn_options))
/* Releases every handle, buffer and thread of the context, and closes its programs, lists of parameters, optimisers,
 * iterators and files; none may be used any more. Before that, using or closing what was closed is TN_EINVAL (or
 * nothing, for a tensor: see tn_scope_begin) and does no harm, unless a thousand of its kind (64 of what is no tensor)
 * were closed since: only then may its memory serve another.  NULL is allowed. */
TN_API void tn_ctx_close(tn_ctx *ctx);

TN_API const tn_error *tn_last_error(const tn_ctx *ctx);
TN_API void tn_clear_error(tn_ctx *ctx);
TN_API const char *tn_status_name(tn_status status); /* "TN_ESHAPE" */
TN_API const char *tn_status_text(tn_status status); /* "shapes do not fit" */
TN_API const char *tn_version(void);                 /* of the library: "0.1.0" */
TN_API int tn_version_number(void);                  /* TN_VERSION_NUMBER(0, 1, 0) */
/* Ends a string that the caller owns, as tn_print_string() and others return them; NULL is allowed. */
TN_API void tn_string_free(char *string);

/* Counters for tests, benches and curious users; monotonic since the context was opened unless said otherwise. */
typedef struct tn_stats {
  uint64_t schedules_compiled; /* schedules built from a graph (cache misses) */
  uint64_t schedules_reused;   /* schedules found in the context's cache */
  uint64_t kernels_compiled;   /* kernels that went through the C compiler */
  uint64_t kernels_cached;     /* kernels found in the disk cache */
  uint64_t kernels_timed;      /* variants of kernels that were timed (tuning) */
  uint64_t kernels_run;        /* kernels and library calls executed */
  uint64_t nodes_live;         /* graph nodes alive now */
  uint64_t handles_live;       /* tensor handles alive now */
  size_t heap_bytes;           /* host heap held now */
  size_t heap_peak;            /* most it has held */
  size_t buffer_bytes;         /* device buffers in use now */
  size_t pool_bytes;           /* freed device buffers kept for reuse */
} tn_stats;
TN_API void tn_ctx_stats(const tn_ctx *ctx, tn_stats *out);
/* So, for a struct of `size` bytes, as tn_ctx_open_sized: fields that this library does not know become 0. */
TN_API void tn_ctx_stats_sized(const tn_ctx *ctx, tn_stats *out, size_t size);
#define tn_ctx_stats(...) tn_ctx_stats_sized(__VA_ARGS__, sizeof(tn_stats))

#ifdef __cplusplus
}
#endif
#endif
