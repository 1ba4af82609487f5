/* What threads share out: few long rows, blocks of which are reduced level by level; stores that have no loop in
 * common; short rows that are one loop; sums of equal terms. All numbers are small and whole, so that sums are exact:
 * to the bit what plain loops give, whatever the sizes and the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/host_numbers.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RESULTS = 4 };

typedef struct program {
  const char *name;
  int (*make)(tn_tensor *x, tn_tensor **out); /* how many it gives */
  int dtype, rank;
  tn_dim shape[4];
  const char *step[2]; /* words of the kernels' notes, */
  const char *none;    /* and one that none of them has; NULL: any may be */
} program;

/* ---- rows ---- */

/* Elements of a row whose largest is taken off, by the sum of these: two levels, and what is made of both */
static tn_tensor *centred(tn_tensor *x) {
  int last[] = {-1};
  tn_tensor *d = tn_sub(x, tn_max(x, last, 1, true));
  return tn_mul(d, tn_sum(d, last, 1, true));
}
static int elements(tn_tensor *x, tn_tensor **out) { return out[0] = centred(x), 1; }
/* ... beside the row's own numbers, and one of all rows */
static int beside(tn_tensor *x, tn_tensor **out) {
  out[0] = centred(x);
  out[1] = tn_max(x, (int[]){-1}, 1, false);
  out[2] = tn_sum(x, NULL, 0, false);
  return 3;
}
/* The sum of squared differences from the mean, and nothing of each element */
static int moments(tn_tensor *x, tn_tensor **out) {
  int last[] = {-1};
  tn_tensor *d = tn_sub(x, tn_max(x, last, 1, true));
  out[0] = tn_sum(tn_mul(d, d), last, 1, false);
  return 1;
}
/* One row has no number in it */
static int with_nan(tn_tensor *x, tn_tensor **out) {
  tn_tensor *row = tn_slice(x, 1, 7, 8, 1), *odd = tn_where_scalar(tn_ge_scalar(row, 1), row, NAN);
  return out[0] = centred(tn_add(x, tn_sub(odd, odd))), 1;
}
/* The sum of what columns are reduced to: the work is inside of what is summed up */
static int of_columns(tn_tensor *x, tn_tensor **out) {
  return out[0] = tn_sum(tn_max(x, (int[]){0}, 1, false), NULL, 0, false), 1;
}
/* Over a short axis and a long one, for each of the one between */
static int apart(tn_tensor *x, tn_tensor **out) { return out[0] = tn_sum(x, (int[]){0, 2}, 2, false), 1; }
/* ... and the elements that are made of it, by channels */
static int by_channel(tn_tensor *x, tn_tensor **out) {
  tn_tensor *sum = tn_sum(x, (int[]){0, 2}, 2, true);
  out[0] = tn_mul(x, sum);
  out[1] = tn_sum(tn_mul(x, x), (int[]){0, 2}, 2, false);
  return 2;
}
/* The largest of all, and for each row the sum of what is less than it */
static int all_and_each(tn_tensor *x, tn_tensor **out) {
  out[0] = tn_max(x, NULL, 0, false);
  out[1] = tn_sum(tn_sub(x, out[0]), (int[]){1}, 1, false);
  return 2;
}

/* ---- elements behind columns ---- */

