// Counted instructions: 16 independent chains per lane, with each instruction written out, so that no compiler packs,
// folds or drops one. `step` and `keep` contain the bits of the operands y and z; the chains start from values in a.
#include "portable.h"
#define THREADS 256
#define STEPS 8
#define LOOP _Pragma("unroll 1") for (u32 r = 0; r < (u32)rounds; ++r)

#define ONE(I, n, m) I " %" #n ", %" #n ";\n"
#define TWO(I, n, m) I " %" #n ", %" #n ", %16;\n"
#define THREE(I, n, m) I " %" #n ", %" #n ", %16, %17;\n"
// Uses each chain and its neighbour, so no two of these can be merged.
#define MIXED(I, n, m) I " %" #n ", %" #n ", %" #m ", %16, 0x6a;\n"
#define HELD_BACK(I, n, m) "@p " I " %" #n ", %" #n ", %16, %17;\n"
#if AMD
#define PICK(amd, nvidia) amd
#define CONVERTED(I, n, m) "v_cvt_f32_i32 %" #n ", %" #n "\nv_cvt_i32_f32 %" #n ", %" #n "\n"
#else
#define PICK(amd, nvidia) nvidia
#define CONVERTED(I, n, m) "cvt.rn.f32.s32 t, %" #n ";\ncvt.rzi.s32.f32 %" #n ", t;\n"
#endif
#define SIXTEEN(FORM, I) \
  FORM(I, 0, 1) FORM(I, 1, 2) FORM(I, 2, 3) FORM(I, 3, 4) FORM(I, 4, 5) FORM(I, 5, 6) FORM(I, 6, 7) FORM(I, 7, 8) \
  FORM(I, 8, 9) FORM(I, 9, 10) FORM(I, 10, 11) FORM(I, 11, 12) FORM(I, 12, 13) FORM(I, 13, 14) FORM(I, 14, 15) FORM(I, 15, 0)
#define REGISTERS(C) \
  "+" C(x[0]), "+" C(x[1]), "+" C(x[2]), "+" C(x[3]), "+" C(x[4]), "+" C(x[5]), "+" C(x[6]), "+" C(x[7]), \
  "+" C(x[8]), "+" C(x[9]), "+" C(x[10]), "+" C(x[11]), "+" C(x[12]), "+" C(x[13]), "+" C(x[14]), "+" C(x[15])

template <class T> DEVICE T bits(u64 v) {
  union {
    u64 from;
    T to;
  } u;
  u.from = v;
  return u.to;
}

#define CHAIN(NAME, T, FORM, I, C, BEFORE, AFTER, LANES) \
  KERNEL(THREADS) NAME(ARGUMENTS) { \
    T x[16], y = bits<T>(step), z = bits<T>(keep); \
    UNROLLED for (int i = 0; i < 16; ++i) x[i] = ((const T*)a)[i * THREADS + LANE]; \
    if (LANES) { \
      LOOP { \
        UNROLLED for (int s = 0; s < STEPS; ++s) \
          asm volatile(BEFORE SIXTEEN(FORM, I) AFTER : REGISTERS(C) : C(y), C(z)); \
      } \
    } \
    UNROLLED for (int i = 0; i < 16; ++i) ((T*)out)[((u64)GROUP * 16 + i) * THREADS + LANE] = x[i]; \
  }
#define PLAIN(NAME, T, FORM, I, C) CHAIN(NAME, T, FORM, I, C, "", "", 1)

