// What generated Metal text uses of the Metal standard library, for a C++ compiler: the threads of a group are threads
// of the machine.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <pthread.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
struct uint2 { uint x, y; };
struct alignas(16) uint4 { uint x, y, z, w; };

extern thread_local pthread_barrier_t *shim_barrier; // of the thread's group

namespace metal {
enum class mem_flags { mem_none, mem_threadgroup };
inline void threadgroup_barrier(mem_flags) { pthread_barrier_wait(shim_barrier); }
template <typename T, typename F> inline T as_type(F x) {
  static_assert(sizeof(T) == sizeof(F), "as_type keeps the width");
  T r;
  std::memcpy(&r, &x, sizeof r);
  return r;
}
namespace precise {
using std::fabs, std::sqrt, std::floor, std::ceil, std::rint, std::trunc, std::fmod, std::fma, std::copysign, std::sin,
    std::cos, std::tan, std::pow;
}
} // namespace metal

#define kernel extern "C"
#define device
#define constant const
#define threadgroup
#define thread
