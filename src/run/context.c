/* Opening and closing a context: the one place that knows every part of it. */
#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "backend/ref/ref.h"
#include "rewrite/rewrite.h"
#include "run/runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 256 };

/* ---- options: the environment is read here, once ---- */

static const char *own(tn_ctx *c, const char *s) {
  if (!s) return NULL;
  char *copy = tn__mem_alloc(&c->mem, strlen(s) + 1);
  return strcpy(copy, s);
}

static const char *own_or_none(tn_ctx *c, const char *s) { return s && *s ? own(c, s) : NULL; }

static const char *or_env(const char *given, const char *name) { return given ? given : getenv(name); }

/* 1: on, 0: off, -1: not set */
static int switch_of(tn_ctx *c, const char *name) {
  static const char *const words[] = {"off", "on", "0", "1"};
  const char *v = getenv(name);
  if (!v || !*v) return -1;
  for (int i = 0; i < 4; i++)
    if (!strcmp(v, words[i])) return i % 2;
  tn__fail(c, TN_EINVAL, "%s is '%s'; it may be on, 1, off or 0", name, v);
}

static tn_mode find_mode(tn_ctx *c, tn_mode given) {
  static const char *const names[] = {
      [TN_MODE_DEFAULT] = "default", [TN_MODE_STRICT] = "strict", [TN_MODE_FAST] = "fast"};
  const char *env = getenv("TENET_MODE");
  if ((int)given < 0 || given > TN_MODE_FAST) tn__fail(c, TN_EINVAL, "unknown mode %d", (int)given);
  if (given != TN_MODE_DEFAULT || !env || !*env) return given;
  for (int m = 0; m < 3; m++)
    if (!strcmp(env, names[m])) return (tn_mode)m;
  tn__fail(c, TN_EINVAL, "TENET_MODE is '%s'; it may be strict, default or fast", env);
}

static int find_threads(tn_ctx *c, int given) {
  const char *env = getenv("TENET_THREADS");
  if (given < 0) tn__fail(c, TN_EINVAL, "%d threads", given);
  if (given == 0 && env && *env) {
    char *end;
    long n = strtol(env, &end, 10);
    if (*end || n < 1 || n > MAX_THREADS)
      tn__fail(c, TN_EINVAL, "TENET_THREADS is '%s'; it may be 1 to %d", env, MAX_THREADS);
    given = (int)n;
  }
  if (given == 0) given = tn__pool_cores();
  return given > MAX_THREADS ? MAX_THREADS : given;
}

/* With TENET_VERIFY, unless something else is said */
static uint64_t find_races(tn_ctx *c) {
  const char *env = getenv("TENET_RACES");
  char *end;
  if (!env || !*env) return c->opt.verify != NULL;
  uint64_t seed = strtoull(env, &end, 10);
  if (!strcmp(env, "off")) return 0;
  if (*end || *env == '-') tn__fail(c, TN_EINVAL, "TENET_RACES is '%s'; it may be off or a number, the seed", env);
  return seed;
}

