/* As much of CMocka as the tests use that are built for other processors, for which Debian's is not at hand: a test
 * that fails says where and ends the process. */
#ifndef TEST_CROSS_CMOCKA_H
#define TEST_CROSS_CMOCKA_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*cmocka_fixture)(void **state);

struct CMUnitTest {
  const char *name;
  void (*body)(void **state);
  cmocka_fixture setup, teardown;
};

#define cmocka_unit_test(body) {#body, body, NULL, NULL}
#define cmocka_unit_test_setup_teardown(body, setup, teardown) {#body, body, setup, teardown}

#define fail_msg(...)                                                                                                  \
  (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))
#define assert_true(x) ((x) ? (void)0 : fail_msg("%s", #x))
#define assert_null(x) assert_true((x) == NULL)
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(x, y) assert_true((long long)(x) == (long long)(y))
#define assert_float_equal(x, y, by) assert_true(fabsf((float)(x) - (float)(y)) <= (float)(by))
#define assert_string_equal(x, y) assert_true(!strcmp(x, y))
#define assert_memory_equal(x, y, n) assert_true(!memcmp(x, y, n))
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
  cmocka_run(tests, sizeof(tests) / sizeof *(tests), setup, teardown)

static inline int cmocka_run(const struct CMUnitTest *test, size_t n, cmocka_fixture setup, cmocka_fixture teardown) {
  void *group = NULL;
  if (setup && setup(&group)) fail_msg("the group is not set up");
  for (size_t i = 0; i < n; i++) {
    void *state = group;
    if (test[i].setup && test[i].setup(&state)) fail_msg("%s is not set up", test[i].name);
    test[i].body(&state);
    if (test[i].teardown && test[i].teardown(&state)) fail_msg("%s is not torn down", test[i].name);
    printf("%s\n", test[i].name);
  }
  return teardown && teardown(&group);
}
#endif
