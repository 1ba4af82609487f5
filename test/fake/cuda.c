#include "fake/fake.h"
#include <elf.h>

enum {
  OK,
  INVALID = 1,
  NO_MEMORY = 2,
  BAD_IMAGE = 200,
  NOT_FOUND = 500,
  ILLEGAL_ADDRESS = 700,
  CAPTURE = 900,
  GREATEST = -5, /* priority */
  MOST = 4096
};

typedef enum kind { COPY, FILL, IOTA, FAULT, EVENT, FREE } kind;

typedef struct op {
  kind kind;
  char *dst;
  const char *src;
  size_t size, pitch, rows;
  int64_t n;
} op;

typedef struct list {
  op op[MOST];
  int n;
} list;

typedef struct event {
  int pending;
} event;

static fake_state state = {.limit = (size_t)64 << 20};
static list stream, *graph; /* one stream; the graph being recorded */
static int failed;          /* sticky */
static char context;

fake_state *fake_cuda(void) { return &state; }

/* What goes with the context when it is reset: blocks of memory and modules. */
static void *owned[MOST];

static void own(void *p) {
  int i = 0;
  while (owned[i]) i++;
  owned[i] = p;
}

static void disown(const void *p) {
  int i = 0;
  while (owned[i] != p) i++;
  owned[i] = NULL;
  free((void *)(uintptr_t)p);
}

static void disown_all(void) {
  for (int i = 0; i < MOST; i++) {
    free(owned[i]);
    owned[i] = NULL;
  }
  state.memory = 0;
  state.modules = 0;
}

/* Blocks know their size. */
static int take(size_t size, uint64_t *out) {
  if (size > state.limit - state.memory) return NO_MEMORY;
  size_t *block = aligned_alloc(256, (size + 511) / 256 * 256);
  *block = size;
  state.memory += size;
  own(block);
  *out = (uint64_t)(uintptr_t)((char *)block + 256);
  return OK;
}

static void give(void *p) {
  size_t *block = (size_t *)(void *)((char *)p - 256);
  state.memory -= *block;
  disown(block);
}

static void run(const op *o) {
  state.launches += o->kind == IOTA || o->kind == FAULT;
  switch (o->kind) {
  case COPY: memcpy(o->dst, o->src, o->size); break;
  case FILL:
    for (size_t r = 0; r < o->rows; r++) memset(o->dst + r * o->pitch, (int)o->n, o->size);
    break;
  case IOTA:
    for (int64_t i = 0; i < o->n; i++) ((int64_t *)(void *)o->dst)[i] += i;
    break;
  case FAULT: failed = ILLEGAL_ADDRESS; break;
  case EVENT: ((event *)(void *)o->dst)->pending--; break;
  case FREE: give(o->dst); break;
  }
}

/* Does what was asked for, in order: all of it, or until `e` has passed. */
static int finish(const event *e) {
  int done = 0;
  while (done < stream.n && (!e || e->pending)) {
    run(&stream.op[done++]);
    if (failed) {
      stream.n = 0;
      return failed;
    }
  }
  memmove(stream.op, stream.op + done, (size_t)(stream.n - done) * sizeof *stream.op);
  stream.n -= done;
  return failed;
}

static int ask(op o) {
  list *l = graph ? graph : &stream;
  if (failed) return failed;
  if (l->n == MOST && (graph || finish(NULL))) return INVALID;
  l->op[l->n++] = o;
  return OK;
}

