/* The passes one by one, as run/schedule_cache.c strings them together, so that a test can change what one of them gave
 * before the next one sees it; at the end, the verdict of translation validation. */
#ifndef TEST_SUPPORT_PIPELINE_H
#define TEST_SUPPORT_PIPELINE_H
#include "lower/lower.h"
#include "schedule/schedule.h"
#include "verify/verify.h"

typedef struct pipeline {
  tn_ctx *c;
  tn__device *dev;
  tn_node *key, *graph;  /* the user's; simplified */
  tn__schedule *s;
  tn__kernel **kernel;   /* by item: of library calls, their references */
  tn__verify_subject subject;
  tn__product *product;  /* by item */
  uint32_t *first, *last; /* by block: the items in which it lives */
} pipeline;

/* Each needs what the one before it gave.  They throw; everything is allocated in scratch. */
void pipeline_simplify(pipeline *p);
void pipeline_scatter(pipeline *p);
void pipeline_schedule(pipeline *p);
void pipeline_lower(pipeline *p);
void pipeline_place(pipeline *p); /* also fills the subject */
const tn__verdict *pipeline_verify(pipeline *p);
#endif
