// LDS accesses by lanes that are `step` words apart. If `step` is a power of 2, that many lanes share a bank. Eight
// accesses per round, each written out.
#include "portable.h"
#define THREADS 256
#define LOOP _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r)
#define WORDS 8192
#if AMD
#define WAVE __builtin_amdgcn_wavefrontsize()
#define PLACE(p) ((u32)(__UINTPTR_TYPE__)(__attribute__((address_space(3))) void*)(p))
#define EIGHT(I, A) \
  I A(0) " offset:0\n" I A(1) " offset:4096\n" I A(2) " offset:8192\n" I A(3) " offset:12288\n" I A(4) " offset:16384\n" \
  I A(5) " offset:20480\n" I A(6) " offset:24576\n" I A(7) " offset:28672\n"
#define INTO(n) " %" #n ", %8"
#define FROM(n) " %0, %1"
#define READ EIGHT("ds_read_b32", INTO) "s_waitcnt lgkmcnt(0)"
#define WRITE EIGHT("ds_write_b32", FROM) "s_waitcnt lgkmcnt(0)"
#define ADD EIGHT("ds_add_u32", FROM) "s_waitcnt lgkmcnt(0)"
#define REGISTER "v"
#define RESULT "=&v"
#else
#define WAVE 32
DEVICE u32 place(void* p) {
  u32 at;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(p));
  return at;
}
#define PLACE(p) place(p)
#define READ \
  "ld.volatile.shared.u32 %0, [%8];\nld.volatile.shared.u32 %1, [%8+4096];\nld.volatile.shared.u32 %2, [%8+8192];\nld.volatile.shared.u32 %3, [%8+12288];\n" \
  "ld.volatile.shared.u32 %4, [%8+16384];\nld.volatile.shared.u32 %5, [%8+20480];\nld.volatile.shared.u32 %6, [%8+24576];\nld.volatile.shared.u32 %7, [%8+28672];"
#define EIGHT(I) \
  I " [%0], %1;\n" I " [%0+4096], %1;\n" I " [%0+8192], %1;\n" I " [%0+12288], %1;\n" \
  I " [%0+16384], %1;\n" I " [%0+20480], %1;\n" I " [%0+24576], %1;\n" I " [%0+28672], %1;"
#define WRITE EIGHT("st.shared.u32")
#define ADD EIGHT("red.shared.add.u32")
#define REGISTER "r"
#define RESULT "=r"
#endif

#define BEGUN \
  SHARED u32 tile[WORDS]; \
  for (u32 i = LANE; i < WORDS; i += THREADS) tile[i] = i; \
  BARRIER(); \
  u32 at = PLACE(tile) + LANE % WAVE * (u32)step * 4;
#define ENDED \
  BARRIER(); \
  ((u32*)out)[(u64)GROUP * THREADS + LANE] = tile[LANE] + sum;

#define LDS_READ(NAME) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGUN; \
    u32 sum = 0; \
    LOOP { \
      u32 v[8]; \
      asm volatile(READ \
                   : RESULT(v[0]), RESULT(v[1]), RESULT(v[2]), RESULT(v[3]), RESULT(v[4]), RESULT(v[5]), RESULT(v[6]), RESULT(v[7]) \
                   : REGISTER(at) : "memory"); \
      UNROLLED for (int i = 0; i < 8; ++i) sum += v[i]; \
    } \
    ENDED; \
  }
#define LDS_CHANGE(NAME, WHAT) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    BEGUN; \
    u32 sum = 0; \
    LOOP { asm volatile(WHAT ::REGISTER(at), REGISTER((u32)keep) : "memory"); } \
    ENDED; \
  }
LDS_READ(known_lds_read)
LDS_READ(known_lds_read_2)
LDS_READ(known_lds_read_4)
LDS_READ(known_lds_read_8)
LDS_READ(known_lds_read_16)
LDS_CHANGE(known_lds_write, WRITE)
LDS_CHANGE(known_lds_write_4, WRITE)
LDS_CHANGE(known_lds_add, ADD)