/* What is dear of each column's sum, once for the column; few columns' elements by blocks */
static tn_tensor *of_column(tn_tensor *x) {
  tn_tensor *sum = tn_sum(tn_sub(x, tn_max(x, (int[]){0}, 1, true)), (int[]){0}, 1, true);
  return tn_sqrt(tn_abs(tn_add_scalar(sum, 3)));
}
static int behind(tn_tensor *x, tn_tensor **out) {
  tn_tensor *each = tn_sqrt(tn_abs(tn_sub(tn_mul(x, x), tn_sqrt(tn_abs(x)))));
  return out[0] = tn_mul(tn_sqrt(tn_add(each, tn_sqrt(each))), of_column(x)), 1;
}
/* ... alone, and beside the columns' own numbers, which are no elements */
static int behind_alone(tn_tensor *x, tn_tensor **out) {
  return out[0] = tn_expand(of_column(x), (tn_dim[]){tn_size(x, 0), tn_size(x, 1)}, 2), 1;
}
static int behind_beside(tn_tensor *x, tn_tensor **out) {
  out[0] = tn_sub(x, of_column(x));
  out[1] = tn_sum(x, (int[]){0}, 1, false);
  return 2;
}
/* Two levels of columns, and a gradient of them: one kernel, each of whose columns is summed up in the order of rows */
static int behind_loss(tn_tensor *x, tn_tensor **out) {
  tn_tensor *dy = tn_contiguous(tn_flip(x, (int[]){0}, 1));
  out[0] = tn_log_softmax(x, 0);
  assert_int_equal(tn_vjp(out[0], dy, 1, &x, &out[1]), TN_OK);
  return 2;
}

/* ---- rows as one loop ---- */

/* Functions of each element, times what is the same along each row */
static tn_tensor *dear(tn_tensor *x) { return tn_sqrt(tn_abs(tn_mul(tn_add_scalar(x, 3), tn_neg(x)))); }
static int masked(tn_tensor *x, tn_tensor **out) {
  tn_tensor *mask = tn_contiguous(tn_slice(tn_flip(x, (int[]){0}, 1), -1, 0, 1, 1));
  return out[0] = tn_mul(dear(dear(dear(x))), mask), 1;
}
static int joined(tn_tensor *x, tn_tensor **out) {
  tn_tensor *part[] = {tn_slice(x, 1, 0, 61, 1), tn_contiguous(tn_slice(x, 1, 5, 44, 1)),
                       tn_contiguous(tn_slice(x, 1, 1, 33, 1))};
  return out[0] = tn_neg(tn_concatenate(part, 3, 1)), 1;
}
/* The element of each column that a label names, all of them summed up */
static int picked(tn_tensor *x, tn_tensor **out) {
  tn_dim n = tn_size(x, 1);
  tn_tensor *label = tn_mod_scalar(tn_add_scalar(tn_max(x, (int[]){1}, 1, true), 7), (double)n);
  tn_tensor *each = tn_reshape(tn_arange(tn_ctx_of(x), TN_F32, 0, (double)n, 1), (tn_dim[]){n, 1, 1}, 3);
  assert_int_equal(tn_realize(&label, 1), TN_OK);
  tn_tensor *one = tn_sum(tn_where_scalar(tn_eq(each, label), x, 0), (int[]){1}, 1, false);
  return out[0] = tn_sum(one, NULL, 0, false), 1;
}
/* Rows of some channels, each with a number of its own */
static int weighted(tn_tensor *x, tn_tensor **out) {
  tn_dim rows = tn_size(x, 0), n = tn_size(x, 1) * tn_size(x, 2);
  tn_tensor *first = tn_contiguous(tn_slice(tn_slice(x, 0, 0, 1, 1), 2, 0, 1, 1));
  tn_tensor *each = tn_expand(first, (tn_dim[]){1, tn_size(x, 1), tn_size(x, 2)}, 3);
  tn_tensor *weights = tn_reshape(each, (tn_dim[]){1, n}, 2);
  return out[0] = tn_sum(tn_mul(tn_reshape(x, (tn_dim[]){rows, n}, 2), weights), (int[]){1}, 1, false), 1;
}
static int filtered(tn_tensor *x, tn_tensor **out) {
  tn_tensor *w = tn_contiguous(tn_slice(tn_slice(x, 0, 0, 2, 1), 3, 0, 7, 1));
  return out[0] = tn_conv2d(x, w, NULL, &(tn_conv2d_options){.stride = {1, 2}, .padding = {0, 3}}), 1;
}

/* The gradient of a few elements in steps: nearly all of it is zero, and what is not lies along no loop. */
static int stepped(tn_tensor *x, tn_tensor **out) {
  tn_tensor *y = tn_slice(tn_slice(tn_slice(x, 1, 1, 2, 1), 2, 46, 51, 3), 0, 1, 6, 2), *dy = tn_mul(y, y);
  return assert_int_equal(tn_vjp(y, tn_contiguous(dy), 1, &x, out), TN_OK), 1;
}

