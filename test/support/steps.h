/* How many steps something takes: basic blocks of the library's files that test/CMakeLists.txt compiles with
 * -fsanitize-coverage=trace-pc, run by this thread.  A count is the same on every machine, busy or not; addresses, by
 * which maps hash, move it a little.  Include once in a test that links tenet_counted. */
#ifndef TEST_SUPPORT_STEPS_H
#define TEST_SUPPORT_STEPS_H
#include <stdint.h>

static _Thread_local uint64_t steps_taken;

void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { steps_taken++; }
#endif
