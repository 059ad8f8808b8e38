// Read bandwidth of L2, vL1D and LDS: LOADS loads of 16 bytes a lane are in flight in every round.
#include "memory.h"
#ifndef SPAN
#define SPAN 64
#endif

// All groups read the same LOADS x SPAN vectors, which every vL1D holds after the first round.
KERNEL(THREADS) vl1d_read(ARGUMENTS) {
  BEGIN;
  const vec4* p = a + LANE % SPAN;
  vec4 sum = fill(0);
  for (u32 r = 0; r < (u32)rounds; ++r) {
    vec4 v[LOADS];
    UNROLLED for (int i = 0; i < LOADS; ++i) v[i] = cached_load(p + i * SPAN);
    UNROLLED for (int i = 0; i < LOADS; ++i) sum = add(sum, v[i]);
    p += step;
  }
  if (keep == 1) out[(u64)GROUP * THREADS + LANE] = sum;
  END;
}

// Every group reads a region of `step` tiles of its own, over and over: all regions together fit L2, and none fits vL1D.
// Nothing is shared: requests of several units for one line can be joined before L2, which would count bytes twice.
KERNEL(THREADS) l2_read(ARGUMENTS) {
  BEGIN;
  const vec4 *first = a + (u64)GROUP * step * (THREADS * LOADS) + LANE, *p = first;
  vec4 sum = fill(0);
  u32 tile = 0;
  for (u32 r = 0; r < (u32)rounds; ++r) {
    vec4 v[LOADS];
    UNROLLED for (int i = 0; i < LOADS; ++i) v[i] = stream_load(p + i * THREADS);
    UNROLLED for (int i = 0; i < LOADS; ++i) sum = add(sum, v[i]);
    bool last = ++tile == (u32)step;
    tile = last ? 0 : tile;
    p = last ? first : p + THREADS * LOADS;
  }
  if (keep == 1) out[(u64)GROUP * THREADS + LANE] = sum;
  END;
}

// Neighbouring lanes read neighbouring vectors, so there are no bank conflicts.
#define ROW 512
KERNEL(THREADS) lds_read(ARGUMENTS) {
  BEGIN;
  SHARED vec4 tile[ROW + LOADS * 64];
  for (u32 i = LANE; i < ROW + LOADS * 64; i += THREADS) tile[i] = a[i];
  BARRIER();
  vec4 sum = fill(0);
  u32 at = LANE % ROW;
#if !AMD
  u32 address;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(address) : "l"(tile));
  address += at * 16;
#endif
  for (u32 r = 0; r < (u32)rounds; ++r) {
    vec4 v[LOADS];
#if AMD
    asm volatile("" : "+v"(at));
    UNROLLED for (int i = 0; i < LOADS; ++i) v[i] = tile[at + i * 64];
    at += (u32)step;
#else
    UNROLLED for (int i = 0; i < LOADS; ++i)
      asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "r"(address + i * 1024));
    address += (u32)step;
#endif
    UNROLLED for (int i = 0; i < LOADS; ++i) sum = add(sum, v[i]);
  }
  if (keep == 1) out[(u64)GROUP * THREADS + LANE] = sum;
  END;
}
