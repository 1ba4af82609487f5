/* Vector loops of functions of slices: the iterations of an AX_UPCAST range as lanes of vectors (slices.c says what is
 * printed).  Prefix tn__lanes_. */
#ifndef TN_RENDER_LANES_H
#define TN_RENDER_LANES_H
#include "render/c_like.h"

/* What a value is in the lanes of the loop that is being printed */
enum { TN__LANES_SAME, TN__LANES_MOVES, TN__LANES_VECTOR };
typedef struct tn__lane_value {
  int form;
  int64_t step; /* MOVES: from lane to lane; else 0 */
  bool copied;  /* a half float that is but loaded, or chosen, and stored: of it there are cells alone, twice as many */
} tn__lane_value;
const tn__lane_value *tn__lanes_value(const tn__printer *p, const tn_node *n);

/* Chooses the number of lanes of each vector loop and accumulator of the part. */
void tn__lanes_plan(tn__printer *p);

/* The vector loop that starts at ins[at]; the index of the instruction behind its END. */
uint32_t tn__lanes_loop(tn__printer *p, uint32_t at);
/* turned.c: two loops that copy what lies along the outer one to where it lies along the lanes, or the other way, from
 * ins[at] on: as blocks that are turned in registers.  The index of the instruction behind them; 0: there are none. */
enum { TN__LANES_TURNED = 16 }; /* at most so many lanes */
uint32_t tn__lanes_turned(tn__printer *p, uint32_t at);

/* For these files: what the values of ins[start] .. ins[end - 1] are, the range at `start` being the lanes'; the number
 * of lanes of the vector loop at `start`, and where its END is; a line that makes a helper. */
void tn__lanes_forms(tn__printer *p, uint32_t start, uint32_t end);
int tn__lanes_count(const tn__printer *p, uint32_t start, uint32_t *end);
void tn__lanes_need(tn__printer *p, const char *line);

/* Accumulators: of lanes where a vector loop sets them, else plain variables. */
void tn__lanes_acc(tn__printer *p, tn_node *n);
void tn__lanes_setacc(tn__printer *p, tn_node *n);
void tn__lanes_getacc(tn__printer *p, tn_node *n);

/* inside.c: the loop of ins[start] .. ins[end].  Are there comparisons of counters that say the same in most vectors,
 * for all lanes?  Then there are cases, and what they compare is printed first; behind a test that they say so (for
 * vectors with all lanes in use) stands the loop's body without them.  There (`chosen`), what is known in the case
 * needs not be printed, or is another value; -1: a gate is not known. */
enum { TN__INSIDE_CASES = 4 };
void tn__inside_find(tn__printer *p, uint32_t start, uint32_t end);
void tn__inside_choose(tn__printer *p, uint32_t start, uint32_t end, uint32_t number);
bool tn__inside_counts(const tn__printer *p, const tn_node *n); /* is it printed first? */
const char *tn__inside_test(tn__printer *p);
bool tn__inside_known(tn__printer *p, tn_node *n);
int tn__inside_gate(const tn__printer *p, const tn_node *gate);

/* What stands in front of the kernels: the helpers for the vectors that they use. */
void tn__lanes_head(tn__printer *p, tn__sb *out);
#endif