/* ---- terms that are the same along a loop ---- */

static tn_tensor *repeated(tn_tensor *x, tn_dim times) {
  return tn_expand(tn_reshape(x, (tn_dim[]){tn_size(x, 0), tn_size(x, 1), 1}, 3),
                   (tn_dim[]){tn_size(x, 0), tn_size(x, 1), times}, 3);
}
/* Sums along them, and along another axis too; the largest */
static int alike(tn_tensor *x, tn_tensor **out) {
  tn_tensor *many = repeated(x, 5);
  out[0] = tn_sum(many, (int[]){2}, 1, false);
  out[1] = tn_sum(tn_mul(many, many), (int[]){1, 2}, 2, false);
  out[2] = tn_max(tn_neg(many), (int[]){2}, 1, false);
  return 3;
}
/* All of them, stored beside their sum: along rows and along columns */
static int alike_stored(tn_tensor *x, tn_tensor **out) {
  out[0] = repeated(x, 5);
  out[1] = tn_sum(out[0], NULL, 0, false);
  out[2] = tn_expand(tn_reshape(x, (tn_dim[]){1, tn_size(x, 0), tn_size(x, 1)}, 3),
                     (tn_dim[]){tn_size(x, 1), tn_size(x, 0), tn_size(x, 1)}, 3);
  out[3] = tn_max(out[2], NULL, 0, false);
  return 4;
}
/* More of them than a narrow float can say */
static int alike_many(tn_tensor *x, tn_tensor **out) {
  tn_tensor *odd = tn_where_scalar(tn_gt_scalar(x, 1), x, NAN); /* and some that are no numbers */
  out[0] = tn_sum(repeated(tn_mul_scalar(x, 0), 70000), (int[]){2}, 1, false);
  out[1] = tn_max(repeated(odd, 3), (int[]){2}, 1, false);
  return 2;
}
/* All of a sum's terms are one, and so are those of what is taken off it */
static int deviations(tn_tensor *x, tn_tensor **out) {
  tn_tensor *many = repeated(x, 8), *mean = tn_mean(many, (int[]){2}, 1, true), *d = tn_sub(many, mean);
  return out[0] = tn_sum(tn_mul(d, d), (int[]){2}, 1, false), 1;
}
/* Sums of terms that are doubled, negated, both; zeros keep their sign */
static int doubled(tn_tensor *x, tn_tensor **out) {
  tn_tensor *y = tn_mul(x, tn_flip(x, (int[]){1}, 1)), *none = tn_mul_scalar(x, 0), *twice = tn_add(y, y);
  out[0] = tn_sum(twice, (int[]){1}, 1, false);
  out[1] = tn_sum(tn_neg(twice), (int[]){0}, 1, false);
  out[2] = tn_sum(tn_neg(tn_mul(none, none)), (int[]){1}, 1, false);
  return 3;
}
static int running(tn_tensor *x, tn_tensor **out) { return out[0] = tn_cumsum(repeated(x, 70), 2), 1; }

/* ---- what is loaded again and again, and lies far apart ---- */