PLAIN(known_add_f32, float, TWO, PICK("v_add_f32", "add.rn.f32"), PICK("v", "f"))
PLAIN(known_mul_f32, float, TWO, PICK("v_mul_f32", "mul.rn.f32"), PICK("v", "f"))
PLAIN(known_fma_f32, float, THREE, PICK("v_fma_f32", "fma.rn.f32"), PICK("v", "f"))
PLAIN(known_add_f64, double, TWO, PICK("v_add_f64", "add.rn.f64"), PICK("v", "d"))
PLAIN(known_mul_f64, double, TWO, PICK("v_mul_f64", "mul.rn.f64"), PICK("v", "d"))
PLAIN(known_fma_f64, double, THREE, PICK("v_fma_f64", "fma.rn.f64"), PICK("v", "d"))
// Packed pairs on NVIDIA, which has no scalar form; single numbers on AMD, whose pairs follow below.
PLAIN(known_add_f16, u32, TWO, PICK("v_add_f16", "add.rn.f16x2"), PICK("v", "r"))
PLAIN(known_mul_f16, u32, TWO, PICK("v_mul_f16", "mul.rn.f16x2"), PICK("v", "r"))
PLAIN(known_fma_f16, u32, THREE, PICK("v_fma_f16", "fma.rn.f16x2"), PICK("v", "r"))
PLAIN(known_mad_i32, u32, THREE, PICK("v_mad_u32_u24", "mad.lo.u32"), PICK("v", "r"))
// The compiler would fold a reciprocal of a reciprocal.
PLAIN(known_special_f32, float, ONE, PICK("v_rcp_f32", "tanh.approx.f32"), PICK("v", "f"))
CHAIN(known_convert, u32, CONVERTED, "", PICK("v", "r"), PICK("", "{ .reg .f32 t;\n"), PICK("", "}\n"), 1)
// Half of the lanes of every wave do the work.
CHAIN(known_half, float, THREE, PICK("v_fma_f32", "fma.rn.f32"), PICK("v", "f"), "", "", (LANE & (u32)(step >> 32)) == 0)
#if AMD
PLAIN(known_special_f16, u32, ONE, "v_rcp_f16", "v")
PLAIN(known_special_f64, double, ONE, "v_rcp_f64", "v")
PLAIN(known_pairs_f16, u32, THREE, "v_pk_fma_f16", "v")
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
typedef float f32x2 __attribute__((ext_vector_type(2)));
PLAIN(known_pairs_f32, f32x2, THREE, "v_pk_fma_f32", "v")
#endif
#define SCALAR " %0, %0, %1\n"
#define SCALAR16(I) I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR \
                    I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR I SCALAR
KERNEL(THREADS) known_scalar(ARGUMENTS) {
  u32 x = (u32)step, y = (u32)keep;
  LOOP {
    UNROLLED for (int s = 0; s < STEPS; ++s) asm volatile(SCALAR16("s_add_u32") : "+s"(x) : "s"(y) : "scc");
  }
  ((u32*)out)[(u64)GROUP * THREADS + LANE] = x;
}
#else
PLAIN(known_bits, u32, MIXED, "lop3.b32", "r")
CHAIN(known_predicated, float, HELD_BACK, "fma.rn.f32", "f", "{ .reg .pred p; .reg .u32 l;\nmov.u32 l, %%laneid;\nsetp.lt.u32 p, l, 16;\n", "}\n", 1)
#endif

// Every other lane takes the first branch in even rounds and the second in odd ones, so each round executes both.
KERNEL(THREADS) known_diverge(ARGUMENTS) {
  float x[16], y = bits<float>(step), z = bits<float>(keep);
  UNROLLED for (int i = 0; i < 16; ++i) x[i] = ((const float*)a)[i * THREADS + LANE];
  LOOP {
    if ((LANE + r) & 1) {
      asm volatile(SIXTEEN(THREE, PICK("v_fma_f32", "fma.rn.f32")) : REGISTERS(PICK("v", "f")) : PICK("v", "f")(y), PICK("v", "f")(z));
    } else {
      asm volatile(SIXTEEN(TWO, PICK("v_add_f32", "add.rn.f32")) : REGISTERS(PICK("v", "f")) : PICK("v", "f")(y), PICK("v", "f")(z));
    }
  }
  UNROLLED for (int i = 0; i < 16; ++i) ((float*)out)[((u64)GROUP * 16 + i) * THREADS + LANE] = x[i];
}
