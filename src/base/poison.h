/* Under the address sanitizer, memory that nobody may touch, though it is ours: a read or write of it is reported.
 * Elsewhere there is none: TN__POISONED is 0. */
#ifndef TN_BASE_POISON_H
#define TN_BASE_POISON_H
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TN__POISONED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(TN__POISONED)
#define TN__POISONED 1
#endif
#ifdef TN__POISONED
#include <sanitizer/asan_interface.h>
#else
#define TN__POISONED 0
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif
#endif
