/* tenet train mnist from outside, on a few invented digits: equal seeds, interruption, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/files.h"
#include "tenet/tenet.h"

enum { SIDE = 28, ROOM = 1024 };

static char tenet[512], data[160];

/* Bright bars whose place tells the digit. */
static void write_digits(tn_ctx *ctx, const char *prefix, int64_t n) {
  uint8_t *pixel = calloc((size_t)n, SIDE * SIDE), *label = malloc((size_t)n);
  char path[256];
  for (int64_t i = 0; i < n; i++) {
    label[i] = (uint8_t)(i * 7 % 10);
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < 3; x++)
        pixel[(i * SIDE + y) * SIDE + 2 * label[i] + x + i % 3] = (uint8_t)(100 + (i * 37 + y * 11) % 156);
  }
  const tn_array images = {
      .dtype = TN_U8, .rank = 3, .shape = {n, SIDE, SIDE}, .data = pixel, .bytes = (size_t)n * SIDE * SIDE};
  const tn_array labels = {.dtype = TN_U8, .rank = 1, .shape = {n}, .data = label, .bytes = (size_t)n};
  snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte.gz", data, prefix);
  assert_int_equal(tn_idx_write(ctx, path, &images), TN_OK);
  snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", data, prefix);
  assert_int_equal(tn_idx_write(ctx, path, &labels), TN_OK);
  free(pixel), free(label);
}

static int prepare(void **state) {
  (void)state;
  const char *build = getenv("TENET_BUILD");
  if (!build) return 1;
  snprintf(tenet, sizeof tenet, "%s/tenet", build);
  snprintf(data, sizeof data, "%s", test_path(""));
  tn_ctx *ctx = tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = "", .quiet = 1});
  write_digits(ctx, "train", 300);
  write_digits(ctx, "t10k", 100);
  tn_ctx_close(ctx);
  return 0;
}

static int clean(void **state) {
  (void)state;
  test_remove_files();
  return 0;
}

/* Runs a shell command with $T the command and $D the folder; its exit code. */
static int shell(const char *command) {
  char line[ROOM];
  snprintf(line, sizeof line, "T='%s'; D='%s'; cd \"$D\"; { %s ; } >log 2>&1", tenet, data, command);
  int status = system(line);
  return status < 0 ? -1 : status >> 8 & 255;
}

#define OK(command)                                                                                                    \
  do {                                                                                                                 \
    int code = shell(command);                                                                                         \
    if (code != 0) {                                                                                                   \
      size_t n = 0;                                                                                                    \
      char *said = test_read_file(test_path("log"), &n);                                                               \
      fail_msg("exit code %d from: %s\n%.*s", code, command, said ? (int)n : 0, said ? said : "");                     \
    }                                                                                                                  \
  } while (0)

static void equal_seeds_give_equal_weights(void **state) {
  (void)state;
  OK("$T train mnist --model mlp --epochs 2 --data . --out a --seed 3");
  OK("test -s a/mnist-mlp-loss.png && test -s a/mnist-mlp-misread.png");
  OK("$T train mnist --model mlp --epochs 2 --data . --out b --seed 3 && cmp a/mnist-mlp.safetensors "
     "b/mnist-mlp.safetensors");
  OK("$T train mnist --model mlp --epochs 2 --data . --out b --seed 4 && ! cmp a/mnist-mlp.safetensors "
     "b/mnist-mlp.safetensors");
}

/* Wherever the interruption falls, the end is the same; with dropout, whose random numbers must continue, too. */
static void interrupted_runs_end_the_same(void **state) {
  (void)state;
  OK("$T train mnist --model cnn --epochs 2 --batch 32 --data . --out whole");
  OK("timeout -s INT 1.2 $T train mnist --model cnn --epochs 2 --batch 32 --data . --out part; test -s "
     "part/mnist-cnn.safetensors");
  OK("$T train mnist --resume part/mnist-cnn.safetensors --data . --out part && cmp whole/mnist-cnn.safetensors "
     "part/mnist-cnn.safetensors");
}

/* timeout(1) sends a signal to the process, then to its group: the second must not end what the first lets finish. */
static void two_interruptions_at_a_time_are_one(void **state) {
  (void)state;
  OK("$T train mnist --model cnn --epochs 400 --batch 32 --data . --out twice >said & p=$!; "
     "until grep -q '^epoch 2/' said; do sleep 0.05; done; kill -INT $p; sleep 0.02; kill -INT $p 2>>/dev/null; "
     "wait $p; test $? = 130 && grep -q ^interrupted said");
}

/* Before the first step, too: nothing is in the kernel cache, so that compiling takes its time.  Who says that one can
 * continue has written the file. */
static void interrupted_before_it_began(void **state) {
  (void)state;
  OK("$T train mnist --model mlp --epochs 1 --batch 32 --data . --out whole");
  OK("for s in 0.2 0.6; do rm -rf cold none; TENET_CACHE=cold timeout -s INT $s $T train mnist --model mlp --epochs 1 "
     "--batch 32 --data . --out none >said 2>&1;"
     "  if grep -q '^interrupted' said; then $T train mnist --resume none/mnist-mlp.safetensors --data . --out none && "
     "cmp whole/mnist-mlp.safetensors none/mnist-mlp.safetensors || exit 1; fi;"
     "done");
}

