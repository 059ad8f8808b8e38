// updates.cu: atomics without contention, every element once: those that nobody waits for, and those that return a value.
#include "kernels.h"

constexpr unsigned BLOCK = 256;

// The old value is dropped, so that the cache gets a reduction and no answer comes back.
__global__ void update_only(unsigned *counts, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) atomicAdd(&counts[i], 1u);
}

// The old value is kept.
__global__ void update_fetch(unsigned *counts, unsigned *old, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) old[i] = atomicAdd(&counts[i], 1u);
}

static Buffer<unsigned> zeros(size_t n) {
  auto counts = Buffer<unsigned>(n);
  counts.clear();
  return counts;
}

static Run prepare_only(size_t n) {
  auto counts = zeros(n);
  return {
      [=] { launch(update_only, filling_grid(), BLOCK, 0, counts.data(), n); },
      [=] {
        const auto got = counts.host();
        return relative_error(n, [&](size_t i) { return Pair{static_cast<double>(got[i]), 1}; });
      },
  };
}

static Run prepare_fetch(size_t n) {
  auto counts = zeros(n), old = Buffer<unsigned>(n);
  return {
      [=] { launch(update_fetch, filling_grid(), BLOCK, 0, counts.data(), old.data(), n); },
      [=] {
        const auto got = counts.host(), before = old.host();
        return relative_error(n, [&](size_t i) { return Pair{1.0 * got[i] + 2.0 * before[i], 1}; });
      },
  };
}

Kernels updates_kernels() {
  return {
      {.name = "update_only",
       .function = "update_only",
       .limit = "atomics|l2|hbm",
       .size = "elements",
       .n = 1 << 26,
       .small = 10000,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_only},
      {.name = "update_fetch",
       .function = "update_fetch",
       .limit = "atomics|l2|hbm|latency",
       .size = "elements",
       .n = 1 << 26,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(12 * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_fetch},
  };
}
