// Counted memory accesses. `rounds` is how often the loop runs, `step` the number of groups. `prepare_fill` sets each
// word of a to its index, so that the host can verify what was read.
#include "portable.h"
#define THREADS 256
#define LOOP _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r)
#define AT ((u64)GROUP * THREADS + LANE)
typedef u64 pair;

#if AMD
template <class T> DEVICE T load(const T* p) { return *(MEMORY(const T))p; }
template <class T> DEVICE T past(const T* p) { return __builtin_nontemporal_load((MEMORY(const T))p); }
template <class T> DEVICE void store(T* p, T v) { *(MEMORY(T))p = v; }
DEVICE vec4 vec(u32 w) { return (vec4)(w); }
DEVICE void add(u32* p) { __hip_atomic_fetch_add((MEMORY(u32))p, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
DEVICE u32 added(u32* p) { return __hip_atomic_fetch_add((MEMORY(u32))p, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#else
#define LOADS(NAME, HINT) \
  DEVICE u32 NAME(const u32* p) { \
    u32 v; \
    asm volatile("ld.global" HINT ".u32 %0, [%1];" : "=r"(v) : "l"(p)); \
    return v; \
  } \
  DEVICE pair NAME(const pair* p) { \
    pair v; \
    asm volatile("ld.global" HINT ".u64 %0, [%1];" : "=l"(v) : "l"(p)); \
    return v; \
  } \
  DEVICE vec4 NAME(const vec4* p) { \
    vec4 v; \
    asm volatile("ld.global" HINT ".v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); \
    return v; \
  }
LOADS(load, ".ca")
LOADS(past, ".cg")
DEVICE void store(u32* p, u32 v) { *(volatile u32*)p = v; }
DEVICE void store(vec4* p, vec4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE vec4 vec(u32 w) { return make_uint4(w, w, w, w); }
DEVICE void add(u32* p) { asm volatile("red.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
DEVICE u32 added(u32* p) {
  u32 v;
  asm volatile("atom.global.add.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory");
  return v;
}
#endif
DEVICE u32 word(u32 v) { return v; }
DEVICE u32 word(pair v) { return (u32)v + (u32)(v >> 32); }
DEVICE u32 word(vec4 v) { return v.x + v.y + v.z + v.w; }
DEVICE u32 made(u32 w, u32*) { return w; }
DEVICE vec4 made(u32 w, vec4*) { return vec(w); }

// Also flushes the caches if no profiler does; the buffer is large enough for that.
KERNEL(THREADS) prepare_fill(ARGUMENTS) {
  for (u64 i = AT; i < rounds; i += step * THREADS) ((u32*)out)[i] = (u32)i * (u32)keep;
}

// Every lane reads a different element of those that are STRIDE apart; together they cover the footprint once.
#define READ(NAME, T, STRIDE) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    const u64 next = step * THREADS * STRIDE; \
    const T* p = (const T*)a + AT * STRIDE; \
    u32 sum = 0; \
    LOOP { \
      T v[4]; \
      UNROLLED for (int i = 0; i < 4; ++i) v[i] = load(p + i * next); \
      UNROLLED for (int i = 0; i < 4; ++i) sum += word(v[i]); \
      p += 4 * next; \
    } \
    store((u32*)out + AT, sum); \
  }
READ(known_read_4, u32, 1)
READ(known_read_8, pair, 1)
READ(known_read_16, vec4, 1)
READ(known_read_every_32, u32, 8)
READ(known_read_every_64, u32, 16)
READ(known_read_every_128, u32, 32)

#define WRITE(NAME, T, STRIDE) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    const u64 next = step * THREADS * STRIDE; \
    T* p = (T*)out + AT * STRIDE; \
    LOOP { \
      UNROLLED for (int i = 0; i < 4; ++i) store(p + i * next, made((u32)AT + r * 4 + i, (T*)0)); \
      p += 4 * next; \
    } \
  }
WRITE(known_write_4, u32, 1)
WRITE(known_write_16, vec4, 1)
WRITE(known_write_every_32, u32, 8)
WRITE(known_write_every_128, u32, 32)

KERNEL(THREADS) known_copy_16(ARGUMENTS) {
  const u64 next = step * THREADS;
  const vec4* p = a + AT;
  vec4* q = out + AT;
  LOOP {
    vec4 v[4];
    UNROLLED for (int i = 0; i < 4; ++i) v[i] = load(p + i * next);
    UNROLLED for (int i = 0; i < 4; ++i) store(q + i * next, v[i]);
    p += 4 * next, q += 4 * next;
  }
}

// Every group reads its own 8 KiB in every round: all rounds but the first hit in the vector L1.
KERNEL(THREADS) known_reread_vl1d(ARGUMENTS) {
  const u32* p = (const u32*)a + (u64)GROUP * (8 * THREADS) + LANE;
  u32 sum = 0;
  LOOP {
    u32 v[8];
    UNROLLED for (int i = 0; i < 8; ++i) v[i] = load(p + i * THREADS);
    UNROLLED for (int i = 0; i < 8; ++i) sum += v[i];
    p += keep;
    BARRIER();
  }
  store((u32*)out + AT, sum);
}

// Every group reads its own 64 KiB every four rounds, bypassing the vector L1: after the first time it hits in L2.
KERNEL(THREADS) known_reread_l2(ARGUMENTS) {
  const vec4* p = a + (u64)GROUP * (16 * THREADS) + LANE;
  u32 sum = 0;
  LOOP {
    vec4 v[4];
    UNROLLED for (int i = 0; i < 4; ++i) v[i] = past(p + (r % 4 * 4 + i) * THREADS);
    UNROLLED for (int i = 0; i < 4; ++i) sum += word(v[i]);
    BARRIER();
  }
  store((u32*)out + AT, sum);
}

KERNEL(THREADS) known_add(ARGUMENTS) {
  u32* p = (u32*)out + AT;
  LOOP { UNROLLED for (int i = 0; i < 4; ++i) add(p + i * step * THREADS); }
}
KERNEL(THREADS) known_add_fetch(ARGUMENTS) {
  u32 *p = (u32*)out + AT, sum = 0;
  LOOP {
    u32 v[4];
    UNROLLED for (int i = 0; i < 4; ++i) v[i] = added(p + i * step * THREADS);
    UNROLLED for (int i = 0; i < 4; ++i) sum += v[i];
  }
  if (sum == 1) store(p, sum);
}

// Addresses 16 bytes apart, at an offset unknown to the compiler, which would otherwise merge adjacent accesses.
KERNEL(THREADS) known_scratch(ARGUMENTS) {
  u32 own[32], sum = 0;
#if AMD
  // Through a generic pointer these would be flat accesses.
  auto x = (__attribute__((address_space(5))) volatile u32*)own;
#else
  volatile u32* x = own;
#endif
  x += keep & 3;
  LOOP {
    UNROLLED for (int i = 0; i < 8; ++i) x[i * 4] = r + i;
    UNROLLED for (int i = 0; i < 8; ++i) sum += x[i * 4];
  }
  store((u32*)out + AT, sum);
}

#if AMD
typedef u32 v2 __attribute__((ext_vector_type(2)));
typedef u32 v8 __attribute__((ext_vector_type(8)));
typedef u32 v16 __attribute__((ext_vector_type(16)));
// Scalar loads of 1, 2, 4, 8 and 16 words, one of each per round.
KERNEL(THREADS) known_scalar_read(ARGUMENTS) {
  u32 sum = 0;
  LOOP {
    u32 v1;
    v2 w2;
    vec4 w4;
    v8 w8;
    v16 w16;
    asm volatile(
        "s_load_dword %0, %5, 0x0\ns_load_dwordx2 %1, %5, 0x40\ns_load_dwordx4 %2, %5, 0x80\n"
        "s_load_dwordx8 %3, %5, 0xc0\ns_load_dwordx16 %4, %5, 0x100\ns_waitcnt lgkmcnt(0)"
        : "=&s"(v1), "=&s"(w2), "=&s"(w4), "=&s"(w8), "=&s"(w16) : "s"(a));
    sum += v1 + w2.y + w4.w + w8[7] + w16[15];
  }
  store((u32*)out + AT, sum);
}
#endif
