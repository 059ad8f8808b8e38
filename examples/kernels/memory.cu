// memory.cu: what the way of reading memory costs: whole lines, scattered lines, one cache level, one read at a time.
#include "kernels.h"

// Every byte read once and written once, in order.
__global__ void hbm_copy(const double *__restrict__ in, double *__restrict__ out, size_t n) {
  stream(n, [=](size_t i) { return in[i]; }, [=](size_t i, double value) { out[i] = value; });
}

constexpr size_t STRIDE = 32; // floats: 128 bytes, a line of its own for each lane

// Of each line one element is used; the device moves at least a sector (32 bytes or more) for its 4 bytes.
__global__ void strided_read(const float *in, float *out, size_t n) {
  for (size_t i = thread_index(); i < n / STRIDE; i += thread_count()) out[i] = in[i * STRIDE]; // hot: strided_read
}

constexpr unsigned L2_GRID = 1024, L2_BLOCK = 256, L2_CHUNK = 8 * L2_BLOCK;

// Every block reads the whole buffer, each starting elsewhere: too large for a first-level cache, small enough for L2.
__global__ void l2_resident(const float *in, float *out, size_t n) {
  const size_t chunks = n / L2_CHUNK;
  float sum = 0;
  for (size_t round = 0; round < chunks; ++round) {
    const float *chunk = in + (blockIdx.x + round) % chunks * L2_CHUNK;
#pragma unroll
    for (unsigned k = 0; k < L2_CHUNK; k += L2_BLOCK) sum += chunk[k + threadIdx.x];
  }
  out[thread_index()] = sum;
}

constexpr unsigned CHASE_GRID = 128, CHASE_BLOCK = 32, HOPS = 2048;

// Where a thread starts: far from its neighbours, and not a power of two away from any of them.
__host__ __device__ inline size_t chase_start(size_t thread, size_t n) { return thread * 2654435761u % n; }

// The next element is known only when this one has arrived. Each thread follows its own way through the table.
__global__ void latency_chase(const unsigned *next, unsigned *end, size_t n) {
  unsigned at = static_cast<unsigned>(chase_start(thread_index(), n));
#pragma unroll 1
  for (unsigned hop = 0; hop < HOPS; ++hop) at = next[at]; // hot: latency_chase
  end[thread_index()] = at;
}

// A linear congruential step visits every index below a power of two once before it returns, in a scattered order.
__host__ __device__ inline unsigned scattered(size_t i, size_t n) {
  return static_cast<unsigned>((i * 1664525 + 1013904223) % n);
}

__global__ void fill_chain(unsigned *next, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) next[i] = scattered(i, n);
}

// A block's threads add what they read in order, halve the number of sums until one is left, and add that to the
// result.
__global__ void reduce_sum(const double *in, double *result, size_t n) {
  __shared__ double part[256];
  double sum = 0;
  stream(n, [=](size_t i) { return in[i]; }, [&](size_t, double value) { sum += value; });
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(result, part[0]);
}

static Run prepare_copy(size_t n) {
  auto in = filled<double>(n, 1);
  auto out = Buffer<double>(n);
  return {
      [=] { launch(hbm_copy, filling_grid(), 256, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], input(i, 1)}; });
      },
  };
}

static Run prepare_strided(size_t n) {
  auto in = filled<float>(n, 1);
  auto out = Buffer<float>(n / STRIDE);
  return {
      [=] { launch(strided_read, filling_grid(), 256, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n / STRIDE, [&](size_t i) { return Pair{got[i], input(i * STRIDE, 1)}; });
      },
  };
}

static Run prepare_l2(size_t n) {
  auto in = filled<float>(n, 1);
  auto out = Buffer<float>(L2_GRID * L2_BLOCK);
  return {
      [=] { launch(l2_resident, L2_GRID, L2_BLOCK, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        std::vector<double> want(L2_BLOCK, 0);
        for (size_t i = 0; i < n; ++i) want[i % L2_BLOCK] += input(i, 1);
        return relative_error(got.size(), [&](size_t i) { return Pair{got[i], want[i % L2_BLOCK]}; });
      },
  };
}

static Run prepare_chase(size_t n) {
  auto next = Buffer<unsigned>(n), end = Buffer<unsigned>(CHASE_GRID * CHASE_BLOCK);
  launch(fill_chain, filling_grid(), 256, 0, next.data(), n);
  return {
      [=] { launch(latency_chase, CHASE_GRID, CHASE_BLOCK, 0, next.data(), end.data(), n); },
      [=] {
        const auto got = end.host();
        auto element = [&](size_t thread) {
          size_t at = chase_start(thread, n);
          for (unsigned hop = 0; hop < HOPS; ++hop) at = scattered(at, n);
          return Pair{static_cast<double>(got[thread]), static_cast<double>(at)};
        };
        return relative_error(got.size(), element);
      },
  };
}

static Run prepare_reduce(size_t n) {
  auto in = filled<double>(n, 1), result = Buffer<double>(1);
  result.clear();
  return {
      [=] { launch(reduce_sum, filling_grid(), 256, 0, in.data(), result.data(), n); },
      [=] {
        const double got = result.host()[0];
        double want = 0;
        for (size_t i = 0; i < n; ++i) want += input(i, 1);
        return relative_error(1, [&](size_t) { return Pair{got, want}; });
      },
  };
}

static size_t whole_lines(size_t n) { return std::max(STRIDE, n / STRIDE * STRIDE); }
static size_t whole_chunks(size_t n) { return std::max<size_t>(L2_CHUNK, n / L2_CHUNK * L2_CHUNK); }
static size_t power_of_two(size_t n) {
  size_t power = CHASE_GRID * CHASE_BLOCK;
  while (power * 2 <= n && power < (1ull << 31)) power *= 2;
  return power;
}

Kernels memory_kernels() {
  return {
      {.name = "hbm_copy",
       .function = "hbm_copy",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 27,
       .small = 10000,
       .memory = FORMULA(16 * n),
       .level = "hbm",
       .bytes = FORMULA(16 * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_copy},
      {.name = "strided_read",
       .function = "strided_read",
       .limit = "hbm|l2",
       .size = "elements, of which every 32nd is read",
       .n = 1 << 28,
       .small = 32000,
       .memory = FORMULA(4 * n + 4 * n / STRIDE),
       .level = "hbm",
       .bytes = FORMULA(8 * n / STRIDE),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_strided,
       .fit = whole_lines},
      {.name = "l2_resident",
       .function = "l2_resident",
       .limit = "l2",
       .size = "elements",
       .n = 1 << 19,
       .small = 4096,
       .memory = FORMULA(4 * n + 4 * L2_GRID * L2_BLOCK),
       .level = "l2",
       .bytes = FORMULA(4 * n * L2_GRID),
       .flop = FORMULA(n * L2_GRID),
       .tolerance = 1e-4,
       .prepare = prepare_l2,
       .fit = whole_chunks},
      {.name = "latency_chase",
       .function = "latency_chase",
       .limit = "latency|occupancy|dispatch",
       .size = "elements of the table",
       .n = 1 << 27,
       .small = 8192,
       .memory = FORMULA(4 * n + 4 * CHASE_GRID * CHASE_BLOCK),
       .level = "hbm",
       .bytes = FORMULA(4.0 * CHASE_GRID * CHASE_BLOCK * HOPS),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_chase,
       .fit = power_of_two},
      {.name = "reduce_sum",
       .function = "reduce_sum",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 27,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(n),
       .tolerance = 0,
       .prepare = prepare_reduce},
  };
}
