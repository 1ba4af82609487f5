/* What the interpreter runs: plain loops, what the optimiser makes for compiled code, or kernels for work groups. */
#ifndef TEST_SUPPORT_FORMS_H
#define TEST_SUPPORT_FORMS_H
#include "device/device.h"

typedef enum form { PLAIN, OPTIMISED, GROUPS, FORMS } form;

/* A device that interprets takes kernels of this form from now on; others have their own. */
static inline void take_form(tn__device *d, form f) {
  if (!d->target.interprets) return;
  d->target = f == GROUPS ? (tn__target){.group = 64, .subgroup = 32, .units = 2, .unit_threads = 2048, .access = 16,
                                         .sector = 32, .copies = true, .registers = 256 << 10,
                                         .shared = 48 << 10, .kept = 48 << 10}
                          : (tn__target){.interprets = f == PLAIN, .lane_bytes = 128, .near = 1 << 10,
                                         .kept = 64 << 10};
}
#endif
