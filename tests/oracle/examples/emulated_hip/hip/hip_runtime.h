// hip_runtime.h: the part of HIP that examples/kernels uses, on the CPU, so that its results can be checked anywhere.
//
// A launch runs its blocks one after the other. The threads of a block are fibers: each runs until it ends or reaches
// __syncthreads(), and no thread passes a barrier before all that still run have reached it. Shared memory is static,
// which holds because only one block runs at a time. Each block's dynamic shared memory and each allocation has exactly
// the size asked for, so that a sanitizer sees what leaves them. No warp is emulated: warpSize is only a number.
#pragma once

#include <ucontext.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)
#define HIP_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(emulated::shared.data());

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
using std::fma;

inline dim3 gridDim, blockDim, blockIdx, threadIdx;
inline constexpr int warpSize = 32;

namespace emulated {
inline std::vector<char> shared;
inline ucontext_t scheduler;

struct Fiber {
  ucontext_t context;
  dim3 index;
  bool ended = true;
};

inline std::vector<std::unique_ptr<Fiber>> fibers;
inline std::vector<std::unique_ptr<char[]>> stacks;
inline Fiber *current;
inline std::function<void()> body;
inline constexpr size_t STACK = 1 << 16;

inline void start() {
  body();
  current->ended = true;
  swapcontext(&current->context, &scheduler);
}

inline void run_block(size_t threads) {
  while (fibers.size() < threads) {
    fibers.push_back(std::make_unique<Fiber>());
    stacks.push_back(std::make_unique<char[]>(STACK));
  }
  for (size_t i = 0; i < threads; ++i) {
    Fiber &fiber = *fibers[i];
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks[i].get();
    fiber.context.uc_stack.ss_size = STACK;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start, 0);
    const unsigned t = static_cast<unsigned>(i);
    fiber.index = dim3(t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y);
    fiber.ended = false;
  }
  for (bool any = true; any;) { // one round takes every thread to its next barrier, or to its end
    any = false;
    for (size_t i = 0; i < threads; ++i) {
      if (fibers[i]->ended) continue;
      current = fibers[i].get();
      threadIdx = current->index;
      swapcontext(&scheduler, &current->context);
      any = true;
    }
  }
}
} // namespace emulated

inline void __syncthreads() {
  emulated::Fiber *mine = emulated::current;
  swapcontext(&mine->context, &emulated::scheduler);
}

template <typename T> T atomicAdd(T *address, T value) {
  const T before = *address;
  *address += value;
  return before;
}

template <typename Kernel, typename... Arguments>
void hipLaunchKernelGGL(Kernel kernel, dim3 grid, dim3 block, size_t shared_bytes, int, Arguments... arguments) {
  gridDim = grid;
  blockDim = block;
  emulated::body = [=] { kernel(arguments...); };
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        emulated::shared.assign(shared_bytes, static_cast<char>(255));
        emulated::run_block(static_cast<size_t>(block.x) * block.y * block.z);
      }
}

enum hipError_t { hipSuccess, hipErrorOutOfMemory };
enum hipMemcpyKind { hipMemcpyDeviceToHost };
enum hipDeviceAttribute_t {
  hipDeviceAttributeMultiprocessorCount,
  hipDeviceAttributeMaxSharedMemoryPerBlock,
  hipDeviceAttributeWarpSize
};
struct hipDeviceProp_t {
  char name[64] = "emulated device", gcnArchName[64] = "none";
  int multiProcessorCount = 2;
  size_t totalGlobalMem = 1 << 30;
};
using hipEvent_t = std::chrono::steady_clock::time_point;

inline const char *hipGetErrorString(hipError_t error) { return error == hipSuccess ? "no error" : "out of memory"; }
inline hipError_t hipGetLastError() { return hipSuccess; }
inline hipError_t hipGetDevice(int *device) { return *device = 0, hipSuccess; }
inline hipError_t hipDeviceSynchronize() { return hipSuccess; }
inline hipError_t hipGetDeviceProperties(hipDeviceProp_t *device, int) {
  return *device = hipDeviceProp_t{}, hipSuccess;
}
inline hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int) {
  *value = attribute == hipDeviceAttributeMultiprocessorCount ? 2
           : attribute == hipDeviceAttributeWarpSize          ? 32
                                                              : 65536;
  return hipSuccess;
}
inline hipError_t hipMemGetInfo(size_t *free, size_t *total) {
  const char *megabytes = std::getenv("EMULATED_MEMORY_MB");
  *free = *total = megabytes ? std::strtoull(megabytes, nullptr, 10) << 20 : size_t{1} << 30;
  return hipSuccess;
}
inline hipError_t hipMalloc(void **memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return *memory ? hipSuccess : hipErrorOutOfMemory;
}
inline hipError_t hipHostAlloc(void **memory, size_t bytes, unsigned) { return hipMalloc(memory, bytes); }
inline hipError_t hipFree(void *memory) { return std::free(memory), hipSuccess; }
inline hipError_t hipMemset(void *memory, int value, size_t bytes) {
  return std::memset(memory, value, bytes), hipSuccess;
}
inline hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind) {
  return std::memcpy(to, from, bytes), hipSuccess;
}
inline hipError_t hipEventCreate(hipEvent_t *) { return hipSuccess; }
inline hipError_t hipEventDestroy(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventRecord(hipEvent_t &event, int) {
  return event = std::chrono::steady_clock::now(), hipSuccess;
}
inline hipError_t hipEventSynchronize(hipEvent_t) { return hipSuccess; }
inline hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t begin, hipEvent_t end) {
  return *milliseconds = std::chrono::duration<float, std::milli>(end - begin).count(), hipSuccess;
}
