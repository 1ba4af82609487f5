/* Would a wrong text be refused?  Kernels of a dozen programs are printed in C, CUDA and OpenCL.  As they are, each
 * must read back as its linear program; then one place of the text, drawn by a seed, is changed as a bug of the printer
 * would change it, and the reader must refuse it.  What it does not refuse is listed: those changes have to mean the
 * same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cuda/target.h"
#include "render/dialect.h"
#include "run/runtime.h"
#include "support/device.h"
#include "support/forms.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "verify/readback.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* ---- programs ---- */

static tn_tensor *input(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank) {
  tn_tensor *t = tn_contiguous(tn_zeros(c, dtype, shape, rank));
  if (tn_realize(&t, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return t;
}

static tn_tensor *chain(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(4, 700)), *y = input(c, TN_F32, DIMS(4, 700));
  return tn_where(tn_lt(x, y), tn_add_scalar(tn_neg(tn_div(x, y)), 0.5), tn_maximum(tn_exp(x), y));
}
static tn_tensor *integers(tn_ctx *c) {
  tn_tensor *x = input(c, TN_I16, DIMS(300)), *y = input(c, TN_I16, DIMS(300));
  return tn_where(tn_le(x, y), tn_add(tn_mul(x, y), tn_floordiv(x, y)), tn_bitwise_xor(tn_mod(x, y), tn_shl(y, x)));
}
static tn_tensor *shorts(tn_ctx *c) {
  tn_tensor *x = input(c, TN_BF16, DIMS(9, 70)), *y = input(c, TN_F16, DIMS(9, 70));
  return tn_cast(tn_mul(tn_add(tn_cast(x, TN_F16), y), tn_exp(y)), TN_F32);
}
static tn_tensor *views(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(60, 50)), *v = tn_pad(x, (tn_dim[]){2, 1, 0, 3}, 0);
  return tn_flip(tn_transpose(tn_slice(v, 0, 1, 59, 2), 0, 1), AXES(0));
}
static tn_tensor *indexed(tn_ctx *c) {
  tn_tensor *x = input(c, TN_F32, DIMS(60, 4)), *i = input(c, TN_I32, DIMS(70)), *u = input(c, TN_F32, DIMS(70, 4));
  return tn_add(tn_embedding(x, i), u);
}
static tn_tensor *counts(tn_ctx *c) {
  tn_tensor *x = input(c, TN_I32, DIMS(300));
  return tn_bincount(tn_mod(x, tn_full(c, TN_I32, DIMS(300), 110)), 100);
}
/* By threads in step */
static tn_tensor *ranks(tn_ctx *c) {
  tn_tensor *key = input(c, TN_U8, DIMS(512)), *at = tn_arange(c, TN_I32, 0, 512, 1);
  tn_tensor *equal = tn_eq(tn_unsqueeze(key, 1), tn_unsqueeze(key, 0));
  tn_tensor *upto = tn_le(tn_unsqueeze(at, 0), tn_unsqueeze(at, 1));
  return tn_sum(tn_cast(tn_logical_and(equal, upto), TN_I32), AXES(1), false);
}
/* In order, by groups that own places */
static tn_tensor *rows_added(tn_ctx *c) {
  tn_tensor *base = input(c, TN_F32, DIMS(40, 64)), *to = input(c, TN_I64, DIMS(30));
  return tn_index_add(base, 0, to, input(c, TN_F32, DIMS(30, 64)));
}
static tn_tensor *softmax(tn_ctx *c) { return tn_softmax(input(c, TN_F32, DIMS(50, 100)), -1); }
static tn_tensor *row_max(tn_ctx *c) { return tn_max(input(c, TN_F32, DIMS(50, 300)), AXES(1), false); }
static tn_tensor *norm(tn_ctx *c) {
  tn_tensor *x = input(c, TN_BF16, DIMS(40, 256)), *g = input(c, TN_F32, DIMS(256)), *b = input(c, TN_F32, DIMS(256));
  return tn_layer_norm(tn_cast(x, TN_F32), 1, g, b, 1e-5);
}
static tn_tensor *column_sums(tn_ctx *c) { return tn_sum(input(c, TN_F32, DIMS(3000, 12)), AXES(0), false); }
static tn_tensor *long_sum(tn_ctx *c) { return tn_sum(input(c, TN_F32, DIMS(2, 70000)), AXES(1), false); }
static tn_tensor *product(tn_ctx *c) {
  return tn_matmul(input(c, TN_F32, DIMS(20, 30)), input(c, TN_F32, DIMS(30, 17)));
}
/* 0.91 as a bf16 is an f16, too: whatever rounds to one of them leaves it. */
static tn_tensor *of_two_dtypes(tn_ctx *c) {
  tn_tensor *x = input(c, TN_BF16, DIMS(70)), *chosen = input(c, TN_BOOL, DIMS(70));
  return tn_cosh(tn_round(tn_where_scalar(chosen, tn_mul(x, x), -0.91)));
}
/* Of which no more bits are wanted than a bf16 has. */
static tn_tensor *short_functions(tn_ctx *c) {
  tn_tensor *x = input(c, TN_BF16, DIMS(7, 90)), *wide = tn_cast(x, TN_F32);
  return tn_mul(tn_cast(tn_mul(tn_tanh(wide), tn_exp(wide)), TN_BF16), x);
}

