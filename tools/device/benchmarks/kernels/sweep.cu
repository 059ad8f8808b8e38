// From memory-bound to compute-bound: every word of a buffer is read once and goes through F multiply-adds, so F / 2
// FLOP a byte. `rounds` is the number of tiles of THREADS x 4 vectors, `step` the number of groups.
#include "memory.h"
#include "chains.h"

#define INTENSITY(F) \
  KERNEL(THREADS) sweep_##F(ARGUMENTS) { \
    BEGIN; \
    float y = ((const float*)b)[LANE % 64], z = ((const float*)b)[64 + LANE % 64]; \
    float sum[16] = {}; \
    for (u64 tile = GROUP; tile < rounds; tile += step) { \
      vec4 v[4]; \
      float x[16]; \
      UNROLLED for (int i = 0; i < 4; ++i) v[i] = stream_load(a + (tile * 4 + i) * THREADS + LANE); \
      UNROLLED for (int i = 0; i < 4; ++i) { \
        x[4 * i] = as_float(v[i].x), x[4 * i + 1] = as_float(v[i].y); \
        x[4 * i + 2] = as_float(v[i].z), x[4 * i + 3] = as_float(v[i].w); \
      } \
      if (F > 8) { \
        _Pragma("unroll 1") for (int s = 0; s < F; s += 8) { \
          UNROLLED for (int k = 0; k < 8; ++k) STEP(PICK("v_fma_f32", "fma.rn.f32"), PICK("v", "f"), x, y, z); \
        } \
      } else { \
        UNROLLED for (int s = 0; s < F; ++s) STEP(PICK("v_fma_f32", "fma.rn.f32"), PICK("v", "f"), x, y, z); \
      } \
      UNROLLED for (int i = 0; i < 16; ++i) sum[i] = as_float(as_u32(sum[i]) ^ as_u32(x[i])); \
    } \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < 16; ++i) ((float*)out)[((u64)GROUP * 16 + i) * THREADS + LANE] = sum[i]; \
    } \
    END; \
  }

#if AMD
DEVICE float as_float(u32 v) { return __builtin_bit_cast(float, v); }
DEVICE u32 as_u32(float v) { return __builtin_bit_cast(u32, v); }
#else
DEVICE float as_float(u32 v) { return __uint_as_float(v); }
DEVICE u32 as_u32(float v) { return __float_as_uint(v); }
#endif

INTENSITY(1)
INTENSITY(2)
INTENSITY(4)
INTENSITY(8)
INTENSITY(16)
INTENSITY(32)
INTENSITY(64)
INTENSITY(128)
INTENSITY(256)
INTENSITY(512)
