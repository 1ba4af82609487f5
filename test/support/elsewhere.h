/* The value of a graph by the oracle and, where $TENET_DEVICE names a device, by that device in mode strict: the two
 * must agree.  So tests that ask what a graph means, and need no device for it, also ask every device. */
#ifndef TEST_SUPPORT_ELSEWHERE_H
#define TEST_SUPPORT_ELSEWHERE_H
#include "support/naive.h"

/* As naive_eval, of one root.  Fails the test if the device does not agree.  Graphs over symbolic sizes are left to the
 * oracle alone; so are all but every n-th, n being $CASES_EVERY, where compiling takes its time. */
void elsewhere_eval(tn_ctx *c, tn_node *root, const naive_bind *bind, uint32_t nbind, naive_tensor *out);
#endif