/* Of the one, four lanes have a block of random bits; of the other, each has its own. */
static tn_tensor *draws(tn_ctx *c) {
  tn_tensor *rows = tn_uniform(c, TN_F32, DIMS(8, 48), 0, 1), *columns = tn_uniform(c, TN_F32, DIMS(48, 8), 0, 1);
  return tn_add(rows, tn_transpose(columns, 0, 1));
}

static const struct program {
  const char *name;
  tn_tensor *(*make)(tn_ctx *c);
} programs[] = {{"chain", chain},
                {"integers", integers},
                {"shorts", shorts},
                {"views", views},
                {"indexed", indexed},
                {"counts", counts},
                {"ranks", ranks},
                {"softmax", softmax},
                {"row max", row_max},
                {"norm", norm},
                {"column sums", column_sums},
                {"long sum", long_sum},
                {"product", product},
                {"of two dtypes", of_two_dtypes},
                {"short functions", short_functions},
                {"draws", draws},
                {"rows added", rows_added}}; /* else each place asks all of so few */
enum { PROGRAMS = sizeof programs / sizeof *programs, KERNELS = 8, LANGUAGES = 3, STAGE_THREADS = 256 };

static const struct language {
  const char *device;
  const tn__dialect *dialect;
  tn__readback_language language;
} languages[LANGUAGES] = {{"ref:cpu", &tn__dialect_c, TN__READ_C},
                          {"ref:sm_90", &tn__dialect_cuda, TN__READ_CUDA},
                          {"ref:opencl", &tn__dialect_opencl, TN__READ_OPENCL}};

/* ---- changes ---- */

typedef struct text { /* one that grows from another */
  char s[1 << 16];
  size_t n;
} text;

