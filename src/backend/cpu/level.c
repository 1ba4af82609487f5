/* The levels of processors that kernels are compiled for; render/lanes_c.inc says what each has for vectors. */
#include "backend/cpu/level.h"
#include <stdio.h>
#include <string.h>

static const tn__level levels[] = { /* the best first */
#if defined __x86_64__
    {"x86-64-v4", "-march=x86-64-v4", 64, "avx512f avx512bw avx512cd avx512dq avx512vl avx2 bmi1 bmi2 f16c fma movbe"},
    {"x86-64-v3", "-march=x86-64-v3", 32, "avx avx2 bmi1 bmi2 f16c fma movbe"},
    {"x86-64-v2", "-march=x86-64-v2", 16, "cx16 popcnt pni sse4_1 sse4_2 ssse3"},
    {"x86-64", "-march=x86-64", 16, ""},
#elif defined __aarch64__
    {"armv8-a", "-march=armv8-a", 16, ""},
#else
    {"generic", "", 16, ""},
#endif
};

enum { LEVELS = sizeof levels / sizeof *levels };

/* The first flag of the level that is not among those of the processor, of *n characters; NULL */
static const char *missing(const tn__level *l, const char *flags, int *n) {
  char word[32];
  for (const char *s = l->needs; *s; s += *n + (s[*n] == ' ')) {
    *n = (int)strcspn(s, " ");
    snprintf(word, sizeof word, " %.*s ", *n, s);
    if (!strstr(flags, word)) return s;
  }
  return NULL;
}

const tn__level *tn__level_choose(tn_ctx *c, const char *asked, const char *flags) {
  tn__sb names;
  tn__sb_init(&names, &c->scratch);
  for (int i = 0, n; i < LEVELS; i++) {
    const char *lacks = missing(&levels[i], flags, &n);
    if (!asked && !lacks) return &levels[i];
    if (asked && !strcmp(asked, levels[i].name)) {
      if (!lacks) return &levels[i];
      tn__fail(c, TN_EINVAL, "the CPU level is '%s' (TENET_CPU_LEVEL), but this processor lacks %.*s", asked, n, lacks);
    }
    tn__sb_printf(&names, "%s%s", i == 0 ? "" : i == LEVELS - 1 ? " or " : ", ", levels[i].name);
  }
  tn__fail(c, TN_EINVAL, "the CPU level is '%s' (TENET_CPU_LEVEL); it may be %s", asked, tn__sb_str(&names));
}