/* Sums down long columns for each of many rows: strips of them are more than a thread's cache holds */
static int apart_from(tn_tensor *x, tn_dim rows, tn_tensor **out) {
  tn_tensor *row = tn_contiguous(tn_slice(x, 0, 3, 3 + rows, 1));
  tn_tensor *far = tn_sub(tn_unsqueeze(row, 1), tn_unsqueeze(x, 0));
  return out[0] = tn_sum(tn_mul(far, tn_abs(far)), (int[]){1}, 1, false), 1;
}
static int many_rows(tn_tensor *x, tn_tensor **out) { return apart_from(x, 66, out); }
static int few_rows(tn_tensor *x, tn_tensor **out) { return apart_from(x, 16, out); }
/* Outer loops go through more than the nearest cache holds of the other operand, whose rows have the lanes */
static int all_pairs(tn_tensor *x, tn_tensor **out) {
  tn_tensor *row = tn_contiguous(tn_slice(x, 0, 3, 22, 1));
  tn_tensor *far = tn_sub(tn_unsqueeze(row, 1), tn_unsqueeze(x, 0));
  return out[0] = tn_sum(tn_mul(far, far), (int[]){2}, 1, false), 1;
}
/* So, summed up over all rows instead of their elements: columns that are gone down again for each of the others */
static int pairs_of_columns(tn_tensor *x, tn_tensor **out) {
  tn_tensor *row = tn_contiguous(tn_slice(x, 0, 3, 22, 1));
  tn_tensor *far = tn_sub(tn_unsqueeze(row, 1), tn_unsqueeze(x, 0));
  return out[0] = tn_sum(tn_mul(far, far), (int[]){1}, 1, false), 1;
}
/* Rows that are looked up, some of which there are not */
static int looked_up(tn_tensor *x, tn_tensor **out) {
  tn_tensor *column = tn_reshape(tn_slice(x, 1, 1, 2, 1), (tn_dim[]){tn_size(x, 0)}, 1);
  return out[0] = tn_take(x, tn_cast(column, TN_I64), 0), 1;
}
static int looked_up_wider(tn_tensor *x, tn_tensor **out) {
  tn_tensor *rows;
  looked_up(x, &rows);
  return out[0] = tn_cast(rows, TN_F32), 1;
}
/* Long parts, one of them across, each of which is stored by itself */
static int long_parts(tn_tensor *x, tn_tensor **out) {
  tn_tensor *across = tn_transpose(tn_contiguous(tn_neg(tn_transpose(x, 0, 1))), 0, 1);
  tn_tensor *part[] = {tn_add_scalar(x, 1), across, tn_contiguous(tn_flip(x, (int[]){0}, 1))};
  return out[0] = tn_neg(tn_concatenate(part, 3, 0)), 1;
}
/* Elements each of which takes long: few of them are enough for several threads */
static int dear_elements(tn_tensor *x, tn_tensor **out) {
  for (int i = 0; i < 30; i++) x = tn_sin(tn_add_scalar(x, i));
  return out[0] = x, 1;
}
static int four_sines(tn_tensor *x, tn_tensor **out) {
  for (int i = 0; i < 4; i++) x = tn_sin(tn_add_scalar(x, i));
  return out[0] = x, 1;
}
/* What is dear is the same for all of them. */
static int by_a_number(tn_tensor *x, tn_tensor **out) {
  tn_tensor *one;
  dear_elements(tn_slice(x, 0, 0, 1, 1), &one);
  return out[0] = tn_mul(x, one), 1;
}
/* Two loops, none of which is long */
static int by_columns(tn_tensor *x, tn_tensor **out) {
  tn_tensor *column = tn_slice(x, 1, 0, 1, 1), *row = tn_slice(x, 0, 0, 1, 1);
  return dear_elements(tn_add(column, row), out);
}
static int cheap_elements(tn_tensor *x, tn_tensor **out) { return out[0] = tn_add_scalar(x, 3), 1; }

/* Lines of what has longer ones, as one loop: lanes go along each line */
static int lines(tn_tensor *x, tn_tensor **out) {
  tn_tensor *part = tn_slice(x, 1, 1, tn_size(x, 1) - 2, 1);
  return out[0] = tn_neg(tn_reshape(part, (tn_dim[]){tn_size(part, 0) * tn_size(part, 1)}, 1)), 1;
}
static int largest(tn_tensor *x, tn_tensor **out) {
  out[0] = tn_max(x, NULL, 0, false);
  out[1] = tn_min(x, (int[]){1}, 1, false);
  return 2;
}

/* Of the last axis all but three: [rows, columns, terms] by channel; and twice the sums, behind deviations from them */
static int parts_of_rows(tn_tensor *x, tn_tensor **out) {
  tn_tensor *part = tn_slice(x, 2, 3, tn_size(x, 2), 1), *sum = tn_sum(part, (int[]){0, 2}, 2, true);
  out[0] = sum;
  out[1] = tn_sum(tn_abs(tn_sub(part, sum)), (int[]){0, 2}, 2, false);
  return 2;
}