static void put(text *t, const char *s, size_t n) {
  if (t->n + n + 1 > sizeof t->s) fail_msg("a text is too long");
  memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

/* from[at .. at + gone-1] becomes `fresh`. */
static bool replace(text *out, const char *from, size_t at, size_t gone, const char *fresh) {
  out->n = 0;
  put(out, from, at);
  put(out, fresh, strlen(fresh));
  put(out, from + at + gone, strlen(from + at + gone));
  return true;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t line_start(const char *s, size_t at) {
  while (at && s[at - 1] != '\n') at--;
  return at;
}
static size_t line_end(const char *s, size_t at) {
  while (s[at] && s[at] != '\n') at++;
  return at;
}

/* Each tries to change what is at s[at]; false: it is nothing of its kind. */
typedef bool change_fn(text *out, const char *s, size_t at);

static bool drop_line_with(text *out, const char *s, size_t at, const char *word) {
  return !strncmp(s + at, word, strlen(word)) && replace(out, s, at, line_end(s, at) - at, "");
}
static bool drop_barrier(text *out, const char *s, size_t at) {
  return drop_line_with(out, s, at, "__syncthreads();") || drop_line_with(out, s, at, "__syncwarp();") ||
         drop_line_with(out, s, at, "barrier(CLK");
}
static bool drop_break(text *out, const char *s, size_t at) {
  return at && s[at - 1] == ' ' && !strncmp(s + at, "if (", 4) && strstr(s + at, " break;") &&
         strstr(s + at, " break;") < s + line_end(s, at) && replace(out, s, at, line_end(s, at) - at, "");
}
static bool drop_gate(text *out, const char *s, size_t at) {
  if (strncmp(s + at, "if (", 4) || s[line_end(s, at) - 1] != ';') return false;
  size_t to = at + 3;
  for (int depth = 0; depth || to == at + 3; to++) depth += (s[to] == '(') - (s[to] == ')');
  return replace(out, s, at, to - at, "");
}
static bool drop_test(text *out, const char *s, size_t at) { /* of a block */
  if (strncmp(s + at, "if (", 4) || s[line_end(s, at) - 1] != '{') return false;
  return replace(out, s, at, line_end(s, at) - at, "{");
}
static bool drop_choice(text *out, const char *s, size_t at) {
  size_t from = at, to;
  if (strncmp(s + at, " ? ", 3) || !is_word(s[at - 1])) return false;
  while (is_word(s[from - 1])) from--;
  const char *colon = strstr(s + at, " : ");
  if (!colon) return false;
  to = (size_t)(colon - s);
  while (s[to] != ';') to++;
  text middle = {.n = 0};
  put(&middle, s + at + 3, (size_t)(colon - s) - at - 3);
  return replace(out, s, from, to - from, middle.s);
}
static bool swap_choice(text *out, const char *s, size_t at) {
  if (strncmp(s + at, " ? ", 3)) return false;
  const char *colon = strstr(s + at, " : "), *end = colon ? strpbrk(colon, ";)") : NULL;
  if (!colon || colon > s + line_end(s, at)) return false;
  text both = {.n = 0};
  put(&both, " ? ", 3);
  put(&both, colon + 3, (size_t)(end - colon) - 3);
  put(&both, " : ", 3);
  put(&both, s + at + 3, (size_t)(colon - s) - at - 3);
  return strncmp(s + at + 3, colon + 3, (size_t)(end - colon) - 3) &&
         replace(out, s, at, (size_t)(end - s) - at, both.s);
}
/* A sum that is stored in place of an addition that may go on at once */
static bool plain_addition(text *out, const char *s, size_t at) {
  const char *element = strstr(s + at, "(&"), *comma = element ? strstr(element, ", ") : NULL;
  if (strncmp(s + at, "tn_add_at_", 10)) return false;
  text sum = {.n = 0};
  for (int i = 0; i < 2; i++) {
    put(&sum, element + 2, (size_t)(comma - element) - 2);
    put(&sum, i ? " + " : " = ", 3);
  }
  put(&sum, comma + 2, strcspn(comma + 2, ")"));
  put(&sum, ";", 1);
  return replace(out, s, at, line_end(s, at) - at, sum.s);
}
/* Threads in step count without waiting for each other. */
static bool plain_count(text *out, const char *s, size_t at) {
  const char *place = strstr(s + at, "(&"), *comma = place ? strstr(place, ", ") : NULL;
  if (strncmp(s + at, "const u32 c", 11) || !comma) return false;
  text line = {.n = 0};
  for (int i = 0; i < 3; i++) {
    if (i == 2) put(&line, s + at, strcspn(s + at, "=") + 2);
    put(&line, place + 2, (size_t)(comma - place) - 2);
    put(&line, i == 0 ? " = " : i == 1 ? " + 1u; " : ";", i == 0 ? 3 : i == 1 ? 7 : 1);
  }
  return replace(out, s, at, line_end(s, at) - at, line.s);
}
/* A statement that begins with a name of that letter and a number. */
static bool drop_statement(text *out, const char *s, size_t at, char letter) {
  size_t from = line_start(s, at);
  return s[at] == letter && isdigit((unsigned char)s[at + 1]) && from + strspn(s + from, " ") == at &&
         replace(out, s, at, line_end(s, at) - at, "");
}
static bool drop_store(text *out, const char *s, size_t at) { return drop_statement(out, s, at, 'b'); }
static bool drop_update(text *out, const char *s, size_t at) { return drop_statement(out, s, at, 'a'); }

static bool exchange(text *out, const char *s, size_t at, const char *const (*pairs)[2], size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strncmp(s + at, pairs[i][0], strlen(pairs[i][0])))
      return replace(out, s, at, strlen(pairs[i][0]), pairs[i][1]);
  return false;
}
#define EXCHANGE(...)                                                                                                  \
  static const char *const pairs[][2] = {__VA_ARGS__};                                                                 \
  return exchange(out, s, at, pairs, sizeof pairs / sizeof *pairs)

/* Places of two threads in step seem one, as far as their numbers are compared. */
static bool fewer_bits(text *out, const char *s, size_t at) {
  EXCHANGE({"tn_count_in_step<8>", "tn_count_in_step<7>"});
}
/* Updates are wanted by some of the threads; these are fewer; one place is none of the group's; or places keep what
 * they have, in spite of what they are to begin with. */
static bool unlike_turns(text *out, const char *s, size_t at) {
  EXCHANGE({"return tn_turn<f32, i32>{", "return tn_turn<f32, i32>{t < 31 && "},
           {"512, 64, true>(", "512, 32, true>("}, {"_places<3", "_places<2"}, {", true>(", ", false>("});
}
/* What is fetched is another number, or one more. */
static bool unlike_rows(text *out, const char *s, size_t at) {
  EXCHANGE({"return tn_row<f32>{", "return tn_row<f32>{-"}, {"tn_row<f32>{", "tn_row<f32, f32>{0, "});
}
/* What is fetched says what is wanted, too, which would be right if it had been there when that was asked. */
static bool wanted_as_fetched(text *out, const char *s, size_t at) {
  static const char gives[] = "return tn_turn<f32, i32>{";
  unsigned number = 0;
  char with[64];
  if (strncmp(s + at, gives, sizeof gives - 1) != 0) return false;
  for (const char *p = strstr(s, ", f32 v"); p && p < s + at; p = strstr(p + 1, ", f32 v"))
    number = (unsigned)strtoul(p + strlen(", f32 v"), NULL, 10);
  if (!number) return false;
  snprintf(with, sizeof with, "%sv%u != 0 && ", gives, number);
  return replace(out, s, at, sizeof gives - 1, with);
}
/* Lanes of different blocks of random bits are said to share one. */
static bool wrong_block(text *out, const char *s, size_t at) {
  EXCHANGE({"tn_philox_u64x", "tn_philox_in_blocks_u64x"});
}
static bool wrong_operator(text *out, const char *s, size_t at) {
  EXCHANGE({" + ", " * "}, {" * ", " + "}, {" / ", " * "}, {" < ", " <= "}, {" <= ", " < "}, {" == ", " != "},
           {" != ", " == "}, {" & ", " | "}, {" ^ ", " & "}, {" % ", " / "});
}
static bool wrong_helper(text *out, const char *s, size_t at) {
  if (at && is_word(s[at - 1])) return false;
  EXCHANGE({"tn_exp_f32", "tn_exp2_f32"}, {"tn_max_f32", "tn_min_f32"}, {"tn_bf16_round", ""}, {"tn_f16_round", ""},
           {"tn_idiv_", "tn_mod_"}, {"tn_mod_", "tn_fmod_"}, {"tn_bf16_of", "tn_f16_of"}, {"tn_f16_of", "tn_bf16_of"},
           {"tn_f16_bits", "tn_bf16_bits"}, {"tn_fma_f32", "tn_max_f32"}, {"tn_sqrt_f32", "tn_abs_f32"},
           {"tn_shl_i16", "tn_shl_i32"}, {"tn_shl_", "tn_shr_"}, {"__shfl_xor_sync", "__shfl_sync"},
           {"tn_div_by", "tn_near_div_by"}, {"tn_exp_f32", "tn_near_exp"}, {"tn_bf16x16_cells", "tn_bf16x16_upper"},
           {"tn_bf16x16_held", "tn_f16x16_held"});
}
static bool wrong_type(text *out, const char *s, size_t at) {
  if (at && is_word(s[at - 1])) return false;
  EXCHANGE({"const f32 v", "const f64 v"}, {"const i16 v", "const u8 v"}, {"(u16)", "(u8)"}, {"(i16)", "(u16)"},
           {"(f32)", "(f64)"}, {"const bool v", "const i32 *v"}, {"i32 i", "i8 i"});
}
static bool wrong_bounds(text *out, const char *s, size_t at) {
  if (at && is_word(s[at - 1])) return false;
  EXCHANGE({"lo;", "lo + 1;"}, {"hi;", "hi - 1;"}, {"blockIdx.x", "(blockIdx.x + 1)"}, {"gridDim.x", "(gridDim.x + 1)"},
           {"get_group_id(0)", "(get_group_id(0) + 1)"}, {"get_num_groups(0)", "(get_num_groups(0) - 1)"},
           {"threadIdx.x", "(threadIdx.x ^ 1)"}, {"get_local_id(0)", "(get_local_id(0) ^ 1)"});
}
static bool wrong_step(text *out, const char *s, size_t at) {
  return isdigit((unsigned char)s[at - (at > 0)]) && !strncmp(s + at, "++)", 3) && replace(out, s, at, 2, " += 2");
}

/* A number, or a name that ends in one: `by` more. */
static bool other_number(text *out, const char *s, size_t at, int by) {
  char fresh[32];
  char *end;
  long v = strtol(s + at, &end, 10);
  if (v + by < 0) return false;
  snprintf(fresh, sizeof fresh, "%ld", v + by);
  return replace(out, s, at, (size_t)(end - s) - at, fresh);
}
static bool is_number(const char *s, size_t at) {
  return at && isdigit((unsigned char)s[at]) && !is_word(s[at - 1]) && s[at - 1] != '.' && s[at + 1] != 'x';
}
static bool one_more(text *out, const char *s, size_t at) { return is_number(s, at) && other_number(out, s, at, 1); }
static bool one_less(text *out, const char *s, size_t at) { return is_number(s, at) && other_number(out, s, at, -1); }
static bool wrong_float(text *out, const char *s, size_t at) {
  size_t p = at + strspn(s + at, "0123456789abcdefx.");
  if (strncmp(s + at, "0x", 2) || s[p] != 'p') return false;
  return replace(out, s, at, p - at, strncmp(s + at, "0x1p", 4) ? "0x1" : "0x1.000002");
}
/* Of a name in an expression: its neighbour, where that one is declared before it, too. */
static bool is_use(const char *s, size_t at, char letter) {
  return at && s[at] == letter && isdigit((unsigned char)s[at + 1]) && !is_word(s[at - 1]) &&
         !strstr(s + line_start(s, at), "null") && strchr(s + line_start(s, at), '=') < s + at;
}
static bool other_value(text *out, const char *s, size_t at) {
  return is_use(s, at, 'v') && other_number(out, s, at + 1, -1);
}
static bool other_buffer(text *out, const char *s, size_t at) {
  return is_use(s, at, 'b') && s[at + 2] == '[' && other_number(out, s, at + 1, s[at + 1] == '1' ? 1 : -1);
}
static bool no_factor(text *out, const char *s, size_t at) {
  if (strncmp(s + at, " * v", 4)) return false;
  return replace(out, s, at, 3 + strspn(s + at + 3, "v0123456789"), "");
}
static bool no_summand(text *out, const char *s, size_t at) {
  if (strncmp(s + at, " + v", 4)) return false;
  return replace(out, s, at, 3 + strspn(s + at + 3, "v0123456789"), "");
}
static bool wrong_start(text *out, const char *s, size_t at) { /* of an accumulator */
  if (strncmp(s + at, "f32 a", 5) || (at && is_word(s[at - 1]))) return false;
  const char *equal = strstr(s + at, " = "), *end = strchr(s + at, ';');
  return equal && equal < end && replace(out, s, (size_t)(equal - s), (size_t)(end - equal), " = 0x1.4p+0f");
}
static bool wrong_indent(text *out, const char *s, size_t at) {
  return s[at] != ' ' && s[at - 1] == ' ' && s[line_start(s, at)] == ' ' &&
         strspn(s + line_start(s, at), " ") == at - line_start(s, at) && replace(out, s, at, 0, "  ");
}
static bool wrong_threads(text *out, const char *s, size_t at) {
  EXCHANGE({"__launch_bounds__(", "__launch_bounds__(1"}, {"reqd_work_group_size(", "reqd_work_group_size(1"});
}

static const struct change {
  const char *name;
  change_fn *make;
  int most; /* places for each language */
} changes[] = {
    {"a barrier is lost", drop_barrier, 12},
    {"a way out of a loop is lost", drop_break, 6},
    {"the test of a statement is lost", drop_gate, 12},
    {"the test of a block is lost", drop_test, 10},
    {"a choice is lost", drop_choice, 12},
    {"a choice is turned", swap_choice, 10},
    {"a store is lost", drop_store, 10},
    {"others add there at once, and it stores", plain_addition, 4},
    {"threads in step count and do not wait", plain_count, 2},
    {"numbers of places are told by fewer bits", fewer_bits, 2},
    {"lanes share a block that do not", wrong_block, 2},
    {"updates that not all threads take alike", unlike_turns, 2},
    {"another row is fetched", unlike_rows, 2},
    {"updates that are wanted for what is fetched", wanted_as_fetched, 1},
    {"a step of an accumulator is lost", drop_update, 8},
    {"another operator", wrong_operator, 40},
    {"another helper", wrong_helper, 30},
    {"another type", wrong_type, 20},
    {"other bounds of a slice or a grid", wrong_bounds, 12},
    {"every second turn", wrong_step, 6},
    {"a number that is one more", one_more, 30},
    {"a number that is one less", one_less, 30},
    {"another constant", wrong_float, 12},
    {"another value", other_value, 30},
    {"another buffer", other_buffer, 10},
    {"a factor is lost", no_factor, 12},
    {"a summand is lost", no_summand, 12},
    {"an accumulator starts elsewhere", wrong_start, 8},
    {"another number of threads", wrong_threads, 4},
    {"a line stands elsewhere", wrong_indent, 6},
};
enum { CHANGES = sizeof changes / sizeof *changes };

/* ---- kernels and their texts ---- */

typedef struct printed {
  const char *program;
  tn__readback_subject subject;
  char *text;
} printed;

typedef struct shelf { /* all of one language; in scratch */
  tn_ctx *c;
  const struct language *l;
  printed kernel[PROGRAMS * KERNELS];
  int n;
  tn_tensor *out;
  const char *program; /* that it is the value of */
} shelf;

static char *print_kernel(tn_ctx *c, const tn__dialect *d, const tn__kernel *k) {
  static const char *const nothing[] = {NULL};
  tn__dialect bare = *d;
  tn__kernel copy = *k, *list = &copy;
  tn__sb s;
  bare.head = nothing;
  copy.note = NULL;
  tn__sb_init(&s, &c->scratch);
  tn__render_unit(c, &s, &bare, &list, 1);
  return tn__arena_strdup(&c->scratch, tn__sb_str(&s));
}

/* The last two kernels, launched as one, where they may be: abreast, or as stages of one block */
static void put_joint(shelf *h, const tn__target *target, int last, bool stages) {
  tn_ctx *c = h->c;
  tn__kernel *k[2];
  uint32_t *slot[2], n = 0;
  if (!target->joins || last < 2 || h->n == PROGRAMS * KERNELS) return;
  printed *x = &h->kernel[h->n], *y[2] = {&h->kernel[last - 2], &h->kernel[last - 1]};
  for (int i = 0; i < 2; i++) k[i] = tn__kernel_copy(&c->scratch, y[i]->subject.kernel);
  if (!stages && !tn__fit_abreast(k, 2, target)) return;
  for (int i = 0; i < 2 && stages; i++)
    if (isinf(tn__stages_time(&c->scratch, k[i], target, STAGE_THREADS))) return;
  if (stages && !tn__fit_stages(k, 2, target)) return;
  int64_t *size = tn__alloc(c, (k[0]->nbuf + k[1]->nbuf + 1) * sizeof *size);
  for (int i = 0; i < 2; i++) {
    slot[i] = tn__alloc(c, (k[i]->nbuf + 1) * sizeof **slot);
    for (uint32_t b = 0; b < k[i]->nbuf; b++, n++) slot[i][b] = n, size[n] = y[i]->subject.size[b];
  }
  tn__kernel *both = stages ? tn__stages(c, &c->scratch, k, 2, slot, STAGE_THREADS, (uint32_t)h->n)
                            : tn__abreast(c, &c->scratch, k, 2, slot, (uint32_t)h->n);
  *x = (printed){.program = stages ? "stages" : "abreast",
                 .subject = {.kernel = both, .language = h->l->language, .size = size}};
  x->text = print_kernel(c, h->l->dialect, both);
  h->n++;
}

/* Of groups that own places?  Lowered in mode strict: else each place asks all of so few updates. */
static bool is_of_owners(const char *program) { return !strcmp(program, "rows added"); }

static void fill_shelf(shelf *h) {
  tn_ctx *c = h->c;
  tn__nodes in = {0};
  tn_node *root = h->out->node;
  pipeline p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, &root, 1, &in)};
  pipeline_simplify(&p);
  pipeline_scatter(&p);
  pipeline_schedule(&p);
  pipeline_lower(&p);
  pipeline_place(&p);
  for (uint32_t i = 0; i < p.subject.nitem && h->n < PROGRAMS * KERNELS; i++) {
    const tn__verify_item *it = &p.subject.item[i];
    int64_t *size = tn__alloc(c, (it->nbuf + 1) * sizeof *size);
    for (uint32_t b = 0; b < it->nbuf; b++)
      size[b] = (int64_t)(p.subject.block[it->block[b]].bytes / tn__size_of(it->kernel->buf_dtype[b]));
    printed *x = &h->kernel[h->n++];
    *x = (printed){.program = h->program, .subject = {.kernel = it->kernel, .language = h->l->language, .size = size}};
    x->text = print_kernel(c, h->l->dialect, p.kernel[i]);
  }
  int last = h->n;
  if (is_of_owners(h->program)) return; /* such kernels are no part of others */
  for (int stages = 0; stages < 2; stages++) put_joint(h, &p.dev->target, last, stages);
}

