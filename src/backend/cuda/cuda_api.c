/* Finding NVIDIA's libraries and their functions.
 *
 * The driver comes with the system and lies where the dynamic linker looks.  The toolkit's libraries may also lie in a
 * toolkit's folder, or in that of Python wheels; TENET_CUDA_PATH, CUDA_HOME and CUDA_PATH name such folders, the first
 * also that of another driver. */
#include "backend/cuda/cuda_api.h"
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct slot {
  const char *symbol;
  size_t at;
} slot;

#define SLOT(member, name, parameters) {name, offsetof(TABLE, member)},
#define TABLE tn__cuda_driver
static const slot driver_slots[] = {TN__CUDA_DRIVER(SLOT)};
#undef TABLE
#define TABLE tn__cuda_nvrtc
static const slot nvrtc_slots[] = {TN__CUDA_NVRTC(SLOT)};
#undef TABLE
#define TABLE tn__cuda_lt
static const slot lt_slots[] = {TN__CUDA_LT(SLOT)};
#undef TABLE
#define TABLE tn__cuda_dnn
static const slot dnn_slots[] = {TN__CUDA_DNN(SLOT){"cudnnGetErrorString", offsetof(tn__cuda_dnn, error_text)}};
#undef TABLE
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What is loaded, or why it is not: `why` is empty if all went well. */
static struct library {
  pthread_once_t once;
  char why[200];
} driver_state = {.once = PTHREAD_ONCE_INIT}, nvrtc_state = {.once = PTHREAD_ONCE_INIT},
  lt_state = {.once = PTHREAD_ONCE_INIT}, dnn_state = {.once = PTHREAD_ONCE_INIT};
static tn__cuda_driver driver;
static tn__cuda_nvrtc nvrtc;
static tn__cuda_lt lt;
static tn__cuda_dnn dnn;
static int driver_version;

