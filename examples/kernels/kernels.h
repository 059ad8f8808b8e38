// kernels.h: what one entry of the table of kernels states, and the tools that entries share: inputs and checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "gpu.h"

// A number that depends on the size n, kept as text too, so that --list can show what is claimed.
struct Formula {
  const char *text;
  double (*value)(double n);
};
#define FORMULA(expression) {#expression, []([[maybe_unused]] double n) -> double { return expression; }}

// One kernel with its data in place: launch() runs it once, error() compares the first launch with the CPU.
struct Run {
  std::function<void()> launch;
  std::function<double()> error;
};

struct Kernel {
  const char *name;                       // on the command line
  const char *function;                   // what a profiler calls it, without the argument list
  const char *limit;                      // the subsystem that holds it back; two where either answer is right
  const char *size;                       // what n counts
  size_t n;                               // default
  size_t small;                           // with --small: enough to be right, too little to be fast
  Formula memory;                         // bytes allocated on the device
  const char *level;                      // where the bytes below move: hbm, l2 or lds
  Formula bytes;                          // bytes moved by one launch when each element moves once
  Formula flop;                           // floating-point operations of one launch; a fused multiply-add is two
  double tolerance;                       // largest relative error of a right result; 0 where the arithmetic is exact
  Run (*prepare)(size_t n);               // allocates and fills
  size_t (*fit)(size_t n) = nullptr;      // the next smaller size that the kernel accepts, where not all are
  bool intended_wrong = false;            // the check must fail: the kernel shows a known mistake
  const char *(*unavailable)() = nullptr; // why this device cannot run it, or a null pointer
};

// Input element i: pseudo-random in [0.25, 1), a multiple of 1/1024, so that it is never zero and exact even in FP16.
__host__ __device__ inline double input(size_t i, unsigned seed) {
  unsigned long long x =
      (static_cast<unsigned long long>(i) + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  return (256 + (x >> 40) % 768) / 1024.0;
}

template <typename T> __global__ void fill(T *data, size_t count, unsigned seed) {
  for (size_t i = thread_index(); i < count; i += thread_count()) data[i] = static_cast<T>(input(i, seed));
}

// A new buffer with data[i] = input(i, seed).
template <typename T> Buffer<T> filled(size_t count, unsigned seed) {
  Buffer<T> buffer(count);
  launch(fill<T>, filling_grid(), 256, 0, buffer.data(), count, seed);
  return buffer;
}

// use(i, load(i)) for the elements i of this thread in a grid that strides through n. Four loads are under way at once,
// which is what it takes to keep the memory busy.
template <typename Load, typename Use> __device__ inline void stream(size_t n, Load load, Use use) {
  constexpr int BATCH = 4;
  const size_t stride = thread_count();
  for (size_t first = thread_index(); first < n; first += BATCH * stride) {
    decltype(load(first)) loaded[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
      if (const size_t i = first + k * stride; i < n) loaded[k] = load(i);
#pragma unroll
    for (int k = 0; k < BATCH; ++k)
      if (const size_t i = first + k * stride; i < n) use(i, loaded[k]);
  }
}

// What the device gave for one element and what the CPU gives.
struct Pair {
  double got, want;
};

// Largest |got - want| over the largest |want| among at most `samples` of `count` elements, the last one included.
// Anything that is not a number makes the error infinite.
template <typename Element> double relative_error(size_t count, Element element, size_t samples = 1 << 18) {
  const size_t step = std::max<size_t>(1, count / samples) | 1; // odd, so that it meets every phase of a power of two
  double difference = 0, scale = 0;
  auto look = [&](size_t i) {
    const Pair pair = element(i);
    if (!std::isfinite(pair.got)) difference = std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::fabs(pair.got - pair.want));
    scale = std::max(scale, std::fabs(pair.want));
  };
  for (size_t i = 0; i < count; i += step) look(i);
  look(count - 1);
  return scale > 0 ? difference / scale : std::numeric_limits<double>::infinity();
}

// The table, one part per source file.
using Kernels = std::vector<Kernel>;
Kernels matrix_add_kernels(), matmul_kernels(), stencil_kernels(), yax_kernels(), nbody_kernels(), stream_kernels(),
    transpose_kernels(), memory_kernels(), shared_kernels(), arithmetic_kernels(), control_kernels(),
    matrix_unit_kernels(), updates_kernels(), async_copy_kernels(), bulk_copy_kernels(), cluster_kernels(),
    matrix_feed_kernels(), lines_kernels();