static const program programs[] = {
    {"one row", elements, TN_F32, 2, {1, 90001}, {"split(", NULL}, NULL},
    {"one row of whole blocks", elements, TN_F32, 2, {1, 131072}, {"split(", NULL}, NULL},
    {"three rows", elements, TN_F32, 2, {3, 30011}, {"split(", "blocks("}, NULL},
    {"columns, summed up", of_columns, TN_F32, 2, {601, 307}, {"split(", NULL}, NULL},
    {"few columns, summed up", of_columns, TN_F32, 2, {60001, 3}, {NULL, NULL}, "blocks("},
    {"rows enough", elements, TN_F32, 2, {16, 9001}, {NULL, NULL}, "split("},
    {"as many, and one more", elements, TN_F32, 2, {17, 9001}, {NULL, NULL}, "split("},
    {"a short row", elements, TN_F32, 2, {1, 1000}, {NULL, NULL}, "split("},
    {"a row of one", elements, TN_F32, 2, {1, 1}, {NULL, NULL}, "split("},
    {"one row of f64", elements, TN_F64, 2, {1, 70001}, {"split(", NULL}, NULL},
    {"one row of i32", elements, TN_I32, 2, {2, 50003}, {"split(", NULL}, NULL},
    {"a row's numbers beside it", beside, TN_F32, 2, {2, 40009}, {"split(", NULL}, NULL},
    {"rows without a number", with_nan, TN_F32, 2, {3, 30011}, {"split(", NULL}, NULL},
    {"two levels alone", moments, TN_F32, 2, {3, 50021}, {"split(", NULL}, NULL},
    {"a short axis around a long one", apart, TN_F32, 3, {2, 3, 40009}, {"split(", NULL}, NULL},
    {"channels", by_channel, TN_F32, 3, {3, 2, 30011}, {"split(", NULL}, NULL},
    {"a number of all beside one of each", all_and_each, TN_F32, 2, {10, 12001}, {"split(", "once("}, NULL},
    {"behind few columns", behind, TN_F32, 2, {257, 67}, {"column(sqrt", "blocks("}, NULL},
    {"behind few columns of f64", behind, TN_F64, 2, {801, 19}, {"column(sqrt", "blocks("}, NULL},
    {"behind few columns of f16", behind, TN_F16, 2, {37, 67}, {"column(", NULL}, NULL},
    {"behind columns of less than a vector", behind, TN_F32, 2, {101, 7}, {"column(sqrt", NULL}, NULL},
    {"behind one vector of columns", behind, TN_F32, 2, {801, 19}, {"column(sqrt", "blocks("}, NULL},
    {"behind columns enough", behind, TN_F32, 2, {5, 1031}, {"column(sqrt", NULL}, "blocks("},
    {"behind a row or two", behind, TN_F32, 2, {2, 67}, {NULL, NULL}, "blocks("},
    {"behind columns, the same for all", behind_alone, TN_F32, 2, {17, 67}, {"column(sqrt", NULL}, NULL},
    {"behind columns, and beside", behind_beside, TN_F32, 2, {17, 67}, {NULL, NULL}, "blocks("},
    {"behind two levels of columns", behind_loss, TN_F32, 2, {8, 1033}, {"row(exp)", "column("}, "k1_"},
    {"behind two levels of few columns", behind_loss, TN_F32, 2, {9, 67}, {"k1_", NULL}, NULL},
    {"behind two levels of less than a vector", behind_loss, TN_F32, 2, {10, 31}, {"k1_", NULL}, NULL},
    {"masks of rows of two", masked, TN_F32, 2, {5003, 2}, {"fetch(", NULL}, NULL},
    {"masks of rows of three", masked, TN_F32, 2, {3001, 3}, {"fetch(", NULL}, NULL},
    {"masks of rows of two, f64", masked, TN_F64, 2, {301, 2}, {"fetch(", NULL}, NULL},
    {"masks of rows of a vector", masked, TN_F32, 2, {301, 16}, {NULL, NULL}, "fetch("},
    {"parts of pairs", joined, TN_F32, 3, {7, 61, 2}, {"fetch(", NULL}, NULL},
    {"parts of pairs of i8", joined, TN_I8, 3, {7, 61, 2}, {"fetch(", NULL}, NULL},
    {"labels along columns", picked, TN_F32, 4, {2, 13, 300, 5}, {"merge(", NULL}, NULL},
    {"gradient of steps", stepped, TN_F32, 3, {7, 8, 256}, {NULL, NULL}, "turn("},
    {"equal terms", alike, TN_F32, 2, {7, 33}, {"alike(", NULL}, NULL},
    {"equal terms of f64", alike, TN_F64, 2, {7, 33}, {"alike(", NULL}, NULL},
    {"equal terms of i8, which wrap", alike, TN_I8, 2, {7, 333}, {"alike(", NULL}, NULL},
    {"equal terms of f16", alike_many, TN_F16, 2, {3, 5}, {"alike(", NULL}, NULL},
    {"equal terms of one", alike, TN_F32, 2, {1, 1}, {"alike(", NULL}, NULL},
    {"deviations of equal terms", deviations, TN_F32, 2, {5, 9}, {"alike(", NULL}, NULL},
    {"equal terms that are stored, too", alike_stored, TN_F32, 2, {2, 33}, {NULL, NULL}, "alike("},
    {"running sums of equal terms", running, TN_F32, 2, {5, 9}, {NULL, NULL}, NULL},
    {"sums of doubled terms", doubled, TN_F32, 2, {7, 333}, {"outside(add)", "outside(neg)"}, NULL},
    {"sums of doubled terms of f64", doubled, TN_F64, 2, {1, 5}, {"outside(add)", "outside(neg)"}, NULL},
    {"sums of doubled terms of f16", doubled, TN_F16, 2, {3, 5}, {NULL, NULL}, "outside("},
    {"strips of columns", many_rows, TN_F32, 2, {4103, 33}, {"split(", "jam("}, NULL},
    {"strips, too few times", few_rows, TN_F32, 2, {4103, 131}, {NULL, NULL}, "split("},
    {"strips that are held", many_rows, TN_F32, 2, {1031, 33}, {NULL, NULL}, "split("},
    {"all pairs", all_pairs, TN_F32, 2, {400, 129}, {"turn(", "jam("}, NULL},
    {"all pairs of few", all_pairs, TN_F32, 2, {40, 129}, {",16) jam(", ",4) jam("}, NULL},
    {"all pairs of long rows", all_pairs, TN_F32, 2, {23, 2081}, {",16) jam(", ",4) jam("}, NULL},
    {"all pairs of long rows of f64", all_pairs, TN_F64, 2, {22, 1537}, {",8) jam(", ",4) jam("}, NULL},
    {"all pairs of long rows of f16", all_pairs, TN_F16, 2, {24, 4111}, {",4) jam(", NULL}, NULL},
    {"all pairs of shorter rows", all_pairs, TN_F32, 2, {123, 1031}, {",16) jam(", ",4) jam("}, NULL},
    {"pairs of columns", pairs_of_columns, TN_F32, 2, {71, 2083}, {"jam(", "strips("}, NULL},
    {"pairs of whole vectors of columns", pairs_of_columns, TN_F64, 2, {66, 1024}, {"jam(", "strips("}, NULL},
    {"pairs of columns of bytes", pairs_of_columns, TN_U8, 2, {131, 4339}, {"strips(", NULL}, NULL},
    {"pairs of columns that are held", pairs_of_columns, TN_F32, 2, {41, 2083}, {"jam(", NULL}, "strips("},
    {"rows of two, looked up", looked_up, TN_F32, 2, {203, 2}, {"#pragma GCC unroll 2", NULL}, "{upcast"},
    {"rows of three, looked up", looked_up, TN_I64, 2, {90001, 3}, {"#pragma GCC unroll 3", NULL}, "{upcast"},
    {"rows of four bytes, looked up", looked_up, TN_U8, 2, {203, 4}, {"#pragma GCC unroll 4", NULL}, "{upcast"},
    {"rows of three bf16, looked up", looked_up_wider, TN_BF16, 2, {203, 3}, {"unroll 3", NULL}, "{upcast"},
    {"rows of three bf16, as they are", looked_up, TN_BF16, 2, {203, 3}, {"{upcast", NULL}, NULL},
    {"rows of three f16, looked up", looked_up_wider, TN_F16, 2, {203, 3}, {"{upcast", NULL}, NULL},
    {"rows of five, looked up", looked_up, TN_F32, 2, {203, 5}, {"{upcast", NULL}, NULL},
    {"rows of a vector, looked up", looked_up, TN_F32, 2, {203, 16}, {"= tn_min_i64(v", "= tn_max_i64(v"}, NULL},
    {"long parts", long_parts, TN_F32, 2, {4201, 5}, {"k2_", NULL}, NULL},
    {"long parts of f16", long_parts, TN_F16, 2, {8201, 5}, {"k2_", NULL}, NULL},
    {"short parts", long_parts, TN_F32, 2, {801, 5}, {NULL, NULL}, "k2_"},
    {"lines", lines, TN_F32, 2, {211, 80}, {"cut(", NULL}, NULL},
    {"few long lines", lines, TN_F16, 2, {3, 5003}, {"cut(", "chunk("}, NULL},
    {"lines of whole vectors", lines, TN_F32, 2, {211, 67}, {NULL, NULL}, "cut("},
    {"lines of less than a vector", lines, TN_F32, 2, {211, 23}, {NULL, NULL}, "cut("},
    {"few dear elements", dear_elements, TN_F32, 1, {1501}, {"chunk(0,64)", NULL}, NULL},
    {"few dear elements of f64", dear_elements, TN_F64, 1, {1501}, {"chunk(0,64)", NULL}, NULL},
    {"elements that are less dear", four_sines, TN_F32, 1, {1501}, {"chunk(0,512)", NULL}, NULL},
    {"few cheap elements", cheap_elements, TN_F32, 1, {1501}, {NULL, NULL}, "chunk("},
    {"elements by what is dear, once", by_a_number, TN_F32, 1, {1501}, {NULL, NULL}, "chunk("},
    {"dear elements of lines", by_columns, TN_F32, 2, {200, 50}, {"{global 0 output}", NULL}, NULL},
    {"bytes", largest, TN_U8, 2, {77, 3001}, {",128)", NULL}, NULL},
    {"bytes of less than a vector", largest, TN_I8, 2, {3, 61}, {NULL, NULL}, NULL},
    {"words of two bytes", largest, TN_I16, 2, {77, 3001}, {",64)", NULL}, NULL},
    {"channels of whole vectors", weighted, TN_F32, 3, {2, 3, 32 * 37}, {"lanes(", " 37\n"}, NULL},
    {"channels of parts of vectors", weighted, TN_F32, 3, {2, 3, 4 * 37}, {"cut(", "lanes("}, NULL},
    {"channels of less than a vector", weighted, TN_F32, 3, {2, 37, 3}, {"lanes(", NULL}, "cut("},
    {"parts of rows, gathered", parts_of_rows, TN_F32, 3, {300, 3, 8}, {"lanes(", NULL}, NULL},
    {"parts of rows of f16", parts_of_rows, TN_F16, 3, {301, 2, 8}, {"lanes(", NULL}, NULL},
    {"parts of rows of a vector", parts_of_rows, TN_F32, 3, {41, 3, 11}, {"lanes(", NULL}, NULL},
    {"parts of two vectors' rows", parts_of_rows, TN_F32, 3, {16, 3, 8}, {"lanes(", NULL}, NULL},
    {"parts of fewer rows", parts_of_rows, TN_F32, 3, {15, 3, 8}, {NULL, NULL}, NULL},
    {"parts of rows of f64", parts_of_rows, TN_F64, 3, {33, 2, 6}, {"lanes(", NULL}, NULL},
    {"two filters", filtered, TN_F16, 4, {3, 1, 1, 333}, {"lanes(2,32)", NULL}, NULL},
};