int cuInit(unsigned flags) { return flags ? INVALID : OK; }
int cuDriverGetVersion(int *v) { return *v = 13000, OK; }
int cuGetErrorName(int e, const char **s) {
  return *s = e == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
              : e == NO_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR",
         OK;
}
int cuGetErrorString(int e, const char **s) {
  return *s = e == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "an error", OK;
}
int cuDeviceGetCount(int *n) { return *n = 2, OK; }
int cuDeviceGet(int *d, int i) { return *d = 100 + i, OK; }
int cuDeviceGetName(char *s, int n, int d) { return strncpy(s, d == 100 ? "Fake One" : "Fake Two", (size_t)n), OK; }
int cuDeviceTotalMem_v2(size_t *n, int d) { return *n = state.limit, d < 100; }
int cuDeviceGetAttribute(int *v, int what, int d) {
  *v = what == 1 ? 1024 : what == 16 ? 132 : what == 75 ? 9 : what == 76 ? 0 : what == 97 ? 232448 : 0;
  return d < 100;
}
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = &context, state.contexts++, d < 100; }
int cuDevicePrimaryCtxRelease_v2(int d) { return state.contexts--, d < 100; }
int cuDevicePrimaryCtxReset_v2(int d) { return state.resets++, failed = stream.n = 0, disown_all(), d < 100; }
int cuCtxSetCurrent(void *c) { return c && c != &context ? INVALID : failed; }
int cuMemGetInfo_v2(size_t *unused, size_t *all) {
  return *unused = state.limit - state.memory, *all = state.limit, failed;
}
int cuDeviceGetDefaultMemPool(void **p, int d) { return *p = &state, state.no_pools || d < 100; }
int cuMemPoolSetAttribute(void *p, int what, void *v) {
  return p != &state || what != 4 || *(uint64_t *)v != UINT64_MAX;
}
int cuMemPoolTrimTo(void *p, size_t n) { return p != &state || n; }
int cuMemAllocAsync(uint64_t *p, size_t n, void *s) { return !s || graph ? INVALID : failed ? failed : take(n, p); }
int cuMemFreeAsync(uint64_t p, void *s) { return s ? ask((op){.kind = FREE, .dst = (char *)(uintptr_t)p}) : INVALID; }
int cuMemAlloc_v2(uint64_t *p, size_t n) { return failed ? failed : take(n, p); }
int cuMemFree_v2(uint64_t p) { return finish(NULL), give((void *)(uintptr_t)p), failed; }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { return *p = malloc(n), state.pinned += n, (int)f; }
int cuMemFreeHost(void *p) { return free(p), state.pinned = 0, OK; }
int cuMemcpyHtoDAsync_v2(uint64_t d, const void *s, size_t n, void *t) {
  return t ? ask((op){.kind = COPY, .dst = (char *)(uintptr_t)d, .src = s, .size = n}) : INVALID;
}
int cuMemcpyDtoHAsync_v2(void *d, uint64_t s, size_t n, void *t) {
  return t ? ask((op){.kind = COPY, .dst = d, .src = (char *)(uintptr_t)s, .size = n}) : INVALID;
}
int cuMemcpyPeerAsync(uint64_t d, void *to, uint64_t s, void *from, size_t n, void *t) {
  state.peers++;
  return t && to && from ? ask((op){.kind = COPY, .dst = (char *)(uintptr_t)d, .src = (char *)(uintptr_t)s, .size = n})
                         : INVALID;
}
int cuStreamWaitEvent(void *s, const event *e, unsigned flags) {
  return s && e && !flags ? OK : INVALID;
} /* there is one stream */
int cuMemsetD2D8Async(uint64_t d, size_t pitch, unsigned char v, size_t w, size_t h, void *t) {
  return t ? ask((op){.kind = FILL, .dst = (char *)(uintptr_t)d, .size = w, .rows = h, .pitch = pitch, .n = v})
           : INVALID;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = GREATEST, OK; }
int cuStreamCreate(void **s, unsigned flags) { return *s = &stream, state.streams++, failed ? failed : flags != 1; }
int cuStreamDestroy_v2(void *s) { return state.streams--, finish(NULL), s != &stream; }
int cuStreamSynchronize(void *s) { return graph ? CAPTURE : s == &stream ? finish(NULL) : INVALID; }
int cuEventCreate(event **e, unsigned flags) { return *e = calloc(1, sizeof **e), state.events++, flags != 2; }
int cuEventDestroy_v2(event *e) { return finish(NULL), free(e), state.events--, OK; }
int cuEventRecord(event *e, void *s) { return e->pending++, s ? ask((op){.kind = EVENT, .dst = (char *)e}) : INVALID; }
int cuEventSynchronize(event *e) { return finish(e); }
/* Bytes of the frames of a cubin's functions, for what they keep in memory of each thread's own.  Its section of notes
 * has them one behind the other: a form, a kind, the size of what follows, if that is the form; of a frame that is the
 * number of a function and the bytes. */