static void bad_input_is_refused(void **state) {
  (void)state;
  assert_int_equal(shell("$T train"), 2);
  assert_int_equal(shell("$T nonsense"), 2);
  assert_int_equal(shell("$T train mnist --epochs 0"), 2);
  assert_int_equal(shell("$T train mnist --epochs"), 2);
  assert_int_equal(shell("$T train mnist --colour"), 2);
  assert_int_equal(shell("$T train mnist --model rnn --data . --out o"), 1);
  assert_int_equal(shell("$T train mnist --data /nowhere --out o"), 1);
  OK("$T train mnist --data /nowhere --out o 2>&1 | grep -q 'digits in /nowhere'");
  assert_int_equal(shell("$T train mnist --data . --out /proc/none"), 1);
  assert_int_equal(shell("$T train mnist --data . --resume train-labels-idx1-ubyte --out o"), 1);
  assert_int_equal(shell("$T train mnist --data . --device none --out o"), 1);
  assert_int_equal(
      shell("mkdir -p short && cp * short; head -c 200 train-images-idx3-ubyte.gz >short/train-images-idx3-ubyte.gz; "
            "$T train mnist --data short --out o"),
      1);
}

/* Stands in for curl, as a program of that name that comes first in the path. */
static void write_curl(const char *script) {
  FILE *f = fopen(test_path("curl"), "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\n%s\n", script);
  assert_int_equal(fclose(f), 0);
}

#define WITHOUT_DIGITS "chmod +x curl; rm -rf empty; mkdir empty; cd empty; unset TENET_DATA; PATH=\"$D:$PATH\"; "
#define DRAWS                                                                                                          \
  "$T train mnist --model mlp --epochs 1 >said 2>&1 && grep -q 'drawing synthetic' said && grep -q "                   \
  "'accuracy.*synthetic digits' said && "

static void what_cannot_be_fetched_is_drawn(void **state) {
  (void)state;
  write_curl("echo 'curl: (6) no such host' >&2; exit 6");
  OK(WITHOUT_DIGITS "$T train mnist --model rnn >said 2>&1; test $? = 1 && grep -q \"no model 'rnn'\" said && "
                    "! grep -q curl said && ! test -e out"); /* nothing is fetched for it */
  OK(WITHOUT_DIGITS DRAWS "grep -q '  curl: (6) no such host' said && test -z \"$(ls data/mnist)\"");
  write_curl("while [ \"$1\" != -o ]; do shift; done; echo damaged >\"$2\"");
  OK(WITHOUT_DIGITS DRAWS "grep -q 'damaged.*it is not used' said && test -z \"$(ls data/mnist)\"");
  OK(WITHOUT_DIGITS "touch data; " DRAWS "grep -q 'the folder data/mnist cannot be made: Not a directory' said");
}

/* A folder that is named, or found, is used as it is, or refused: never replaced by something else. */
static void digits_are_found(void **state) {
  (void)state;
  OK("mkdir -p home/data/mnist && cp *-ubyte* home/data/mnist");
  OK("cd home; unset TENET_DATA; $T train mnist --model mlp --epochs 1 | grep -q '300 training and 100 test digits: "
     "data/mnist'");
  OK("export TENET_DATA=home/data; $T train mnist --model mlp --epochs 1 | grep -q '300 training and 100 test digits: "
     "home/data/mnist'");
  assert_int_equal(shell("cd home; unset TENET_DATA; head -c 200 data/mnist/train-labels-idx1-ubyte >t; mv t "
                         "data/mnist/train-labels-idx1-ubyte; "
                         "$T train mnist --model mlp --epochs 1"),
                   1);
}

/* With nothing left to learn the weights are tested all the same, and the curve of the run that learnt them stays. */
static void a_finished_run_is_tested_again(void **state) {
  (void)state;
  OK("$T train mnist --model mlp --epochs 1 --data . --out done >first && cp done/*loss.png curve && $T train mnist "
     "--resume done/mnist-mlp.safetensors --data . --out done >again");
  OK("cmp curve done/mnist-mlp-loss.png && test -n \"$(grep -o 'accuracy.*' first)\" && test \"$(grep -o 'accuracy.*' "
     "first)\" = \"$(grep -o 'accuracy.*' again)\"");
}

static void small_commands(void **state) {
  (void)state;
  OK("$T --version | grep -q '^tenet 0'");
  OK("$T --help | grep -q -- --resume");
  OK("$T train mnist --help | grep -q -- --resume");
  OK("$T explain -h | grep -q mnist-cnn");
  OK("TENET_DEVICE=cpu $T devices | grep -q '^cpu.*default'");
  OK("$T devices | awk '/ none: / { next } !/; probed in [0-9.]+ ms/ { bad = 1 } { n++ } END { exit bad || n < 2 }'");
  OK("$T explain mnist-mlp >explained && grep -q contract explained");
  OK("$T explain explained >again && cmp explained again"); /* text that replays */
  assert_int_equal(shell("$T devices >/dev/full"), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_seeds_give_equal_weights),
      cmocka_unit_test(interrupted_runs_end_the_same),
      cmocka_unit_test(interrupted_before_it_began),
      cmocka_unit_test(two_interruptions_at_a_time_are_one),
      cmocka_unit_test(bad_input_is_refused),
      cmocka_unit_test(what_cannot_be_fetched_is_drawn),
      cmocka_unit_test(digits_are_found),
      cmocka_unit_test(a_finished_run_is_tested_again),
      cmocka_unit_test(small_commands),
  };
  return cmocka_run_group_tests(tests, prepare, clean);
}
