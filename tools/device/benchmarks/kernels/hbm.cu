// Device memory: copy, triad, read and write over buffers of many times the last-level cache. `rounds` is the number of
// tiles of THREADS x UNROLL vectors, `step` the number of groups.
#include "memory.h"

#define EVERY_TILE \
  for (u64 tile = GROUP, at = tile * (THREADS * UNROLL) + LANE; tile < rounds; \
       tile += step, at += step * (THREADS * UNROLL))

KERNEL(THREADS) hbm_fill(ARGUMENTS) {
  EVERY_TILE {
    UNROLLED for (int i = 0; i < UNROLL; ++i) {
      u32 word = (u32)(at + i * THREADS) * 4 + (u32)keep;
      vec4 v = fill(0);
      v.x = noise(word), v.y = noise(word + 1), v.z = noise(word + 2), v.w = noise(word + 3);
      stream_store(out + at + i * THREADS, v);
    }
  }
}

KERNEL(THREADS) hbm_copy(ARGUMENTS) {
  EVERY_TILE {
    vec4 v[UNROLL];
    UNROLLED for (int i = 0; i < UNROLL; ++i) v[i] = stream_load(a + at + i * THREADS);
    UNROLLED for (int i = 0; i < UNROLL; ++i) stream_store(out + at + i * THREADS, v[i]);
  }
}

KERNEL(THREADS) hbm_triad(ARGUMENTS) {
  EVERY_TILE {
    vec4 v[UNROLL], w[UNROLL];
    UNROLLED for (int i = 0; i < UNROLL; ++i) v[i] = stream_load(a + at + i * THREADS);
    UNROLLED for (int i = 0; i < UNROLL; ++i) w[i] = stream_load(b + at + i * THREADS);
    UNROLLED for (int i = 0; i < UNROLL; ++i) stream_store(out + at + i * THREADS, add(v[i], add(w[i], w[i])));
  }
}

KERNEL(THREADS) hbm_read(ARGUMENTS) {
  vec4 sum = fill(0);
  EVERY_TILE {
    vec4 v[UNROLL];
    UNROLLED for (int i = 0; i < UNROLL; ++i) v[i] = stream_load(a + at + i * THREADS);
    UNROLLED for (int i = 0; i < UNROLL; ++i) sum = add(sum, v[i]);
  }
  if (keep == 1) out[(u64)GROUP * THREADS + LANE] = sum;
}

KERNEL(THREADS) hbm_write(ARGUMENTS) {
  vec4 v = a[LANE];
  EVERY_TILE {
    UNROLLED for (int i = 0; i < UNROLL; ++i) stream_store(out + at + i * THREADS, v);
  }
}
