/* The levels of processors that kernels are compiled for; render/lanes_c.inc says what each has for vectors. */
#include "backend/cpu/level.h"
#include <string.h>

/* The first thing of a level that the processor lacks, or NULL.  The processor is asked, not the system: under an
 * emulator (valgrind, qemu) they differ, and kernels run on the one that answers.  The compilers have no names of their
 * own for some things of level 3 (f16c, lzcnt, movbe); every processor with the others has those. */
static const char *lacks_nothing(void) { return NULL; }

#if defined __x86_64__
#define NEED(what) \
  if (!__builtin_cpu_supports(what)) return what
static const char *lacks_of_v2(void) {
  NEED("popcnt");
  NEED("sse3");
  NEED("ssse3");
  NEED("sse4.1");
  NEED("sse4.2");
  return NULL;
}

static const char *lacks_of_v3(void) {
  NEED("avx");
  NEED("avx2");
  NEED("bmi");
  NEED("bmi2");
  NEED("fma");
  return lacks_of_v2();
}

static const char *lacks_of_v4(void) {
  NEED("avx512f");
  NEED("avx512bw");
  NEED("avx512cd");
  NEED("avx512dq");
  NEED("avx512vl");
  return lacks_of_v3();
}
#undef NEED
#endif

static const struct {
  tn__level level;
  const char *(*lacks)(void);
} levels[] = { /* the best first */
#if defined __x86_64__
    {{"x86-64-v4", "-march=x86-64-v4", 64}, lacks_of_v4},
    {{"x86-64-v3", "-march=x86-64-v3", 32}, lacks_of_v3},
    {{"x86-64-v2", "-march=x86-64-v2", 16}, lacks_of_v2},
    {{"x86-64", "-march=x86-64", 16}, lacks_nothing},
#elif defined __aarch64__
    {{"armv8-a", "-march=armv8-a", 16}, lacks_nothing},
#else
    {{"generic", "", 16}, lacks_nothing},
#endif
};

enum { LEVELS = sizeof levels / sizeof *levels };

bool tn__level_is(const char *name) {
  for (int i = 0; i < LEVELS; i++)
    if (!strcmp(name, levels[i].level.name)) return true;
  return false;
}

const tn__level *tn__level_choose(tn_ctx *c, const char *asked, const char *by) {
  tn__sb names;
  tn__sb_init(&names, &c->scratch);
  for (int i = 0; i < LEVELS; i++) {
    const char *name = levels[i].level.name, *lacks = levels[i].lacks();
    bool meant = !asked || !strcmp(asked, name);
    if (meant && !lacks) return &levels[i].level;
    if (meant && asked)
      tn__fail(c, TN_EINVAL, "the CPU level is '%s' (%s), but this processor lacks %s", asked, by, lacks);
    tn__sb_printf(&names, "%s%s", i == 0 ? "" : i == LEVELS - 1 ? " or " : ", ", name);
  }
  tn__fail(c, TN_EINVAL, "the CPU level is '%s' (%s); it may be %s", asked, by, tn__sb_str(&names));
}