/* Whole numbers from -2 to 2 in an order that no block repeats */
static uint64_t number(const void *of, int dtype, tn_dim i) {
  (void)of;
  return tn__eval_cast(TN_I64, dtype, (uint64_t)(i * i / 7 % 5 - 2));
}

static tn_tensor *made_input(tn_ctx *c, const program *p) {
  return host_numbers(c, p->dtype, p->shape, p->rank, number, NULL);
}

static void check_steps(const program *p, const char *text) {
  for (int i = 0; i < 2; i++)
    if (p->step[i] && !strstr(text, p->step[i])) fail_msg("%s: no %s in\n%s", p->name, p->step[i], text);
  const char *source = strstr(text, "# source"), *none = p->none ? strstr(text, p->none) : NULL;
  if (none && (!source || none < source)) fail_msg("%s: %s in\n%s", p->name, p->none, text);
}

/* What each result is, to be freed; how many there are */
static int results(const char *device, int threads, const program *p, void **out, size_t *bytes) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .threads = threads, .quiet = 1, .verify = "strict"});
  int n = 0;
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *y[MOST_RESULTS];
    n = p->make(made_input(c, p), y);
    char *text = tn_explain_string(y, n);
    if (!text) fail_msg("%s: %s", p->name, tn_last_error(c)->text);
    if (!strcmp(device, "cpu")) check_steps(p, text);
    free(text);
    assert_int_equal(tn_realize(y, n), TN_OK);
    for (int i = 0; i < n; i++) {
      bytes[i] = tn_nbytes(y[i]);
      out[i] = malloc(bytes[i]);
      assert_non_null(out[i]);
      assert_int_equal(tn_read(y[i], out[i], bytes[i]), TN_OK);
    }
  }
  tn_ctx_close(c);
  return n;
}

