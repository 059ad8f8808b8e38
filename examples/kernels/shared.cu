// shared.cu: three ways in which shared memory (LDS) holds a kernel back: bank conflicts, its size, and its barriers.
#include "kernels.h"

constexpr unsigned BLOCK = 256, BANKS = 32, LANES = 64, ROUNDS = 1024;

// The lanes of a warp follow a chain in which they always read 32 different rows of the same bank.
__global__ void shared_conflict(unsigned *end) {
  __shared__ unsigned next[LANES * BANKS];
  for (unsigned i = threadIdx.x; i < LANES * BANKS; i += BLOCK) next[i] = i / BANKS * BANKS + (i + 1) % BANKS;
  __syncthreads();
  unsigned at = threadIdx.x % LANES * BANKS;
#pragma unroll 1
  for (unsigned round = 0; round < ROUNDS + 1; ++round) at = next[at]; // hot: shared_conflict
  end[thread_index()] = at;
}

// A copy in which each block asks for nearly all the shared memory of its multiprocessor: one block at a time fits, and
// its few warps cannot keep enough reads under way.
__global__ void low_occupancy_shared(const float *in, float *out, size_t n) {
  DYNAMIC_SHARED(float, stage)
#pragma unroll 1
  for (size_t i = thread_index(); i < n; i += thread_count()) {
    stage[threadIdx.x] = in[i];
    out[i] = stage[threadIdx.x];
  }
}

constexpr unsigned RING = 1024, TURNS = 256;

// A ring of values moves on by one place per turn: two barriers for one read and one write.
__global__ void barrier_heavy(const float *in, float *out) {
  __shared__ float ring[RING];
  float mine = in[thread_index()];
  for (unsigned turn = 0; turn < TURNS; ++turn) {
    ring[threadIdx.x] = mine;
    __syncthreads(); // hot: barrier_heavy
    mine = ring[(threadIdx.x + 1) % RING];
    __syncthreads(); // hot: barrier_heavy
  }
  out[thread_index()] = mine;
}

static Run prepare_conflict(size_t n) {
  auto end = Buffer<unsigned>(n * BLOCK);
  return {
      [=] { launch(shared_conflict, static_cast<unsigned>(n), BLOCK, 0, end.data()); },
      [=] {
        const auto got = end.host();
        auto element = [&](size_t i) {
          return Pair{static_cast<double>(got[i]), i % LANES * BANKS + (ROUNDS + 1) % BANKS * 1.0};
        };
        return relative_error(got.size(), element);
      },
  };
}

// Seven eighths of what a block may have: more than half of what a multiprocessor has.
static size_t most_shared() {
  int device = 0, most = 0;
  CHECK(GPU(GetDevice)(&device));
#if ON_AMD
  CHECK(hipDeviceGetAttribute(&most, hipDeviceAttributeMaxSharedMemoryPerBlock, device));
#else
  CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  CHECK(cudaFuncSetAttribute(low_occupancy_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most / 8 * 7));
#endif
  return static_cast<size_t>(most / 8 * 7);
}

static Run prepare_low_occupancy(size_t n) {
  auto in = filled<float>(n, 1);
  auto out = Buffer<float>(n);
  const size_t shared_bytes = most_shared();
  return {
      [=] { launch(low_occupancy_shared, filling_grid(), BLOCK, shared_bytes, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], input(i, 1)}; });
      },
  };
}

static Run prepare_barrier(size_t n) {
  auto in = filled<float>(n * RING, 1);
  auto out = Buffer<float>(n * RING);
  return {
      [=] { launch(barrier_heavy, static_cast<unsigned>(n), RING, 0, in.data(), out.data()); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) { return Pair{got[i], input(i / RING * RING + (i + TURNS) % RING, 1)}; };
        return relative_error(got.size(), element);
      },
  };
}

Kernels shared_kernels() {
  return {
      {.name = "shared_conflict",
       .function = "shared_conflict",
       .limit = "lds",
       .size = "blocks of 256 threads",
       .n = 2048,
       .small = 2,
       .memory = FORMULA(4 * BLOCK * n),
       .level = "lds",
       .bytes = FORMULA(4 * BLOCK * n * (ROUNDS + 1)),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_conflict},
      {.name = "low_occupancy_shared",
       .function = "low_occupancy_shared",
       .limit = "occupancy|latency",
       .size = "elements",
       .n = 1 << 26,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_low_occupancy},
      {.name = "barrier_heavy",
       .function = "barrier_heavy",
       .limit = "barrier",
       .size = "blocks of 1024 threads",
       .n = 2048,
       .small = 2,
       .memory = FORMULA(8 * RING * n),
       .level = "lds",
       .bytes = FORMULA(8 * RING * n * TURNS),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_barrier},
  };
}
