// Loads and stores of 16 bytes a lane, cached or streaming, and sums that keep every loaded word alive.
#include "portable.h"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef UNROLL
#define UNROLL 4
#endif
#define LOADS 8

#if AMD
DEVICE vec4 stream_load(const vec4* p) { return __builtin_nontemporal_load((MEMORY(const vec4))p); }
DEVICE void stream_store(vec4* p, vec4 v) { __builtin_nontemporal_store(v, (MEMORY(vec4))p); }
DEVICE vec4 cached_load(const vec4* p) { return *(MEMORY(const vec4))p; }
DEVICE vec4 add(vec4 a, vec4 b) { return a + b; }
DEVICE vec4 fill(u32 v) { return (vec4)(v); }
#else
#ifndef LOAD
#define LOAD ".L1::no_allocate"
#endif
#ifndef STORE
#define STORE ""
#endif
#define LOAD_AS(HINT) \
  vec4 v; \
  asm volatile("ld.global" HINT ".v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p)); \
  return v;
DEVICE vec4 stream_load(const vec4* p) { LOAD_AS(LOAD) }
DEVICE vec4 cached_load(const vec4* p) { LOAD_AS(".ca") }
DEVICE void stream_store(vec4* p, vec4 v) {
  asm volatile("st.global" STORE ".v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE vec4 add(vec4 a, vec4 b) { return make_uint4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
DEVICE vec4 fill(u32 v) { return make_uint4(v, v, v, v); }
#endif

// Word i of random data: a float in [1, 2) with 23 random bits, which the host can tell without the words before it.
DEVICE u32 noise(u32 i) {
  i = (i ^ (i >> 16)) * 0x7feb352du;
  i = (i ^ (i >> 15)) * 0x846ca68bu;
  return ((i ^ (i >> 16)) >> 9) | 0x3f800000u;
}
