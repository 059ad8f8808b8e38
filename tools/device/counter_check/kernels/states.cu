// Wave states over time: each wave spins for `step` core clock cycles, which it counts itself.
#include "portable.h"
#define THREADS 256
#define LOOP _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r)

#if AMD
// Some counters have 20 bits, so successive readings must be closer together than that.
DEVICE u32 tick() { return (u32)__builtin_readcyclecounter() & 0xfffff; }
DEVICE void nap() { __builtin_amdgcn_s_sleep(16); }
#else
DEVICE u32 tick() { return (u32)clock64() & 0xfffff; }
DEVICE void nap() { asm volatile("nanosleep.u32 2000;"); }
#endif
DEVICE u64 spin(u64 cycles) {
  u64 passed = 0;
  u32 last = tick();
  while (passed < cycles) {
    u32 now = tick();
    passed += (now - last) & 0xfffff;
    last = now;
  }
  return passed;
}

KERNEL(THREADS) known_spin(ARGUMENTS) {
#if !AMD
  u64 began = nanoseconds(), clocks = clock64();
#endif
  u64 passed = spin(step);
  ((u64*)out)[((u64)GROUP * THREADS + LANE) * 2] = passed >= step;
#if !AMD
  if (GROUP == 0 && LANE == 0) ((u64*)out)[1] = clock64() - clocks, ((u64*)out)[3] = nanoseconds() - began;
#endif
}
// The same with work for only some of the compute units.
KERNEL(THREADS) known_spin_some(ARGUMENTS) {
  u64 passed = spin(step);
  ((u64*)out)[((u64)GROUP * THREADS + LANE) * 2] = passed >= step;
}
// One wave of a group works while the others wait for it at the barrier.
KERNEL(THREADS) known_barrier(ARGUMENTS) {
  u64 passed = step;
  LOOP {
    if (LANE < 64) passed = spin(step);
    BARRIER();
  }
  ((u64*)out)[((u64)GROUP * THREADS + LANE) * 2] = passed >= step;
}
KERNEL(THREADS) known_sleep(ARGUMENTS) {
  LOOP { nap(); }
  ((u64*)out)[((u64)GROUP * THREADS + LANE) * 2] = 1;
}
// One wave per group; every load depends on the previous one. a starts with zeros.
KERNEL(64) known_chase(ARGUMENTS) {
  u32 at = 0;
  LOOP {
    UNROLLED for (int i = 0; i < 16; ++i) {
#if AMD
      at = *((MEMORY(const volatile u32))a + at + LANE * 0);
#else
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"((const u32*)a + at));
#endif
    }
  }
  ((u64*)out)[((u64)GROUP * 64 + LANE) * 2] = at == 0;
}