/* ---- the count ---- */

typedef struct score {
  int made, refused, same; /* same: not refused, and nothing else in any turn, for any of many inputs */
} score;

static tn__readback_result read_text(shelf *h, const printed *k, const char *s, bool thorough, tn__sb *why) {
  tn__readback_subject subject = k->subject;
  subject.text = s;
  subject.thorough = thorough;
  tn__sb_init(why, &h->c->scratch);
  return tn__readback(h->c, &subject, why);
}

/* Every place that a change fits, over all kernels; of them `most`, drawn, or a quarter of that in a sampled run. */
static score try_change(shelf *h, const struct change *x, FILE *survivors) {
  static text t;
  uint32_t place[2][4000], n = 0;
  int most = is_sampled() ? (x->most + 3) / 4 : x->most;
  score all = {0};
  for (int k = 0; k < h->n; k++)
    for (uint32_t at = 1; h->kernel[k].text[at] && n < 4000; at++)
      if (x->make(&t, h->kernel[k].text, at)) place[0][n] = (uint32_t)k, place[1][n++] = at;
  for (int i = 0; i < most && n; i++) {
    uint32_t at = (uint32_t)(tn__hash_mix((uint64_t)(x - changes) * 100 + h->l->language, (uint64_t)i) % n);
    const printed *k = &h->kernel[place[0][at]];
    tn__sb why;
    x->make(&t, k->text, place[1][at]);
    bool refused = read_text(h, k, t.s, false, &why) == TN__READ_DIFFERS;
    bool same = !refused && read_text(h, k, t.s, true, &why) == TN__READ_EQUAL;
    all.made++;
    all.refused += refused, all.same += same;
    if (!refused) {
      size_t from = line_start(k->text, place[1][at]), to = line_end(k->text, place[1][at]), end = line_end(t.s, from);
      fprintf(survivors, "%s, %s, %s: %.*s  ->  %.*s\n", same ? "the same" : "MISSED", h->l->dialect->name,
              x->name, (int)(to - from), k->text + from, (int)(end - from), t.s + from);
    }
    place[0][at] = place[0][n - 1], place[1][at] = place[1][n - 1];
    n--;
  }
  return all;
}

