/* Where the threads in step have their accesses, found by evaluating what indices are made of.  Prefix tn__spot.
 *
 * A part's indices have most of what they are made of in common: a search by halves asks by what it was told before.
 * So each node is evaluated once for each spot, for all of the threads, whatever asks for it. */
#ifndef TN_LOWER_SPOTS_H
#define TN_LOWER_SPOTS_H
#include "lower/kernel.h"

enum {
  TN__LANES = 32,     /* of threads in step that are looked at */
  TN__TYPICAL = 512   /* of symbolic sizes */
};

/* What is loaded is some number, or the least or the greatest one that it may be. */
enum { TN__LOADED_SOME, TN__LOADED_LEAST, TN__LOADED_GREATEST };

typedef struct tn__spot { /* which turn of each loop a thread is at: 0, but for these */
  const tn_node *step; /* a loop in this turn; NULL: none */
  int64_t turn;
  int64_t warp, block; /* of the block's, and of all */
  int loaded;
  bool first; /* the first of the threads in step alone */
} tn__spot;

typedef struct tn__spots tn__spots; /* of a part */

tn__spots *tn__spots_of(tn__arena *a, const tn__part *p);
/* The index for each of the threads in step.  Gives how many there are that do not rest. */
int tn__spots_at(tn__spots *s, const tn_node *index, const tn__spot *at, int64_t *out);
/* Is it made of what is loaded? */
bool tn__spots_loaded(const tn__spots *s, const tn_node *index);
/* Is it made of the range's turns? */
bool tn__spots_hang_on(tn__spots *s, const tn_node *index, const tn_node *range);
#endif
