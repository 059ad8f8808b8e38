// arithmetic.cu: chains of fused multiply-adds in FP32, FP64 and FP16, and what too many live values cost.
#include "kernels.h"

constexpr int CHAINS = 8, STEPS = 512; // enough independent chains to fill the pipeline of one thread
constexpr double UNIT = 1.0 / 1024;

// Counts up by `unit` from values just above 1, each step as x = x * one + unit. Exact in every type, FP16 included.
template <typename T> __device__ inline void count_up(T (&chain)[CHAINS], T one, T unit) {
#pragma unroll 8
  for (int step = 0; step < STEPS; ++step)
#pragma unroll
    for (int k = 0; k < CHAINS; ++k) chain[k] = multiply_add(chain[k], one, unit); // hot: fp64_fma
}

template <typename T> __device__ inline void count_up_and_add(T *out, size_t n, T one, T unit) {
  const size_t i = thread_index();
  if (i >= n) return;
  T chain[CHAINS], sum = 0;
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) chain[k] = one + static_cast<T>(i % 8 + k) * unit;
  count_up(chain, one, unit);
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) sum += chain[k];
  out[i] = sum;
}

__global__ void fp32_fma(float *out, size_t n, float one, float unit) { count_up_and_add(out, n, one, unit); }
__global__ void fp64_fma(double *out, size_t n, double one, double unit) { count_up_and_add(out, n, one, unit); }

// Two FP16 values per register and instruction; both count alike. The sum is taken in FP32, where it is exact.
__global__ void fp16_fma(float *out, size_t n, float one, float unit) {
  const size_t i = thread_index();
  if (i >= n) return;
  auto both = [](float x) { return Half2{static_cast<Half>(x), static_cast<Half>(x)}; };
  Half2 chain[CHAINS];
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) chain[k] = both(one + static_cast<float>(i % 8 + k) * unit);
  count_up(chain, both(one), both(unit));
  float sum = 0;
#pragma unroll
  for (int k = 0; k < CHAINS; ++k) {
#if ON_AMD
    sum += static_cast<float>(chain[k][0]) + static_cast<float>(chain[k][1]);
#else
    sum += __low2float(chain[k]) + __high2float(chain[k]);
#endif
  }
  out[i] = sum;
}

constexpr int LIVE = 160, ROUNDS = 16, BLOCK = 256;

// 160 values are live at once, but the launch bounds leave 32 registers per thread (CUDA: 8 blocks per multiprocessor)
// or 64 (HIP: 8 waves per SIMD). The rest is spilled to local memory, which is scratch on AMD.
__global__ void __launch_bounds__(BLOCK, 8)
    spill_local(const float *__restrict__ in, float *__restrict__ out, size_t n, float factor) {
  const size_t i = thread_index();
  if (i >= n) return;
  float value[LIVE];
#pragma unroll
  for (int k = 0; k < LIVE; ++k) value[k] = in[i + k];
#pragma unroll 1
  for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
    // hot: spill_local
    for (int k = 0; k < LIVE; ++k) value[k] = fmaf(factor, value[k], value[(k + LIVE / 2) % LIVE]);
  }
  float sum = 0;
#pragma unroll
  for (int k = 0; k < LIVE; ++k) sum += value[k];
  out[i] = sum;
}

template <auto KERNEL, typename T, int LANES> static Run prepare_chains(size_t n) {
  auto out = Buffer<T>(n);
  return {
      [=] { launch(KERNEL, blocks_for(n, BLOCK), BLOCK, 0, out.data(), n, 1.0, UNIT); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double want = 0;
          for (int k = 0; k < CHAINS; ++k) want += LANES * (1 + (i % 8 + k + STEPS) * UNIT);
          return Pair{got[i], want};
        };
        return relative_error(n, element);
      },
  };
}

static Run prepare_spill(size_t n) {
  auto in = filled<float>(n + LIVE, 1), out = Buffer<float>(n);
  const float factor = 0.25f;
  return {
      [=] { launch(spill_local, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n, factor); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double value[LIVE], sum = 0;
          for (int k = 0; k < LIVE; ++k) value[k] = input(i + k, 1);
          for (int round = 0; round < ROUNDS; ++round)
            for (int k = 0; k < LIVE; ++k) value[k] = factor * value[k] + value[(k + LIVE / 2) % LIVE];
          for (int k = 0; k < LIVE; ++k) sum += value[k];
          return Pair{got[i], sum};
        };
        return relative_error(n, element, 4096);
      },
  };
}

Kernels arithmetic_kernels() {
  return {
      {.name = "fp32_fma",
       .function = "fp32_fma",
       .limit = "valu",
       .size = "threads",
       .n = 1 << 22,
       .small = 300,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(4 * n),
       .flop = FORMULA(2.0 * CHAINS * STEPS * n),
       .tolerance = 0,
       .prepare = prepare_chains<fp32_fma, float, 1>},
      {.name = "fp64_fma",
       .function = "fp64_fma",
       .limit = "valu",
       .size = "threads",
       .n = 1 << 22,
       .small = 300,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(2.0 * CHAINS * STEPS * n),
       .tolerance = 0,
       .prepare = prepare_chains<fp64_fma, double, 1>},
      {.name = "fp16_fma",
       .function = "fp16_fma",
       .limit = "valu",
       .size = "threads",
       .n = 1 << 22,
       .small = 300,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(4 * n),
       .flop = FORMULA(2.0 * 2 * CHAINS * STEPS * n),
       .tolerance = 0,
       .prepare = prepare_chains<fp16_fma, float, 2>},
      {.name = "spill_local",
       .function = "spill_local",
       .limit = "scratch",
       .size = "threads",
       .n = 1 << 20,
       .small = 300,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA((2.0 * LIVE * ROUNDS + LIVE) * n),
       .tolerance = 1e-5,
       .prepare = prepare_spill},
  };
}