static void try_language(tn_ctx *c, void *arg) {
  shelf *h = arg;
  score all = {0};
  (void)c;
  for (int k = 0; k < h->n; k++) {
    tn__sb why;
    tn__readback_result result = read_text(h, &h->kernel[k], h->kernel[k].text, false, &why);
    if (result == TN__READ_DIFFERS || result == TN__READ_TOO_LONG)
      fail_msg("%s, as it is: %s\n%s", h->l->dialect->name, tn__sb_str(&why), h->kernel[k].text);
  }
  for (int i = 0; i < CHANGES; i++) {
    score s = try_change(h, &changes[i], stderr);
    if (s.made) printf("  %-36s %3d of %3d refused, %d the same\n", changes[i].name, s.refused, s.made, s.same);
    all.made += s.made, all.refused += s.refused, all.same += s.same;
  }
  printf("%s: %d kernels, %d of %d changes refused, %d are no changes\n", h->l->dialect->name, h->n, all.refused,
         all.made, all.same);
  assert_true(all.refused >= (all.made - all.same) * 0.97);
  if (!is_sampled()) assert_true(all.same <= all.made * 0.15);
}

/* ---- rows of the printer's tables ---- */

typedef struct row { /* as it is altered */
  const char *name, *text; /* text: NULL: values stay as they are */
  int kind;
} row;

