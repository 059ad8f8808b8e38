// gpu.h: the one place that knows CUDA from HIP. Everything else is written once, against GPU(...), launch and Buffer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

// Compilers set __HIP__; __HIP_PLATFORM_AMD__ is set by HIP's own headers, or by who compiles without such a compiler.
#if defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#define ON_AMD 1
#include <hip/hip_runtime.h>
#define GPU(name) hip##name // GPU(Malloc) is hipMalloc
#define LAUNCH hipLaunchKernelGGL
using DeviceProperties = hipDeviceProp_t;
using Half = _Float16;
typedef _Float16 Half2 __attribute__((vector_size(4)));
#else
#define ON_AMD 0
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define GPU(name) cuda##name // GPU(Malloc) is cudaMalloc
#define LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
using DeviceProperties = cudaDeviceProp;
using Half = __half;
using Half2 = __half2;
#endif

// Shared memory whose size the launch gives. HIP's macro is used where there is one.
#if defined(HIP_DYNAMIC_SHARED)
#define DYNAMIC_SHARED(type, name) HIP_DYNAMIC_SHARED(type, name)
#else
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#endif

// Every call that can fail goes through CHECK; a GPU error ends the program with status 2.
#define CHECK(call) check((call), #call, __FILE__, __LINE__)

inline void check(GPU(Error_t) error, const char *call, const char *file, int line) {
  if (error == GPU(Success)) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, GPU(GetErrorString)(error));
  std::exit(2);
}

// Launches kernel(arguments...) on the default stream; each argument is converted to the type the kernel declares.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Arguments... arguments) {
  LAUNCH(kernel, grid, block, shared_bytes, 0, static_cast<Parameters>(arguments)...);
  CHECK(GPU(GetLastError)());
}

// Number of blocks of `block` items that cover `items`.
inline unsigned blocks_for(size_t items, unsigned block) { return static_cast<unsigned>((items + block - 1) / block); }

// Blocks of a grid that fills the device several times over, for kernels that stride through their data.
inline unsigned filling_grid() {
  int device = 0, multiprocessors = 0;
  CHECK(GPU(GetDevice)(&device));
#if ON_AMD
  CHECK(hipDeviceGetAttribute(&multiprocessors, hipDeviceAttributeMultiprocessorCount, device));
#else
  CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
#endif
  return 16u * static_cast<unsigned>(multiprocessors);
}

// Index of this thread in a one-dimensional grid, and the number of threads of that grid.
__device__ inline size_t thread_index() { return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline size_t thread_count() { return static_cast<size_t>(gridDim.x) * blockDim.x; }

// The fused multiply-add of each type: two operations (per lane of Half2), one instruction.
__device__ inline float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
__device__ inline double multiply_add(double x, double y, double z) { return fma(x, y, z); } // hot: fp64_fma
__device__ inline Half2 multiply_add(Half2 x, Half2 y, Half2 z) {
#if ON_AMD
  return x * y + z; // contracted to v_pk_fma_f16
#else
  return __hfma2(x, y, z);
#endif
}

// Device memory for `count` elements, shared by copies of the handle and freed with the last one.
template <typename T> class Buffer {
public:
  // Starts as all bytes 255, which is NaN for every float type: an element that no kernel wrote cannot pass a check.
  explicit Buffer(size_t count) : count_(count) {
    void *memory = nullptr;
    CHECK(GPU(Malloc)(&memory, count * sizeof(T)));
    memory_ = std::shared_ptr<void>(memory, [](void *owned) { (void)GPU(Free)(owned); });
    CHECK(GPU(Memset)(memory, 255, count * sizeof(T)));
  }
  T *data() const { return static_cast<T *>(memory_.get()); }
  size_t count() const { return count_; }
  void clear() const { CHECK(GPU(Memset)(data(), 0, count_ * sizeof(T))); }
  std::vector<T> host() const {
    std::vector<T> copy(count_);
    CHECK(GPU(Memcpy)(copy.data(), data(), count_ * sizeof(T), GPU(MemcpyDeviceToHost)));
    return copy;
  }

private:
  size_t count_;
  std::shared_ptr<void> memory_;
};
