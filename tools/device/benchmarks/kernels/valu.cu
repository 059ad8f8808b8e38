// Vector units: chains of multiply-adds in registers, STEPS x 16 instructions a round.
#include "chains.h"
#define THREADS 256
#ifndef STEPS
#define STEPS 8
#endif

// Z is the summand: z, or y where reading three different registers would be slower than the unit (FP64 on NVIDIA).
#define FMA(NAME, T, I, C, Z) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGIN; \
    T x[16], y = ((const T*)b)[LANE % 64], z = ((const T*)b)[64 + LANE % 64]; \
    UNROLLED for (int i = 0; i < 16; ++i) x[i] = ((const T*)a)[i * THREADS + LANE]; \
    for (u32 r = 0; r < (u32)rounds; ++r) { \
      UNROLLED for (int s = 0; s < STEPS; ++s) STEP(I, C, x, y, Z); \
    } \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < 16; ++i) ((T*)out)[((u64)GROUP * 16 + i) * THREADS + LANE] = x[i]; \
    } \
    END; \
  }

FMA(fma_f32, float, PICK("v_fma_f32", "fma.rn.f32"), PICK("v", "f"), z)
FMA(fma_f64, double, PICK("v_fma_f64", "fma.rn.f64"), PICK("v", "d"), y)
FMA(fma_pk_f16, u32, PICK("v_pk_fma_f16", "fma.rn.f16x2"), PICK("v", "r"), z)
FMA(mad_i32, u32, PICK("v_mad_u32_u24", "mad.lo.u32"), PICK("v", "r"), z)
#if !AMD
FMA(fma_pk_bf16, u32, "fma.rn.bf16x2", "r", z)
#elif !defined(__gfx908__)
typedef float f32x2 __attribute__((ext_vector_type(2)));
FMA(fma_pk_f32, f32x2, "v_pk_fma_f32", "v", z)
#endif
