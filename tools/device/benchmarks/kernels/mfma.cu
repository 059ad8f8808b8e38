// Matrix units of CDNA: four independent accumulators a wave hide the latency of a product; 16 products a round.
#include "portable.h"
#define THREADS 256
#ifndef CHAINS
#define CHAINS 4
#endif

typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef float f32x16 __attribute__((ext_vector_type(16)));
typedef double f64x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x8 __attribute__((ext_vector_type(8)));
typedef int i32x16 __attribute__((ext_vector_type(16)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef short i16x2 __attribute__((ext_vector_type(2)));
typedef short i16x4 __attribute__((ext_vector_type(4)));

// Operands lie in a and b by lane, results in out by accumulator, element and lane.
#define PRODUCTS(NAME, ACC, PARTS, ELEMENT, IN, PRODUCT) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    IN x = ((const IN*)a)[LANE % 64], y = ((const IN*)b)[LANE % 64]; \
    ACC d[CHAINS] = {}; \
    for (u32 r = 0; r < (u32)rounds; ++r) { \
      UNROLLED for (int s = 0; s < 16; ++s) { \
        ACC& c = d[s % CHAINS]; \
        c = PRODUCT; \
      } \
    } \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < CHAINS; ++i) { \
        UNROLLED for (int p = 0; p < PARTS; ++p) \
          ((ELEMENT*)out)[(((u64)GROUP * CHAINS + i) * PARTS + p) * THREADS + LANE] = d[i][p]; \
      } \
    } \
  }
#define MFMA(INSTRUCTION) __builtin_amdgcn_mfma_##INSTRUCTION(x, y, c, 0, 0, 0)

#if defined(__gfx950__)
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
// Both operands in one of the formats fp8 (0), fp6 (2), fp4 (4), every block scaled by 1.
#define SCALED(FORMAT) \
  __builtin_amdgcn_mfma_scale_f32_32x32x64_f8f6f4(x, y, c, FORMAT, FORMAT, 0, 0x7f7f7f7f, 0, 0x7f7f7f7f)
PRODUCTS(mfma_f16, f32x16, 16, float, f16x8, MFMA(f32_32x32x16_f16))
PRODUCTS(mfma_bf16, f32x16, 16, float, bf16x8, MFMA(f32_32x32x16_bf16))
PRODUCTS(mfma_i8, i32x16, 16, int, i32x4, MFMA(i32_32x32x32_i8))
PRODUCTS(mfma_mxf8, f32x16, 16, float, i32x8, SCALED(0))
PRODUCTS(mfma_mxf6, f32x16, 16, float, i32x8, SCALED(2))
PRODUCTS(mfma_mxf4, f32x16, 16, float, i32x8, SCALED(4))
#elif defined(__gfx942__)
PRODUCTS(mfma_f16, f32x16, 16, float, f16x4, MFMA(f32_32x32x8f16))
PRODUCTS(mfma_bf16, f32x16, 16, float, i16x4, MFMA(f32_32x32x8bf16_1k))
PRODUCTS(mfma_i8, i32x16, 16, int, long, MFMA(i32_32x32x16_i8))
PRODUCTS(mfma_xf32, f32x16, 16, float, f32x2, MFMA(f32_32x32x4_xf32))
#elif defined(__gfx90a__)
PRODUCTS(mfma_f16, f32x16, 16, float, f16x4, MFMA(f32_32x32x8f16))
PRODUCTS(mfma_bf16, f32x16, 16, float, i16x4, MFMA(f32_32x32x8bf16_1k))
PRODUCTS(mfma_i8, i32x16, 16, int, int, MFMA(i32_32x32x8i8))
#elif defined(__gfx908__)
PRODUCTS(mfma_f16, f32x16, 16, float, f16x4, MFMA(f32_32x32x8f16))
PRODUCTS(mfma_bf16, f32x16, 16, float, i16x2, MFMA(f32_32x32x4bf16))
PRODUCTS(mfma_i8, i32x16, 16, int, int, MFMA(i32_32x32x8i8))
#endif
#if defined(__gfx942__)
PRODUCTS(mfma_f8, f32x16, 16, float, long, MFMA(f32_32x32x16_fp8_fp8))
#endif
#if !defined(__gfx908__)
PRODUCTS(mfma_f64, f64x4, 4, double, double, MFMA(f64_16x16x4f64))
#endif
PRODUCTS(mfma_f32, f32x16, 16, float, float, MFMA(f32_32x32x2f32))
