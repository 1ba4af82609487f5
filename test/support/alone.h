/* A function that reads and writes memory of the test's own alone, which no thread but the test's ever has: the thread
 * sanitizer need not watch each access of long sums by which a test judges what threads have computed. */
#ifndef TEST_SUPPORT_ALONE_H
#define TEST_SUPPORT_ALONE_H
#define TEST_ALONE __attribute__((no_sanitize_thread))
#endif
