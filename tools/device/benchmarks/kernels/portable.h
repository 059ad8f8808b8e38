// What differs between AMD (clang or hiprtc, no headers) and NVIDIA (NVRTC): attributes, ids, vector types.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__AMDGCN__) || defined(__HIP__) || defined(__HIPCC_RTC__)
#define AMD 1
#define KERNEL(threads) \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(threads, threads))) void
#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared))
#define LANE __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
// Without the fences nothing makes a wave wait for its own LDS writes before it meets the others.
#define BARRIER() \
  do { \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier(); \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
typedef u32 vec4 __attribute__((ext_vector_type(4)));
#define MEMORY(T) __attribute__((address_space(1))) T*
#else
#define AMD 0
#define KERNEL(threads) extern "C" __global__ __launch_bounds__(threads) void
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define LANE threadIdx.x
#define GROUP blockIdx.x
#define BARRIER() __syncthreads()
typedef uint4 vec4;
#define MEMORY(T) T*
#endif

#define UNROLLED _Pragma("unroll")

// Every kernel takes the same arguments. Results are computed but stored only where `keep` is 1: the compiler cannot
// know, so nothing of the work falls away. `step` is 0 where a loop must not be seen to repeat.
#define ARGUMENTS const vec4 *a, const vec4 *b, vec4 *out, u64 rounds, u64 step, u64 keep

// In a timed launch on NVIDIA, `keep` is where the first group leaves its own length in clocks and in nanoseconds: the
// clock that it ran at, which sensors tell too late and too coarsely.
#if AMD
#define BEGIN
#define END
#else
DEVICE u64 nanoseconds() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
#define BEGIN u64 began = nanoseconds(), clocks = clock64()
// A warp may wait long for its turn between two instructions here: both are read anew until they belong together.
#define END \
  if (keep > 1 && GROUP == 0 && LANE == 0) { \
    u64 now, tick; \
    do { \
      tick = clock64(); \
      now = nanoseconds(); \
    } while (clock64() - tick > 200); \
    ((u64*)keep)[0] = tick - clocks; \
    ((u64*)keep)[1] = now - began; \
  }
#endif
