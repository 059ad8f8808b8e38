// hip_runtime.h: declarations of the part of HIP that examples/kernels uses, enough for clang to compile its device code
// for AMD targets where no ROCm is installed. Nothing here is defined that a link would need: it is never linked.
#pragma once

#include <cstddef>

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
typedef float float4 __attribute__((ext_vector_type(4)));
__host__ __device__ inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }

// The work-item's place in the grid, from the hardware's registers and the dispatch packet.
struct ThreadIndex {
  struct X { __device__ operator unsigned() const { return __builtin_amdgcn_workitem_id_x(); } };
  struct Y { __device__ operator unsigned() const { return __builtin_amdgcn_workitem_id_y(); } };
  X x;
  Y y;
};
struct BlockIndex {
  struct X { __device__ operator unsigned() const { return __builtin_amdgcn_workgroup_id_x(); } };
  struct Y { __device__ operator unsigned() const { return __builtin_amdgcn_workgroup_id_y(); } };
  X x;
  Y y;
};
struct BlockSize {
  struct X { __device__ operator unsigned() const { return __builtin_amdgcn_workgroup_size_x(); } };
  X x;
};
struct GridSize {
  struct X { __device__ operator unsigned() const { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); } };
  struct Y { __device__ operator unsigned() const { return __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(); } };
  X x;
  Y y;
};
extern const __device__ __attribute__((weak)) ThreadIndex threadIdx;
extern const __device__ __attribute__((weak)) BlockIndex blockIdx;
extern const __device__ __attribute__((weak)) BlockSize blockDim;
extern const __device__ __attribute__((weak)) GridSize gridDim;
inline constexpr int warpSize = 64;

#define __launch_bounds__(threads, waves) \
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

__device__ inline void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <typename T> __device__ T atomicAdd(T *address, T value) {
  return __hip_atomic_fetch_add(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// Of the device library, which only ROCm has.
extern "C" __device__ inline float __ocml_rsqrt_f32(float x) { return __builtin_amdgcn_rsqf(x); }

enum hipError_t { hipSuccess };
enum hipMemcpyKind { hipMemcpyDeviceToHost };
enum hipDeviceAttribute_t {
  hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeWarpSize
};
struct hipDeviceProp_t {
  char name[256], gcnArchName[256];
  int multiProcessorCount;
  size_t totalGlobalMem;
};
typedef struct Event *hipEvent_t;
typedef struct Stream *hipStream_t;

const char *hipGetErrorString(hipError_t);
hipError_t hipGetLastError();
hipError_t hipGetDevice(int *);
hipError_t hipDeviceSynchronize();
hipError_t hipGetDeviceProperties(hipDeviceProp_t *, int);
hipError_t hipDeviceGetAttribute(int *, hipDeviceAttribute_t, int);
hipError_t hipMemGetInfo(size_t *, size_t *);
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipMemset(void *, int, size_t);
hipError_t hipMemcpy(void *, const void *, size_t, hipMemcpyKind);
hipError_t hipEventCreate(hipEvent_t *);
hipError_t hipEventDestroy(hipEvent_t);
hipError_t hipEventRecord(hipEvent_t, hipStream_t);
hipError_t hipEventSynchronize(hipEvent_t);
hipError_t hipEventElapsedTime(float *, hipEvent_t, hipEvent_t);
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