/* Rows, lost or altered, by which a kernel's text means what it meant.  Each is read thoroughly, too, and must be equal
 * then. */
static const struct {
  const char *language, *row;
  int kind;
  const char *program;
} no_changes[] = {
    {"cuda", "load", TN_BOOL, "of two dtypes"}, /* an integer that becomes a bool is compared with 0 */
    {"cuda", "load", TN_BOOL, "abreast"}, /* that one, and another */
    {"cuda", "load", TN_BOOL, "stages"},
    {"opencl", "load", TN_BOOL, "of two dtypes"},
    {"opencl", "min", SP_INDEX, "views"},
    {"cuda", "min", SP_INDEX, "views"}, /* what threads beyond the end load, for nobody */
    {"c", "min", SP_INDEX, "counts"},   /* where it would be added, and is not */
};
enum { NO_CHANGES = sizeof no_changes / sizeof *no_changes };

static bool is_no_change(shelf *h, const printed *k, const char *s, const row *r) {
  tn__sb why;
  for (int i = 0; i < NO_CHANGES; i++)
    if (!strcmp(no_changes[i].language, h->l->dialect->name) && !strcmp(no_changes[i].row, r->name) &&
        no_changes[i].kind == r->kind && !strcmp(no_changes[i].program, k->program))
      return read_text(h, k, s, true, &why) == TN__READ_EQUAL;
  return false;
}

