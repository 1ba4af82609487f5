/* Recordings of the interpreter (record, after, recorded, replay and forget of device.h), of guises whose devices
 * record.  d->self is what tn__ref_recorder_new gives. */
#ifndef TN_BACKEND_REF_RECORDING_H
#define TN_BACKEND_REF_RECORDING_H
#include "backend/ref/ref.h"

void *tn__ref_recorder_new(tn_ctx *c); /* throws */
void tn__ref_recorder_free(tn__device *d);
bool tn__ref_is_recording(const tn__device *d);

tn_status tn__ref_record(tn__device *d);
tn_status tn__ref_after(tn__device *d, uint32_t number, const uint32_t *before, uint32_t n, const bool *early,
                         int urgent);
tn__recording *tn__ref_recorded(tn__device *d);
tn_status tn__ref_replay(tn__device *d, tn__recording *r);
void tn__ref_forget(tn__device *d, tn__recording *r);

/* A launch, while recording; what the pointers point to is copied. */
tn_status tn__ref_record_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                                uint32_t nbuf, const int64_t *var, uint32_t nvar);
#endif