static uint32_t sum_frames(const char *cubin) {
  enum { FRAME = 0x11, SIZED = 4 };
  const Elf64_Ehdr *e = (const Elf64_Ehdr *)(const void *)cubin;
  uint32_t bytes = 0;
  if (memcmp(cubin, ELFMAG, SELFMAG) != 0) return 0;
  const Elf64_Shdr *section = (const Elf64_Shdr *)(const void *)(cubin + e->e_shoff);
  const char *names = cubin + section[e->e_shstrndx].sh_offset;
  for (int i = 0; i < e->e_shnum; i++) {
    const char *at = cubin + section[i].sh_offset, *end = at + section[i].sh_size;
    while (!strcmp(names + section[i].sh_name, ".nv.info") && at + 4 <= end) {
      uint16_t size;
      uint32_t frame[2];
      memcpy(&size, at + 2, sizeof size);
      if (at[0] == SIZED && at[1] == FRAME && size == sizeof frame) {
        memcpy(frame, at + 4, sizeof frame);
        bytes += frame[1];
      }
      at += at[0] == SIZED ? 4u + size : 4u;
    }
  }
  return bytes;
}

int cuModuleLoadData(void **m, const void *image) {
  int bad = state.bad_module;
  state.bad_module = 0;
  if (bad || failed) return failed ? failed : BAD_IMAGE;
  state.modules++;
  if (state.any_function) state.frames += sum_frames(image);
  own(*m = strdup(image));
  return OK;
}
int cuModuleUnload(void *m) { return disown(m), state.modules--, stream.n ? INVALID : OK; }
int cuModuleGetFunction(void **f, char *m, const char *name) {
  char *at = state.any_function ? m : strstr(m, name);
  return *f = at, at ? OK : NOT_FOUND;
}
int cuFuncSetAttribute(void *f, int what, int v) {
  if (what == 9) state.preferred_shared = v;
  if (what == 8) state.most_shared = v;
  return !f || (what != 8 && what != 9);
}
typedef struct launch {
  unsigned grid[3], block[3], shared;
  void *stream;
  const int *attribute;
  unsigned nattribute;
} launch;
int cuLaunchKernelEx(const launch *l, char *f, void **arg, void **extra) {
  if (!l->stream || extra || l->grid[1] != 1 || l->grid[2] != 1 || l->block[1] != 1 || l->block[2] != 1 ||
      !l->grid[0] || !l->block[0])
    return INVALID;
  state.priority = 0;
  for (unsigned i = 0; i < l->nattribute; i++) { /* of 72 bytes */
    const int *a = l->attribute + (size_t)18 * i;
    if (a[0] == 8 && a[2] < 0 && a[2] >= GREATEST && graph) state.priority = a[2];
    else if (a[0] != 6 || a[2] != 1) return INVALID;
  }
  state.grid = l->grid[0];
  state.threads = l->block[0];
  state.shared = l->shared;
  if (state.any_function) return failed;
  bool iota = !strncmp(f, "iota", 4);
  if (!iota && strncmp(f, "fault", 5)) return NOT_FOUND;
  return ask((op){.kind = iota ? IOTA : FAULT, .dst = *(char **)arg[0], .n = *(int64_t *)arg[1]});
}
int cuStreamBeginCapture_v2(void *s, int mode) {
  if (graph || mode != 1 || !s) return CAPTURE;
  graph = calloc(1, sizeof *graph);
  return OK;
}
/* The order of the calls is kept, which every order of waiting allows; the number of calls so far stands for the node.
 */
int cuStreamGetCaptureInfo_v2(void *s, int *status, uint64_t *id, void **g, void *const **nodes, size_t *n) {
  static void *last;
  (void)id, (void)g;
  last = graph;
  *status = graph ? 1 : 0;
  *nodes = &last;
  *n = graph ? 1 : 0;
  return s && graph ? OK : CAPTURE;
}
int cuStreamUpdateCaptureDependencies(void *s, void *const *nodes, size_t n, unsigned flags) {
  for (size_t i = 0; i < n; i++)
    if (nodes[i] != graph) return INVALID;
  return s && graph && flags == 1 ? OK : CAPTURE;
}
int cuStreamEndCapture(void *s, list **g) {
  return *g = graph, graph = NULL, state.graphs += *g != NULL, s && *g ? OK : CAPTURE;
}
int cuGraphDestroy(list *g) { return free(g), state.graphs--, OK; }
int cuGraphInstantiateWithFlags(list **e, const list *g, unsigned long long flags) {
  *e = malloc(sizeof **e);
  state.ordered = flags == 8;
  return memcpy(*e, g, sizeof *g), state.execs++, flags & ~8ull ? INVALID : OK;
}
int cuGraphUpload(list *e, void *s) { return !e || !s; }
int cuGraphLaunch(const list *e, void *s) {
  int r = s ? OK : INVALID;
  for (int i = 0; i < e->n && !r; i++) r = ask(e->op[i]);
  return r;
}
int cuGraphExecDestroy(list *e) { return free(e), state.execs--, OK; }