/* All kernels that another table prints otherwise must be refused. */
static score try_table(shelf *h, const tn__dialect *altered, const row *r) {
  score all = {0};
  for (int i = 0; i < h->n; i++) {
    const printed *k = &h->kernel[i];
    tn__sb why;
    const char *s = print_kernel(h->c, altered, k->subject.kernel);
    if (!strcmp(s, k->text)) continue;
    all.made++;
    if (read_text(h, k, s, false, &why) == TN__READ_DIFFERS) all.refused++;
    else if (is_no_change(h, k, s, r)) all.same++;
    else
      fprintf(stderr, "%s, %s, row %s %d as %s: is not refused\n", h->l->dialect->name, k->program, r->name, r->kind,
              r->text ? r->text : "nothing");
  }
  return all;
}

/* Ops that are but their first operand; values that are loaded, stored or rounded as they are, or in another way. */
static void try_rows(shelf *h) {
  static const row cells[] = {
      {"load", "$0 == 0", TN_BOOL},      {"load", "tn_bf16_of($0)", TN_F16},      {"load", "tn_f16_of($0)", TN_BF16},
      {"store", "$0 == 0", TN_BOOL},     {"store", "tn_bf16_bits($0)", TN_F16},   {"store", "tn_f16_bits($0)", TN_BF16},
      {"round", "tn_bf16_round($0)", TN_F16}, {"round", "tn_f16_round($0)", TN_BF16}};
  score all = {0};
  int rows = 0;
  for (int op = 0; op < OP_COUNT; op++)
    for (int column = 0; column < SP_COUNT; column++) {
      tn__dialect d = *h->l->dialect;
      if (!d.op[op][column]) continue;
      d.op[op][column] = "$0";
      score s = try_table(h, &d, &(row){tn__ops[op].text, "$0", column});
      all.made += s.made, all.refused += s.refused, all.same += s.same, rows += s.made > 0;
    }
  for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
    for (int lost = 0; lost < 2; lost++) {
      row r = {cells[i].name, lost ? NULL : cells[i].text, cells[i].kind};
      tn__dialect d = *h->l->dialect;
      (*r.name == 'l' ? d.load : *r.name == 's' ? d.store : d.round)[r.kind] = r.text;
      score s = try_table(h, &d, &r);
      all.made += s.made, all.refused += s.refused, all.same += s.same, rows += s.made > 0;
    }
  printf("%s: %d rows of its table altered, %d of %d kernels refused, %d mean the same\n", h->l->dialect->name, rows,
         all.refused, all.made, all.same);
  assert_true(rows >= 10);
  assert_int_equal(all.refused + all.same, all.made);
  for (int i = 0; i < NO_CHANGES; i++) all.same -= !strcmp(no_changes[i].language, h->l->dialect->name);
  assert_int_equal(all.same, 0); /* none is listed in vain */
}

