// control.cu: kernels held back by how threads run: different paths, code too large, too few blocks, one address.
#include "kernels.h"

constexpr unsigned BLOCK = 256, PATHS = 16;
constexpr int STEPS = 64;

// Sixteen loops of the same length that differ in constants, so that the paths cost the same but cannot be merged.
template <unsigned PATH> __device__ inline float follow(float x) {
  constexpr float factor = 0.5f + PATH / 64.0f, term = 0.25f + PATH / 32.0f;
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) x = fmaf(x, factor, term); // hot: divergence
  return x;
}

__device__ inline float follow(unsigned path, float x) {
  switch (path) { // hot: divergence (16 lines below)
  case 0: return follow<0>(x);
  case 1: return follow<1>(x);
  case 2: return follow<2>(x);
  case 3: return follow<3>(x);
  case 4: return follow<4>(x);
  case 5: return follow<5>(x);
  case 6: return follow<6>(x);
  case 7: return follow<7>(x);
  case 8: return follow<8>(x);
  case 9: return follow<9>(x);
  case 10: return follow<10>(x);
  case 11: return follow<11>(x);
  case 12: return follow<12>(x);
  case 13: return follow<13>(x);
  case 14: return follow<14>(x);
  default: return follow<15>(x);
  }
}

// Neighbouring threads take different paths, which a warp runs one after the other.
__global__ void divergence(const float *in, float *out, size_t n) {
  const size_t i = thread_index();
  if (i < n) out[i] = follow(i % PATHS, in[i]);
}

constexpr int SECTIONS = 8, LENGTH = 2048, LAPS = 4, TERMS = 8;

// What step k of a section adds: 1 to 64 units in the last place, other numbers in each section.
__host__ __device__ constexpr float increment(int section, int k) {
  return static_cast<float>(section * TERMS + k % TERMS + 1) / (1 << 23);
}

template <int SECTION> __device__ inline float walk(float x, float one) {
#pragma unroll
  for (int group = 0; group < LENGTH / TERMS; ++group) {
#pragma unroll
    for (int k = 0; k < TERMS; ++k) x = fmaf(x, one, increment(SECTION, k)); // hot: icache_heavy
  }
  asm volatile(""); // keeps compilers from merging the sections, which differ only in constants
  return x;
}

// Straight-line code of more than 100 KiB, larger than the instruction caches. Each warp starts in another section, so
// that the warps of a multiprocessor do not share what they fetch.
__global__ void icache_heavy(float *out, size_t n, float one) {
  const size_t i = thread_index();
  const unsigned warp = threadIdx.x / warpSize;
  float x = one;
#pragma unroll 1
  for (unsigned round = 0; round < LAPS * SECTIONS; ++round) {
    switch ((warp + round) % SECTIONS) { // hot: icache_heavy (8 lines below)
    case 0: x = walk<0>(x, one); break;
    case 1: x = walk<1>(x, one); break;
    case 2: x = walk<2>(x, one); break;
    case 3: x = walk<3>(x, one); break;
    case 4: x = walk<4>(x, one); break;
    case 5: x = walk<5>(x, one); break;
    case 6: x = walk<6>(x, one); break;
    default: x = walk<7>(x, one); break;
    }
  }
  if (i < n) out[i] = x;
}

constexpr unsigned SMALL_GRID = 8;

// Eight blocks, whatever the size: most of the device has nothing to do.
__global__ void small_grid(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) out[i] = 0.5f * in[i];
}

constexpr unsigned COUNTERS = 4, ADDS = 16;

// Every thread adds to one of four addresses.
__global__ void atomic_contention(unsigned *counters, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  // hot: atomic_contention
  for (unsigned k = 0; k < ADDS; ++k) atomicAdd(&counters[(i + k) % COUNTERS], static_cast<unsigned>(i % 7 + 1));
}

static Run prepare_divergence(size_t n) {
  auto in = filled<float>(n, 1), out = Buffer<float>(n);
  return {
      [=] { launch(divergence, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          const double path = static_cast<double>(i % PATHS);
          double want = input(i, 1);
          for (int step = 0; step < STEPS; ++step) want = want * (0.5 + path / 64) + (0.25 + path / 32);
          return Pair{got[i], want};
        };
        return relative_error(n, element, 1 << 16);
      },
  };
}

static Run prepare_icache(size_t n) {
  auto out = Buffer<float>(n);
  return {
      [=] { launch(icache_heavy, blocks_for(n, BLOCK), BLOCK, 0, out.data(), n, 1.0f); },
      [=] {
        const auto got = out.host();
        double want = 1;
        for (int section = 0; section < SECTIONS; ++section)
          for (int k = 0; k < LENGTH; ++k) want += LAPS * static_cast<double>(increment(section, k));
        return relative_error(n, [&](size_t i) { return Pair{got[i], want}; });
      },
  };
}

static Run prepare_small_grid(size_t n) {
  auto in = filled<float>(n, 1), out = Buffer<float>(n);
  return {
      [=] { launch(small_grid, SMALL_GRID, BLOCK, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], 0.5 * input(i, 1)}; });
      },
  };
}

static Run prepare_atomic(size_t n) {
  auto counters = Buffer<unsigned>(COUNTERS);
  counters.clear();
  return {
      [=] { launch(atomic_contention, blocks_for(n, BLOCK), BLOCK, 0, counters.data(), n); },
      [=] {
        const auto got = counters.host();
        std::vector<unsigned> want(COUNTERS, 0); // wraps around like the device
        for (size_t i = 0; i < n; ++i)
          for (unsigned k = 0; k < COUNTERS; ++k) want[k] += ADDS / COUNTERS * static_cast<unsigned>(i % 7 + 1);
        auto element = [&](size_t k) { return Pair{static_cast<double>(got[k]), static_cast<double>(want[k])}; };
        return relative_error(COUNTERS, element);
      },
  };
}

Kernels control_kernels() {
  return {
      {.name = "divergence",
       .function = "divergence",
       .limit = "divergence",
       .size = "threads",
       .n = 1 << 24,
       .small = 1000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(2.0 * STEPS * n),
       .tolerance = 1e-6,
       .prepare = prepare_divergence},
      {.name = "icache_heavy",
       .function = "icache_heavy",
       .limit = "instruction_fetch",
       .size = "threads",
       .n = 1 << 18,
       .small = 300,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(4 * n),
       .flop = FORMULA(2.0 * SECTIONS * LENGTH * LAPS * n),
       .tolerance = 0,
       .prepare = prepare_icache},
      {.name = "small_grid",
       .function = "small_grid",
       .limit = "dispatch|occupancy|latency",
       .size = "elements",
       .n = 1 << 22,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(n),
       .tolerance = 0,
       .prepare = prepare_small_grid},
      {.name = "atomic_contention",
       .function = "atomic_contention",
       .limit = "atomics",
       .size = "threads",
       .n = 1 << 20,
       .small = 1000,
       .memory = FORMULA(4 * COUNTERS),
       .level = "l2",
       .bytes = FORMULA(4.0 * ADDS * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_atomic},
  };
}
