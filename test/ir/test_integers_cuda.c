/* Negation and equality as CUDA's kernels have them, by what their instructions say: the file is compiled as C here,
 * and each asm is read and done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* ---- a few of PTX's instructions ---- */

enum { REGISTERS = 6, WORDS = 5, WORD = 16 };

typedef struct reg {
  char name[WORD];
  int bits; /* 1: of truth */
  u64 value;
  bool set;
} reg;

typedef struct machine {
  reg r[REGISTERS];
  int n;
} machine;

typedef struct variable {
  const char *name;
  void *at;
  size_t size;
} variable;

static reg *find(machine *m, const char *name) {
  for (int i = 0; i < m->n; i++)
    if (!strcmp(m->r[i].name, name)) return &m->r[i];
  fail_msg("there is no register %s", name);
  return NULL;
}

static reg *add(machine *m, const char *name, int bits) {
  assert_true(m->n < REGISTERS && (bits == 1 || bits == 32 || bits == 64));
  reg *r = &m->r[m->n++];
  snprintf(r->name, sizeof r->name, "%s", name);
  r->bits = bits;
  return r;
}

static u64 read_word(machine *m, const char *word, int bits) {
  if (isdigit((unsigned char)*word)) return strtoull(word, NULL, 10);
  const reg *r = find(m, word);
  if (r->bits != bits || !r->set) fail_msg("register %s of %d bits is read as one of %d", word, r->bits, bits);
  return r->value;
}

static void write_word(machine *m, const char *word, int bits, u64 value) {
  reg *r = find(m, word);
  if (r->bits != bits) fail_msg("register %s of %d bits is written as one of %d", word, r->bits, bits);
  r->value = bits == 64 ? value : value & ((UINT64_C(1) << bits) - 1);
  r->set = true;
}

/* One instruction, its words already apart: the op with its dtype, and the operands */
static void step(machine *m, char (*w)[WORD], int n) {
  char *dot = strrchr(w[0], '.');
  if (!strcmp(w[0], ".reg")) {
    add(m, w[2], !strcmp(w[1], ".pred") ? 1 : atoi(w[1] + 2));
    return;
  }
  assert_non_null(dot);
  int bits = atoi(dot + 2);
  u64 a = read_word(m, w[2], bits);
  if (!strncmp(w[0], "not.b", 5) && n == 3) write_word(m, w[1], bits, ~a);
  else if (!strncmp(w[0], "xor.b", 5) && n == 4) write_word(m, w[1], bits, a ^ read_word(m, w[3], bits));
  else if (!strncmp(w[0], "add.s", 5) && n == 4) write_word(m, w[1], bits, a + read_word(m, w[3], bits));
  else if (!strncmp(w[0], "setp.lt.u", 9) && n == 4) write_word(m, w[1], 1, a < read_word(m, w[3], bits));
  else if (!strncmp(w[0], "selp.b", 6) && n == 5)
    write_word(m, w[1], bits, read_word(m, w[4], 1) ? a : read_word(m, w[3], bits));
  else fail_msg("no %s of %d words is known", w[0], n);
}

static void run_code(machine *m, const char *code) {
  char w[WORDS][WORD] = {{0}};
  int n = 0;
  for (const char *s = code; *s; s++) {
    if (*s == ';') {
      step(m, w, n);
      n = 0;
    } else if (!strchr(" ,{}\n", *s)) {
      size_t len = strcspn(s, " ,;{}");
      assert_true(n < WORDS && len < WORD);
      snprintf(w[n++], WORD, "%.*s", (int)len, s);
      s += len - 1;
    }
  }
  assert_int_equal(n, 0);
}

static const variable *named(const variable *v, const char *name, size_t len) {
  for (int i = 0; i < 3; i++)
    if (strlen(v[i].name) == len && !strncmp(v[i].name, name, len)) return &v[i];
  fail_msg("there is no variable %s", name);
  return NULL;
}

/* "code" "more" : "=r"(is) : "r"(x), "r"(y), with these variables */
static void run_asm(const char *text, const variable *v) {
  machine m = {.n = 0};
  char code[400] = "", name[WORD];
  const variable *out = NULL;
  const char *s = text;
  for (; *s && *s != ':'; s++)
    if (*s == '"') {
      size_t len = strcspn(++s, "\"");
      assert_true(strlen(code) + len < sizeof code);
      strncat(code, s, len);
      s += len;
    }
  for (int i = 0; (s = strchr(s, '"')); i++) { /* each operand: its constraint, and its variable */
    bool written = s[1] == '=';
    char kind = s[1 + written];
    s = strchr(s, '(') + 1;
    const variable *x = named(v, s, strcspn(s, ")"));
    assert_true(x->size == (kind == 'r' ? 4 : 8) && (kind == 'r' || kind == 'l'));
    snprintf(name, sizeof name, "%%%d", i);
    reg *r = add(&m, name, (int)(8 * x->size));
    if (written) out = x;
    else if (x->size == 4) r->value = *(const u32 *)x->at;
    else r->value = *(const u64 *)x->at;
    r->set = !written;
  }
  run_code(&m, code);
  assert_non_null(out);
  const reg *r = find(&m, "%0");
  assert_true(r->set && out->size == 4);
  *(u32 *)out->at = (u32)r->value;
}

#define TN_FN static inline
#define RUN(text)                                                                                                      \
  run_asm(text, (const variable[]){{"x", (void *)&x, sizeof x}, {"y", (void *)&y, sizeof y},                           \
                                   {"is", (void *)&is, sizeof is}})
#define QUOTED(...) RUN(#__VA_ARGS__)
#define asm(...) QUOTED(__VA_ARGS__)
static i32 is; /* where there is no other */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include "ir/integers_cuda.inc"
#pragma GCC diagnostic pop
#undef asm

/* ---- against C ---- */

/* The ends of all dtypes, and what differs in one bit, or in the upper bits only */
static const u64 patterns[] = {0, 1, 2, 16, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000,
                               0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x100000000, 0x100000001,
                               0x1ffffffff, 0x7fffffff00000000, 0x7fffffffffffffff, 0x8000000000000000,
                               0x8000000000000001, 0xffffffff00000000, 0xffffffff7fffffff, 0xffffffff80000000,
                               0xfffffffffffffffe, 0xffffffffffffffff};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

#define CHECK(T)                                                                                                       \
  for (int i = 0; i < PATTERNS; i++) {                                                                                 \
    T a = (T)patterns[i];                                                                                              \
    if (tn_neg_##T(a) != (T)(0 - patterns[i])) fail_msg(#T ": -%llx", (unsigned long long)patterns[i]);                \
    for (int j = 0; j < PATTERNS; j++) {                                                                               \
      T b = (T)patterns[j];                                                                                            \
      if (tn_eq_##T(a, b) != (a == b) || tn_ne_##T(a, b) != (a != b))                                                  \
        fail_msg(#T ": %llx and %llx", (unsigned long long)patterns[i], (unsigned long long)patterns[j]);              \
    }                                                                                                                  \
  }

static void dtypes(void **state) {
  (void)state;
  CHECK(i8) CHECK(i16) CHECK(i32) CHECK(i64) CHECK(u8) CHECK(u16) CHECK(u32) CHECK(u64)
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(dtypes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