/* In mode strict no function is a shorter one. */
static void try_strict(shelf *h) {
  tn_mode mode = h->c->mode;
  int tried = 0;
  for (int k = 0; k < h->n; k++) {
    if (!strstr(h->kernel[k].text, "tn_near_")) continue;
    tn__sb why;
    h->c->mode = TN_MODE_STRICT;
    tn__readback_result result = read_text(h, &h->kernel[k], h->kernel[k].text, false, &why);
    h->c->mode = mode;
    if (result != TN__READ_DIFFERS || !strstr(tn__sb_str(&why), "in mode strict"))
      fail_msg("%s: %s", h->kernel[k].program, tn__sb_str(&why));
    tried++;
  }
  if (h->l->dialect->approximate && !tried) fail_msg("no kernel of %s has a short function", h->l->dialect->name);
}

static void run_language(tn_ctx *c, void *arg) {
  shelf *h = arg;
  (void)c;
  fill_shelf(h);
}

/* All in one call, whose scratch lives to its end. */
typedef struct whole {
  const struct language *l;
  tn_tensor *out[PROGRAMS];
} whole;

/* The last one: elsewhere it is many kernels, of the kinds of others */
static int programs_of(const struct language *l) { return PROGRAMS - (l->language != TN__READ_CUDA); }

static void run_all(tn_ctx *c, void *arg) {
  whole *w = arg;
  shelf *h = tn__arena_zalloc(&c->scratch, sizeof *h);
  h->c = c, h->l = w->l;
  for (int i = 0; i < programs_of(w->l); i++) {
    tn_mode mode = c->mode;
    h->out = w->out[i], h->program = programs[i].name;
    if (is_of_owners(h->program)) c->mode = TN_MODE_STRICT;
    run_language(c, h);
    c->mode = mode;
  }
  try_strict(h);
  try_rows(h);
  try_language(c, h);
}

static void seeded_changes(void **state) {
  (void)state;
  for (int l = 0; l < LANGUAGES; l++) {
    whole w = {.l = &languages[l]};
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = languages[l].device, .quiet = 1});
    assert_non_null(c);
    for (int i = 0; i < programs_of(w.l); i++) {
      w.out[i] = programs[i].make(c);
      if (!w.out[i]) fail_msg("%s: %s", programs[i].name, tn_last_error(c)->text);
    }
    if (!tn__ctx_run(c, "test", run_all, &w)) fail_msg("%s", tn_last_error(c)->text);
    tn_ctx_close(c);
  }
}

static void numbers_of_two_dtypes(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn_tensor *y = of_two_dtypes(c);
  if (tn_realize(&y, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(seeded_changes),
                                     cmocka_unit_test(numbers_of_two_dtypes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
