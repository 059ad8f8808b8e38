// Tensor cores through mma.sync: CHAINS independent accumulators a warp, 32 products a round.
#include "portable.h"
#define THREADS 256
#define CHAINS 8

// A and B lie in a and b by register and lane; results in out by accumulator, register and lane.
#define PRODUCTS(NAME, INSTRUCTION, ACC, C, T, IN, NA, NB, OPERANDS) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGIN; \
    T x[NA], y[NB]; \
    ACC d[CHAINS][4]; \
    UNROLLED for (int i = 0; i < NA; ++i) x[i] = ((const T*)a)[i * 32 + LANE % 32]; \
    UNROLLED for (int i = 0; i < NB; ++i) y[i] = ((const T*)b)[i * 32 + LANE % 32]; \
    UNROLLED for (int i = 0; i < CHAINS; ++i) d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0; \
    for (u32 r = 0; r < (u32)rounds; ++r) { \
      UNROLLED for (int s = 0; s < 32; ++s) { \
        ACC* c = d[s % CHAINS]; \
        asm volatile("mma.sync.aligned." INSTRUCTION " {%0,%1,%2,%3}, " OPERANDS ", {%0,%1,%2,%3};" \
                     : "+" C(c[0]), "+" C(c[1]), "+" C(c[2]), "+" C(c[3]) : IN); \
      } \
    } \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < CHAINS; ++i) { \
        UNROLLED for (int p = 0; p < 4; ++p) ((ACC*)out)[(((u64)GROUP * CHAINS + i) * 4 + p) * THREADS + LANE] = d[i][p]; \
      } \
    } \
    END; \
  }
#define IN6 "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1])
#define IN12 \
  "d"(x[0]), "d"(x[1]), "d"(x[2]), "d"(x[3]), "d"(x[4]), "d"(x[5]), "d"(x[6]), "d"(x[7]), \
  "d"(y[0]), "d"(y[1]), "d"(y[2]), "d"(y[3])
#define OPERANDS6 "{%4,%5,%6,%7}, {%8,%9}"

PRODUCTS(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32", float, "f", u32, IN6, 4, 2, OPERANDS6)
PRODUCTS(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "f", u32, IN6, 4, 2, OPERANDS6)
PRODUCTS(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", float, "f", u32, IN6, 4, 2, OPERANDS6)
PRODUCTS(mma_i8, "m16n8k32.row.col.s32.s8.s8.s32", int, "r", u32, IN6, 4, 2, OPERANDS6)
#if __CUDA_ARCH__ >= 890
PRODUCTS(mma_f8, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "f", u32, IN6, 4, 2, OPERANDS6)
#endif
#if __CUDA_ARCH__ >= 900
PRODUCTS(mma_f64, "m16n8k16.row.col.f64.f64.f64.f64", double, "d", double, IN12, 8, 4, "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}")
#else
#define IN2 "d"(x[0]), "d"(y[0])
#define PRODUCTS2(NAME, INSTRUCTION) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGIN; \
    double x = ((const double*)a)[LANE % 32], y = ((const double*)b)[LANE % 32], d[CHAINS][2] = {}; \
    for (u32 r = 0; r < (u32)rounds; ++r) { \
      UNROLLED for (int s = 0; s < 32; ++s) { \
        double* c = d[s % CHAINS]; \
        asm volatile("mma.sync.aligned." INSTRUCTION " {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(c[0]), "+d"(c[1]) : "d"(x), "d"(y)); \
      } \
    } \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < CHAINS; ++i) { \
        UNROLLED for (int p = 0; p < 2; ++p) ((double*)out)[(((u64)GROUP * CHAINS + i) * 2 + p) * THREADS + LANE] = d[i][p]; \
      } \
    } \
    END; \
  }
PRODUCTS2(mma_f64, "m8n8k4.row.col.f64.f64.f64.f64")
#endif
