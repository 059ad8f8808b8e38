// Tensor cores of Hopper through wgmma: products of 64 x 256 by warp groups, both operands in shared memory in core
// matrices of 8 rows x 16 bytes without swizzle. mma.sync reaches two thirds of this rate.
#include "portable.h"
#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef DEPTH
#define DEPTH 8
#endif
#define THREADS (128 * GROUPS)
#define A_BYTES 2048
#define B_BYTES 8192

DEVICE u64 described(u32 address, u32 along_k, u32 along_rows) {
  return (u64)(address >> 4 & 0x3fff) | (u64)(along_k >> 4) << 16 | (u64)(along_rows >> 4) << 32;
}

#define D128 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
  "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
  "%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85," \
  "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110," \
  "%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}"
#define D4(C, i) "+" C(d[i]), "+" C(d[i + 1]), "+" C(d[i + 2]), "+" C(d[i + 3])
#define D16(C, i) D4(C, i), D4(C, i + 4), D4(C, i + 8), D4(C, i + 12)
#define ALL_OF_D(C) D16(C, 0), D16(C, 16), D16(C, 32), D16(C, 48), D16(C, 64), D16(C, 80), D16(C, 96), D16(C, 112)

// b holds DEPTH tiles of B, a DEPTH tiles of A for each warp group; results go to out by element and thread.
#define PRODUCTS(NAME, ACC, C, INSTRUCTION, TAIL) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGIN; \
    extern __shared__ __align__(128) u8 shared[]; \
    vec4* tiles = (vec4*)shared; \
    for (u32 i = LANE; i < DEPTH * B_BYTES / 16; i += THREADS) tiles[i] = b[i]; \
    for (u32 i = LANE; i < GROUPS * DEPTH * A_BYTES / 16; i += THREADS) tiles[DEPTH * B_BYTES / 16 + i] = a[i]; \
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
    BARRIER(); \
    u32 base; \
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(base) : "l"(shared)); \
    u64 y = described(base, 128, 256); \
    u64 x = described(base + DEPTH * B_BYTES + LANE / 128 * (DEPTH * A_BYTES), 128, 256); \
    ACC d[128]; \
    UNROLLED for (int i = 0; i < 128; ++i) d[i] = 0; \
    _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r) { \
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); \
      UNROLLED for (int k = 0; k < DEPTH; ++k) \
        asm volatile(INSTRUCTION " " D128 ", %128, %129, 1" TAIL ";" \
                     : ALL_OF_D(C) : "l"(x + k * (A_BYTES >> 4)), "l"(y + k * (B_BYTES >> 4))); \
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); \
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); \
    } \
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); \
    if (keep == 1) { \
      UNROLLED for (int i = 0; i < 128; ++i) ((ACC*)out)[((u64)GROUP * 128 + i) * THREADS + LANE] = d[i]; \
    } \
    END; \
  }

PRODUCTS(wgmma_f16, float, "f", "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16", ", 1, 1, 0, 0")
PRODUCTS(wgmma_bf16, float, "f", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", ", 1, 1, 0, 0")
PRODUCTS(wgmma_tf32, float, "f", "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32", ", 1, 1")
PRODUCTS(wgmma_f8, float, "f", "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3", ", 1, 1")
PRODUCTS(wgmma_i8, int, "r", "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8", "")
