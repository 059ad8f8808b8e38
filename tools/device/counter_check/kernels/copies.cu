// Copies to shared memory that bypass registers: cp.async, bulk copies, and reads of another block's shared memory.
#include "portable.h"
#define THREADS 256
#define LOOP _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r)
DEVICE u32 place(void* p) {
  u32 at;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(p));
  return at;
}
#define ASYNC(NAME, HOW) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    SHARED vec4 tile[4 * THREADS]; \
    const vec4* p = a + (u64)GROUP * THREADS + LANE; \
    u32 at = place(tile) + LANE * 16; \
    LOOP { \
      UNROLLED for (int i = 0; i < 4; ++i) \
        asm volatile("cp.async." HOW ".shared.global [%0], [%1], 16;" ::"r"(at + i * THREADS * 16), "l"(p + i * step * THREADS) : "memory"); \
      asm volatile("cp.async.wait_all;" ::: "memory"); \
      p += 4 * step * THREADS; \
    } \
    __syncthreads(); \
    out[(u64)GROUP * THREADS + LANE] = tile[LANE]; \
  }
ASYNC(known_async, "ca")
ASYNC(known_async_past, "cg")

#if __CUDA_ARCH__ >= 900
#define PIECE 8192
// One lane makes the copy engine copy 8 KiB in and out again, a different piece in every round.
KERNEL(THREADS) known_bulk(ARGUMENTS) {
  __shared__ __align__(128) u8 tile[PIECE];
  __shared__ __align__(8) u64 arrived;
  u32 to = place(tile), gate = place(&arrived);
  if (LANE == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(gate));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    LOOP {
      const u8* p = (const u8*)a + ((u64)r * step + GROUP) * PIECE;
      u8* q = (u8*)out + ((u64)r * step + GROUP) * PIECE;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gate), "r"(PIECE) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(p), "r"(PIECE), "r"(gate) : "memory");
      asm volatile("{ .reg .pred done;\nAGAIN_%=: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN_%=; }" ::"r"(gate), "r"(r & 1) : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(q), "r"(to), "r"(PIECE) : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
  }
}
// Two blocks per cluster; each reads the other's shared memory, 128 bytes per warp and access.
extern "C" __global__ __launch_bounds__(THREADS) __cluster_dims__(2, 1, 1) void known_cluster(ARGUMENTS) {
  SHARED u32 tile[8 * THREADS];
  for (u32 i = LANE; i < 8 * THREADS; i += THREADS) tile[i] = i;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  u32 rank, far, sum = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(place(tile) + LANE * 4), "r"(rank ^ 1));
  LOOP {
    u32 v[8];
    UNROLLED for (int i = 0; i < 8; ++i)
      asm volatile("ld.volatile.shared::cluster.u32 %0, [%1];" : "=r"(v[i]) : "r"(far + i * THREADS * 4) : "memory");
    UNROLLED for (int i = 0; i < 8; ++i) sum += v[i];
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  ((u32*)out)[(u64)GROUP * THREADS + LANE] = sum;
}
#endif
