/* What the interpreter runs: plain loops, what the optimiser makes for compiled code, or kernels for work groups. */
#ifndef TEST_SUPPORT_FORMS_H
#define TEST_SUPPORT_FORMS_H
#include "device/device.h"

typedef enum form { PLAIN, OPTIMISED, GROUPS, FORMS } form;

/* A device that interprets takes kernels of this form from now on; others have their own. */
static inline void take_form(tn__device *d, form f) {
  if (!d->interprets) return;
  d->interprets = f == PLAIN;
  d->group = f == GROUPS ? 64 : 0;
  d->units = f == GROUPS ? 2 : 0;
  d->copies = f == GROUPS;
  d->shared = f == GROUPS ? 48 << 10 : 0;
}
#endif
