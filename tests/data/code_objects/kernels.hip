// The kernels of the shipped code objects; freestanding, so that clang alone compiles them. README.md says how.
#define KERNEL extern "C" __attribute__((global))
#define SIZE(n) __attribute__((amdgpu_flat_work_group_size(n, n)))

// 4 KiB of static LDS, work-groups of 256.
KERNEL SIZE(256) void reverse(float *p) {
  __attribute__((shared)) static float tile[1024];
  int i = __builtin_amdgcn_workitem_id_x();
  tile[i] = p[i];
  __builtin_amdgcn_s_barrier();
  p[i] = tile[255 - i];
}

// Nothing is said about the work-group, so the compiler allows 1024; 100 VGPRs, 50 SGPRs.
KERNEL void wide(float *p) {
  asm volatile("" ::: "v99", "s49");
  p[__builtin_amdgcn_workitem_id_x()] *= 2;
}

// More live values than its 24 registers can hold: some spill to scratch.
KERNEL SIZE(64) __attribute__((amdgpu_num_vgpr(24))) void spilling(float *p) {
  float x[64];
  int i = __builtin_amdgcn_workitem_id_x();
#pragma unroll
  for (int k = 0; k < 64; k++) x[k] = p[i + 64 * k];
  asm volatile("" ::: "memory");
#pragma unroll
  for (int k = 0; k < 64; k++) p[i + 64 * k] = x[k] * x[(k + 7) % 64];
}

#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
// 40 accumulation registers besides 30 VGPRs.
KERNEL SIZE(256) void accumulating() { asm volatile("" ::: "v29", "a39"); }
#endif

// A C++ name, mangled in the notes.
template <int n> __attribute__((global)) void scale(float *p) { p[__builtin_amdgcn_workitem_id_x()] *= n; }
template __attribute__((global)) void scale<3>(float *);
