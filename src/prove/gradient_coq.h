/* Gradient rows as theorems for Coq, in the names of proofs/coq/Ops.v.  Prefix tn__gradient_. */
#ifndef TN_PROVE_GRADIENT_COQ_H
#define TN_PROVE_GRADIENT_COQ_H
#include "base/sb.h"
#include "rewrite/table.h"

typedef enum tn__theorem_kind {
  TH_SLOPE,    /* on this clause's domain the row is g times the partial derivative */
  TH_KINK,     /* on this clause's domain it lies between the one-sided slopes */
  TH_JOINT,    /* of two rows: together they are the differential */
  TH_TIE,      /* of two rows: at the kink the two are a convex combination */
  TH_NO_SLOPE, /* the source is never a float: there is nothing to differentiate by */
  TH_COVERS,   /* where the op is defined the row says something, or that there is no slope */
  TH_MET,      /* this clause holds somewhere */
  TH_REFUSED,  /* the row says `forbidden`: no statement */
  TH_LACKING,  /* what the row should say and does not; statement NULL, proof says what */
} tn__theorem_kind;
extern const char *const tn__theorem_kinds[];

typedef struct tn__theorem {
  tn__theorem_kind kind;
  const tn__rule *rule; /* of two rows: the first */
  const char *name, *statement, *proof; /* statement and proof NULL: none */
} tn__theorem;

/* All statements that the rows make, in the table's order, those of two rows at the end.  In `a`.  Of the table s only
 * what it says of rows and of where ops are defined is read. */
uint32_t tn__gradient_theorems(tn_ctx *c, tn__arena *a, const tn__ruleset *s, tn__theorem **out);
#endif
