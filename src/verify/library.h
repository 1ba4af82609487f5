/* What a library's call means by its parameters, element by element.  Prefix tn__library_. */
#ifndef TN_VERIFY_LIBRARY_H
#define TN_VERIFY_LIBRARY_H
#include "verify/machine.h"
#include "verify/verify.h"

/* Is what the call stores, one element after the other, what the reference has left in the result's block?  span: by
 * block.  own: the call has constants of its own, which the graph may round otherwise.  The first that is not, in
 * words; NULL: none. */
typedef bool (*tn__library_agree)(void *arg, int dtype, tn__val want, tn__val got, bool own);
const char *tn__library_compare(tn__world *w, const tn__span *span, const tn__verify_item *it, tn__library_agree agree,
                                void *arg);
#endif