static void explain(struct library *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void explain(struct library *l, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(l->why, sizeof l->why, fmt, ap);
  va_end(ap);
}

/* ---- where a toolkit's library lies ---- */

/* A library by the names it may have, the best first, and its folder among Python's wheels. */
typedef struct stem {
  const char *name[3], *wheel;
  int version; /* its own; 0: that of CUDA */
} stem;

/* The plain NVRTC holds a lock while it compiles; its alternative can be used by several threads at once. */
static const stem nvrtc_stem = {{"libnvrtc.alt.so", "libnvrtc.so", NULL}, "/nvidia/cuda_nvrtc/lib", 0};
static const stem lt_stem = {{"libcublasLt.so", NULL}, "/nvidia/cublas/lib", 0};
static const stem dnn_stem = {{"libcudnn.so", NULL}, "/nvidia/cudnn/lib", 9};

enum { MAJORS = 3 };

/* The driver's own major version first: it loads nothing newer than itself. */
static int major_at(const stem *s, int i) {
  static const int known[MAJORS] = {0, 13, 12};
  return s->version ? s->version : i ? known[i] : driver_version / 1000;
}

static bool is_in(const char *dir, const stem *s, char *path, size_t size) {
  for (int i = 0; i < MAJORS; i++)
    for (int k = 0; s->name[k]; k++) {
      int n = snprintf(path, size, "%s/%s.%d", dir, s->name[k], major_at(s, i));
      if (n > 0 && (size_t)n < size && !access(path, R_OK)) return true;
    }
  return false;
}

static bool is_below(const char *base, const stem *s, char *path, size_t size) {
  const char *const below[] = {"", "/lib64", "/lib", "/nvidia/cu13/lib", s->wheel};
  char dir[PATH_MAX];
  for (size_t i = 0; i < COUNT(below); i++) {
    int n = snprintf(dir, sizeof dir, "%s%s", base, below[i]);
    if (n > 0 && (size_t)n < sizeof dir && is_in(dir, s, path, size)) return true;
  }
  return false;
}

/* In the folders that were named, then in the usual ones; false: the dynamic linker may know. */
static bool find_file(const stem *s, char *path, size_t size) {
  static const char *const named[] = {"TENET_CUDA_PATH", "CUDA_HOME", "CUDA_PATH"};
  for (size_t i = 0; i < COUNT(named); i++) {
    const char *base = getenv(named[i]);
    if (base && *base && is_below(base, s, path, size)) return true;
  }
  glob_t usual;
  bool found = false;
  if (glob("/usr/local/cuda*", 0, NULL, &usual)) return false;
  for (size_t i = 0; i < usual.gl_pathc && !found; i++) found = is_below(usual.gl_pathv[i], s, path, size);
  globfree(&usual);
  return found;
}

static void *open_toolkit(const stem *s, struct library *l) {
  char path[PATH_MAX];
  const char *last = "";
  void *handle = find_file(s, path, sizeof path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  for (int i = 0; i < MAJORS && !handle; i++)
    for (int k = 0; s->name[k] && !handle; k++) {
      last = s->name[k];
      snprintf(path, sizeof path, "%s.%d", last, major_at(s, i));
      handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
  if (!handle && s->version) explain(l, "%s.%d was not found (TENET_CUDA_PATH may name its folder)", last, s->version);
  else if (!handle)
    explain(l, "%s was not found (of CUDA %d or an older one; TENET_CUDA_PATH may name its folder)", last,
            driver_version ? driver_version / 1000 : 13);
  return handle;
}

/* ---- loading ---- */

/* dlsym gives an object pointer where a function pointer is meant; POSIX makes the two interchangeable, C does not. */
static void find_all(void *handle, const char *name, const slot *s, size_t n, void *table, struct library *l) {
  for (size_t i = 0; i < n && handle; i++) {
    void *p = dlsym(handle, s[i].symbol);
    if (!p) {
      explain(l, "%s has no %s: it is too old", name, s[i].symbol);
      return;
    }
    memcpy((char *)table + s[i].at, &p, sizeof p);
  }
}

static void *open_driver(void) {
  const char *dir = getenv("TENET_CUDA_PATH");
  char path[PATH_MAX];
  void *handle = NULL;
  if (dir && *dir && snprintf(path, sizeof path, "%s/libcuda.so.1", dir) < (int)sizeof path)
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return handle ? handle : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
}

static void load_driver(void) {
  struct library *l = &driver_state;
  void *handle = open_driver();
  if (!handle) explain(l, "there is no CUDA driver (libcuda.so.1)");
  find_all(handle, "the CUDA driver", driver_slots, COUNT(driver_slots), &driver, l);
  if (*l->why) return;
  int failed = driver.init(0);
  const char *text = NULL;
  if (failed) {
    driver.error_text(failed, &text);
    explain(l, "the CUDA driver does not start: %s", text ? text : "unknown error");
    return;
  }
  driver.version(&driver_version);
}

static void load_nvrtc(void) {
  void *handle = open_toolkit(&nvrtc_stem, &nvrtc_state);
  find_all(handle, "libnvrtc.so", nvrtc_slots, COUNT(nvrtc_slots), &nvrtc, &nvrtc_state);
}

static void load_lt(void) {
  void *handle = open_toolkit(&lt_stem, &lt_state);
  find_all(handle, "libcublasLt.so", lt_slots, COUNT(lt_slots), &lt, &lt_state);
}

static void load_dnn(void) {
  void *handle = open_toolkit(&dnn_stem, &dnn_state);
  find_all(handle, "libcudnn.so", dnn_slots, COUNT(dnn_slots), &dnn, &dnn_state);
}

static bool load(struct library *l, void (*how)(void), const char **why) {
  pthread_once(&l->once, how);
  if (why) *why = l->why;
  return !*l->why;
}

const tn__cuda_driver *tn__cuda_load_driver(const char **why) {
  return load(&driver_state, load_driver, why) ? &driver : NULL;
}

const tn__cuda_nvrtc *tn__cuda_load_nvrtc(const char **why) {
  return load(&nvrtc_state, load_nvrtc, why) ? &nvrtc : NULL;
}

const tn__cuda_lt *tn__cuda_load_lt(const char **why) { return load(&lt_state, load_lt, why) ? &lt : NULL; }

const tn__cuda_dnn *tn__cuda_load_dnn(const char **why) { return load(&dnn_state, load_dnn, why) ? &dnn : NULL; }

int tn__cuda_driver_version(void) { return driver_version; }

bool tn__cuda_has_nvrtc(void) {
  char path[PATH_MAX];
  return find_file(&nvrtc_stem, path, sizeof path) || tn__cuda_load_nvrtc(NULL);
}

void tn__cuda_nvrtc_identity(char *out, size_t size) {
  char path[PATH_MAX], real[PATH_MAX];
  struct stat st;
  if (find_file(&nvrtc_stem, path, sizeof path) && realpath(path, real) && !stat(real, &st))
    snprintf(out, size, "%s %lld %lld", real, (long long)st.st_size, (long long)st.st_mtim.tv_sec);
  else snprintf(out, size, "libnvrtc of the system");
}