static const char *find_cache(tn_ctx *c, const char *given) {
  const char *dir = or_env(given, "TENET_CACHE"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (dir) return own_or_none(c, dir);
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  if (base && *base) tn__sb_printf(&s, "%s/tenet", base);
  else if (home && *home) tn__sb_printf(&s, "%s/.cache/tenet", home);
  else return NULL;
  return own(c, tn__sb_str(&s));
}

/* What is no word names the file that a line for each schedule goes to (run/validate.c): that it cannot be written must
 * not pass unseen, nor a word that is spelt another way. */
static const char *find_verify(tn_ctx *c, const char *given) {
  const char *verify = or_env(given, "TENET_VERIFY");
  if (!verify || !*verify || !strcmp(verify, "0") || !strcmp(verify, "off")) return NULL;
  if (!strcmp(verify, "1") || !strcmp(verify, "on")) return own(c, "1");
  if (strcmp(verify, "strict")) {
    if (!strpbrk(verify, "/."))
      tn__fail(c, TN_EINVAL,
               "TENET_VERIFY is '%s'; it may be 0, off, 1, on, strict, or a file with a / or a . in its name", verify);
    int f = open(verify, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (f < 0) tn__fail(c, TN_EIO, "TENET_VERIFY is '%s', which cannot be written: %s", verify, strerror(errno));
    close(f);
  }
  return own(c, verify);
}

static void resolve(tn_ctx *c, const tn_options *o) {
  c->opt = *o;
  c->opt.device = c->opt.cc = c->opt.cpu_level = c->opt.cache_dir = c->opt.verify = c->opt.check = NULL;
  c->opt.device = own(c, or_env(o->device, "TENET_DEVICE"));
  c->opt.cc = own(c, or_env(o->cc, "TENET_CC"));
  c->opt.cpu_level = own_or_none(c, or_env(o->cpu_level, "TENET_CPU_LEVEL"));
  c->opt.verify = find_verify(c, o->verify);
  c->races = find_races(c);
  c->opt.check = own_or_none(c, or_env(o->check, "TENET_CHECK"));
  if (c->opt.check && strcmp(c->opt.check, "index"))
    tn__fail(c, TN_EINVAL, "TENET_CHECK is '%s'; it may be index", c->opt.check);
  c->opt.cache_dir = find_cache(c, o->cache_dir);
  c->opt.threads = find_threads(c, o->threads);
  int library = switch_of(c, "TENET_LIBRARY"), tf32 = switch_of(c, "TENET_TF32"), tune = switch_of(c, "TENET_TUNE");
  c->opt.no_library = o->no_library || library == 0;
  c->opt.tf32 = o->tf32 || tf32 == 1;
  if (o->tune < -1 || o->tune > 1) tn__fail(c, TN_EINVAL, "tune is %d; it may be -1, 0 or 1", o->tune);
  if (!o->tune) c->opt.tune = tune < 0 ? 0 : tune ? 1 : -1;
  c->opt.mode = c->mode = find_mode(c, o->mode);
}

/* ---- open and close ---- */

/* Devices that are looked for when one of theirs is asked for: "cuda:0".  Looking loads drivers, which takes its time.
 */
static const struct family {
  const char *name;
  int (*open)(tn_ctx *c, int first);
  const char *(*missing)(void);
} families[] = {{"cuda", tn__cuda_open, tn__cuda_missing}, {"opencl", tn__opencl_open, tn__opencl_missing}};

enum { FAMILIES = sizeof families / sizeof *families };

/* Is it a device of the family, by its name?  *number: which. */
static bool belongs(const struct family *f, const char *name, int *number) {
  size_t n = strlen(f->name);
  if (strncmp(name, f->name, n)) return false;
  if (sscanf(name + n, ":%d", number) != 1) *number = 0;
  return true;
}

static void open_family(tn_ctx *c, const struct family *f, int first) {
  char name[32];
  snprintf(name, sizeof name, "%s:0", f->name);
  if (tn__device_find(c, name) >= 0) return;
  tn__devices_seek(c);
  f->open(c, first);
}

static void open_family_of(tn_ctx *c, const char *name) {
  int number;
  for (int i = 0; i < FAMILIES; i++)
    if (belongs(&families[i], name, &number)) open_family(c, &families[i], number);
}

_Noreturn static void refuse_device(tn_ctx *c, const char *want) {
  const char *why = "";
  tn__sb list;
  int n = tn__device_count(c), number;
  tn__sb_init(&list, &c->scratch);
  for (int i = 0; i < n; i++)
    tn__sb_printf(&list, "%s%s", i == 0 ? "" : i == n - 1 ? " and " : ", ", tn__device_get(c, i)->name);
  for (int i = 0; i < FAMILIES; i++)
    if (belongs(&families[i], want, &number)) why = families[i].missing();
  tn__fail(c, TN_EDEVICE, "there is no device '%s'%s%s; there are %s", want, *why ? ": " : "", why, tn__sb_str(&list));
}

/* The device asked for comes first: device 0 is where tensors are made.  Whoever asks for the CPU waits for no driver:
 * other families' devices are opened when somebody asks for one, or for the list. */
static void open_devices(tn_ctx *c) {
  const char *want = c->opt.device && *c->opt.device ? c->opt.device : "best";
  bool best = !strcmp(want, "best"), ref = !strncmp(want, "ref", 3);
  tn__devices_open(c);
  if (best && tn__cuda_usable()) tn__cuda_open(c, 0);
  open_family_of(c, want);
  tn__devices_seek(c);
  if (ref) tn__ref_open(c, want);
  tn__cpu_open(c);
  if (tn__device_find(c, "ref") < 0) tn__ref_open(c, "ref");
  if (!best && tn__device_find(c, want) != 0) refuse_device(c, want);
}

void tn__open_gpus(tn_ctx *c) {
  for (int i = 0; i < FAMILIES; i++) open_family(c, &families[i], 0);
}

int tn__find_device(tn_ctx *c, const char *name) {
  int at = tn__device_find(c, name);
  if (at < 0) open_family_of(c, name);
  if (at < 0) at = tn__device_find(c, name);
  if (at < 0) refuse_device(c, name);
  return at;
}

static void do_open(tn_ctx *c, void *arg) {
  tn__intern_open(c);
  resolve(c, arg);
  const char *why = tn__cache_open(&c->cache, &c->mem, c->opt.cache_dir);
  if (why && !c->opt.quiet)
    fprintf(stderr, "tenet: compiled kernels are not kept: the folder %s (TENET_CACHE): %s\n", c->opt.cache_dir, why);
  c->pool = tn__pool_open(&c->mem, c->opt.threads);
  open_devices(c);
  tn__cells_open(c);
  c->runtime = tn__mem_zalloc(&c->mem, sizeof *c->runtime);
  tn_manual_seed(c, c->opt.seed);
}

/* Size of the options of version 0.1, the first: they end before `check`. */
enum { FIRST_OPTIONS = offsetof(tn_options, check) };
/* Bytes beyond the known ones must be zero; padding at the end could hold anything. */
_Static_assert(offsetof(tn_options, cpu_level) + sizeof(const char *) == sizeof(tn_options),
               "tn_options ends in padding");

bool tn__options_take(const tn_options *opt, size_t size, tn_options *out) {
  size_t known = size < sizeof *out ? size : sizeof *out;
  bool beyond = false;
  *out = (tn_options){0};
  if (!opt) return true;
  for (size_t i = known; i < size; i++) beyond |= ((const char *)opt)[i] != 0;
  memcpy(out, opt, known);
  if (!beyond && size >= FIRST_OPTIONS) return true;
  fprintf(stderr, "tenet: options of %zu bytes, where those of version %s have %zu%s\n", size, tn_version(),
          sizeof *out, beyond ? ": it lacks one that is set" : "");
  return false;
}

tn_ctx *tn_ctx_open_sized(const tn_options *opt, size_t size) {
  tn_options copy;
  if (!tn__options_take(opt, size, &copy)) return NULL;
  tn_ctx *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->mem.fail_at = copy.fail_alloc_at;
  c->mem.limit = copy.mem_limit;
  c->opt.quiet = copy.quiet;
  tn__arena_init(&c->scratch, &c->mem);
  if (tn__ctx_run(c, "tn_ctx_open", do_open, &copy) && c->err.status == TN_OK) return c;
  if (!copy.quiet) fprintf(stderr, "tenet: %s\n", tn_last_error(c)->text);
  tn_ctx_close(c);
  return NULL;
}

/* For those that were compiled for version 0.1 */
tn_ctx *(tn_ctx_open)(const tn_options *opt) { return tn_ctx_open_sized(opt, FIRST_OPTIONS); }

void tn_ctx_close(tn_ctx *c) {
  if (!c) return;
  tn__objects_close(c);
  tn__run_close(c);
  if (c->cells) tn__cells_close(c);
  if (c->intern) tn__intern_sweep(c, 0);
  if (c->devices) {
    tn__storage_reap(c);
    tn__devices_close(c);
  }
  tn__pool_close(c->pool);
  tn__rules_close(c);
  if (c->intern) tn__intern_close(c);
  tn__cache_close(&c->cache);
  tn__mem_free(&c->mem, c->runtime);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.device);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.cc);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.cpu_level);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.cache_dir);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.verify);
  tn__mem_free(&c->mem, (void *)(uintptr_t)c->opt.check);
  tn__objects_free(c);
  tn__arena_free(&c->scratch);
  free(c);
}