static void as_plain_loops(void **s) {
  unsigned long cases = 0;
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    if (!is_taken(&cases)) continue;
    void *want[MOST_RESULTS], *got[MOST_RESULTS];
    size_t bytes[MOST_RESULTS], same[MOST_RESULTS];
    int n = results("ref", 1, &programs[i], want, bytes);
    for (int threads = 1; threads <= 3; threads += 2) {
      assert_int_equal(results("cpu", threads, &programs[i], got, same), n);
      for (int k = 0; k < n; k++) {
        assert_int_equal(same[k], bytes[k]);
        if (memcmp(got[k], want[k], bytes[k])) fail_msg("%s: other bits in result %d", programs[i].name, k);
        free(got[k]);
      }
    }
    for (int k = 0; k < n; k++) free(want[k]);
  }
}

/* A store of little beside one of much in a loop that may have no turns */
static void without_turns(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    static float w[200][64], z[64];
    for (int i = 0; i < 64; i++) z[i] = (float)i;
    tn_program *p = tn_program_begin(c);
    tn_dim n = tn_dim_var(c, "N", 0, 400);
    tn_tensor *x = tn_program_input(p, "w", TN_F32, (tn_dim[]){n, 64}, 2),
              *most = tn_max(tn_program_input(p, "z", TN_F32, (tn_dim[]){64}, 1), NULL, 0, false);
    assert_int_equal(tn_program_output(p, "sums", tn_sum(tn_exp(tn_sub(x, most)), (int[]){1}, 1, false)), TN_OK);
    assert_int_equal(tn_program_output(p, "most", most), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    assert_int_equal(tn_program_write(p, "z", (tn_dim[]){64}, 1, z, sizeof z), TN_OK);
    for (tn_dim rows = 0; rows <= 200; rows += 100) {
      float got = 0;
      assert_int_equal(tn_program_write(p, "w", (tn_dim[]){rows, 64}, 2, w, (size_t)rows * sizeof *w), TN_OK);
      assert_int_equal(tn_program_run(p), TN_OK);
      assert_int_equal(tn_program_read(p, "most", &got, sizeof got), TN_OK);
      assert_float_equal(got, 63, 0);
    }
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops), cmocka_unit_test(without_turns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
