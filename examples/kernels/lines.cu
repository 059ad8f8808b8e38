// lines.cu: kernels whose time goes to one line that is known: marked `hot: NAME`, as such lines are in the other files.
#include "kernels.h"

constexpr unsigned BLOCK = 256;

// Neighbouring threads read elements that lie anywhere: a line of memory for each of them.
__global__ void gather(const float *table, const unsigned *index, float *out, size_t n) {
#pragma unroll 1
  for (size_t i = thread_index(); i < n; i += thread_count()) {
    const unsigned from = index[i];
    out[i] = 2 * table[from] + 1; // hot: gather
  }
}

// A linear congruential step: all indices below a power of two, in an order without neighbours.
__host__ __device__ inline unsigned anywhere(size_t i, size_t n) {
  return static_cast<unsigned>((i * 1664525 + 1013904223) % n);
}

__global__ void fill_index(unsigned *index, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) index[i] = anywhere(i, n);
}

constexpr unsigned CREW = 512, LEADERS = 64, SHIFTS = 64;
constexpr int ALONE = 256;

// Two warps of sixteen compute while the others wait for them at the barrier.
__global__ void skewed_barrier(const float *in, float *out) {
  __shared__ float part[LEADERS];
  float mine = in[thread_index()];
#pragma unroll 1
  for (unsigned shift = 0; shift < SHIFTS; ++shift) {
    if (threadIdx.x < LEADERS) {
      float x = mine;
#pragma unroll 4
      for (int step = 0; step < ALONE; ++step) x = fmaf(x, 0.5f, 0.25f); // hot: skewed_barrier
      part[threadIdx.x] = x;
    }
    __syncthreads(); // hot: skewed_barrier
    mine = 0.5f * (mine + part[threadIdx.x % LEADERS]);
    __syncthreads();
  }
  out[thread_index()] = mine;
}

constexpr int ROOTS = 512;

// Each reciprocal square root waits for the last one.
__global__ void sfu_chain(const float *in, float *out, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  float x = in[i];
#pragma unroll 4
  for (int step = 0; step < ROOTS; ++step) x = rsqrtf(x + 1); // hot: sfu_chain
  out[i] = x;
}

constexpr unsigned DIVISIONS = 128;

__host__ __device__ inline unsigned dividend(unsigned quotient, unsigned step) { return quotient * 40503u + step; }

// No GPU divides integers by itself: a division is a piece of code around a reciprocal.
__global__ void integer_division(unsigned *out, size_t n, unsigned divisor) {
  const size_t i = thread_index();
  if (i >= n) return;
  unsigned x = static_cast<unsigned>(i) + divisor;
#pragma unroll 1
  for (unsigned step = 0; step < DIVISIONS; ++step) {
    const unsigned wide = dividend(x, step);
    x = wide / divisor; // hot: integer_division
  }
  out[i] = x;
}

constexpr int SELDOM = 4, OFTEN = 512;

// Inlined where it is called: its line is of two places then.
__device__ inline float settle(float x, int steps) {
#pragma unroll 4
  for (int step = 0; step < steps; ++step) x = fmaf(x, 0.75f, 0.125f); // hot: two_callers
  return x;
}

__global__ void two_callers(const float *in, float *out, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  const float first = settle(in[i], SELDOM);
  out[i] = settle(first * first, OFTEN); // hot: two_callers
}

// The same line in two instances of a template, of which one has all the work.
template <int DEGREE> __global__ void template_instance(const float *in, float *out, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  const float x = 0.5f * in[i];
  float sum = 0;
#pragma unroll 8
  for (int k = DEGREE; k > 0; --k) sum = fmaf(sum, x, 1.0f); // hot: template_instance
  out[i] = sum;
}

constexpr unsigned WIDE = 32, TALL = 8;
constexpr size_t WINDOW = 9, RIM = WINDOW - 1, LAYERS = 3;

// Three loops around one line: only the innermost is worth a look.
__global__ void loop_nest(const float *in, const float *weight, float *out, size_t n) {
  const size_t x = blockIdx.x * WIDE + threadIdx.x, y = blockIdx.y * TALL + threadIdx.y;
  if (x >= n || y >= n) return;
  float total = 0;
#pragma unroll 1
  for (size_t layer = 0; layer < LAYERS; ++layer) {
    float sum = 0;
#pragma unroll 1
    for (size_t row = 0; row < WINDOW; ++row) {
      const float *line = in + (y + row) * (n + RIM) + x;
      const float *factors = weight + (layer * WINDOW + row) * WINDOW;
      for (size_t k = 0; k < WINDOW; ++k) sum = fmaf(factors[k], line[k], sum); // hot: loop_nest
    }
    total += sum / static_cast<float>(layer + 1);
  }
  out[y * n + x] = total;
}

constexpr int PARTS = 64;

// The only kernel of its run that takes time: each division in FP64 waits for the last one.
__global__ void hot_among_cold(double *data, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  double x = data[i];
#pragma unroll 1
  for (int part = 0; part < PARTS; ++part) x = 1 / (x + 0.5); // hot: hot_among_cold
  data[i] = x;
}

template <int VALUE> __global__ void fill_cold(float *data, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) data[i] = VALUE;
}

static Run prepare_gather(size_t n) {
  auto table = filled<float>(n, 1);
  auto index = Buffer<unsigned>(n);
  auto out = Buffer<float>(n);
  launch(fill_index, filling_grid(), BLOCK, 0, index.data(), n);
  return {
      [=] { launch(gather, filling_grid(), BLOCK, 0, table.data(), index.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], 2 * input(anywhere(i, n), 1) + 1}; });
      },
  };
}

static Run prepare_skewed(size_t n) {
  auto in = filled<float>(n * CREW, 1), out = Buffer<float>(n * CREW);
  return {
      [=] { launch(skewed_barrier, static_cast<unsigned>(n), CREW, 0, in.data(), out.data()); },
      [=] {
        const auto got = out.host();
        // So many steps end at their fixed point, and the mean with it comes as close.
        return relative_error(got.size(), [&](size_t i) { return Pair{got[i], 0.5}; });
      },
  };
}

static Run prepare_roots(size_t n) {
  auto in = filled<float>(n, 1), out = Buffer<float>(n);
  return {
      [=] { launch(sfu_chain, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double want = input(i, 1);
          for (int step = 0; step < ROOTS; ++step) want = 1 / std::sqrt(want + 1);
          return Pair{got[i], want};
        };
        return relative_error(n, element, 1 << 12);
      },
  };
}

constexpr unsigned DIVISOR = 40961;

static Run prepare_division(size_t n) {
  auto out = Buffer<unsigned>(n);
  return {
      [=] { launch(integer_division, blocks_for(n, BLOCK), BLOCK, 0, out.data(), n, DIVISOR); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          unsigned want = static_cast<unsigned>(i) + DIVISOR;
          for (unsigned step = 0; step < DIVISIONS; ++step) want = dividend(want, step) / DIVISOR;
          return Pair{static_cast<double>(got[i]), static_cast<double>(want)};
        };
        return relative_error(n, element, 1 << 14);
      },
  };
}

static Run prepare_callers(size_t n) {
  auto in = filled<float>(n, 1), out = Buffer<float>(n);
  return {
      [=] { launch(two_callers, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], 0.5}; }); // the fixed point, long reached
      },
  };
}

constexpr int LOW = 2, HIGH = 512;

static Run prepare_instances(size_t n) {
  auto in = filled<float>(n, 1), out = Buffer<float>(n);
  return {
      [=] {
        launch(template_instance<LOW>, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n);
        launch(template_instance<HIGH>, blocks_for(n, BLOCK), BLOCK, 0, in.data(), out.data(), n);
      },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], 1 / (1 - 0.5 * input(i, 1))}; });
      },
  };
}

static Run prepare_nest(size_t n) {
  auto in = filled<float>((n + RIM) * (n + RIM), 1), weight = filled<float>(LAYERS * WINDOW * WINDOW, 2);
  auto out = Buffer<float>(n * n);
  const dim3 grid(blocks_for(n, WIDE), blocks_for(n, TALL)), block(WIDE, TALL);
  return {
      [=] { launch(loop_nest, grid, block, 0, in.data(), weight.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double want = 0;
          for (size_t layer = 0; layer < LAYERS; ++layer) {
            double sum = 0;
            for (size_t k = 0; k < WINDOW * WINDOW; ++k)
              sum += input(layer * WINDOW * WINDOW + k, 2) *
                     input((i / n + k / WINDOW) * (n + RIM) + i % n + k % WINDOW, 1);
            want += sum / static_cast<double>(layer + 1);
          }
          return Pair{got[i], want};
        };
        return relative_error(n * n, element, 1 << 12);
      },
  };
}

constexpr size_t COLD = 1 << 16;

static Run prepare_among(size_t n) {
  auto data = filled<double>(n, 1);
  auto cold = Buffer<float>(COLD);
  return {
      [=] {
        launch(fill_cold<1>, blocks_for(COLD, BLOCK), BLOCK, 0, cold.data(), COLD);
        launch(fill_cold<2>, blocks_for(COLD, BLOCK), BLOCK, 0, cold.data(), COLD);
        launch(hot_among_cold, blocks_for(n, BLOCK), BLOCK, 0, data.data(), n);
        launch(fill_cold<3>, blocks_for(COLD, BLOCK), BLOCK, 0, cold.data(), COLD);
      },
      [=] {
        const auto got = data.host();
        auto element = [&](size_t i) {
          double want = input(i, 1);
          for (int part = 0; part < PARTS; ++part) want = 1 / (want + 0.5);
          return Pair{got[i], want};
        };
        return relative_error(n, element, 1 << 12);
      },
  };
}

static size_t power_of_two(size_t n) {
  size_t power = 64;
  while (power * 2 <= n && power < (1ull << 31)) power *= 2;
  return power;
}

Kernels lines_kernels() {
  return {
      {.name = "gather",
       .function = "gather",
       .limit = "hbm|l2|vl1d|latency",
       .size = "elements",
       .n = 1 << 25,
       .small = 8192,
       .memory = FORMULA(12 * n),
       .level = "hbm",
       .bytes = FORMULA(12 * n),
       .flop = FORMULA(2 * n),
       .tolerance = 1e-6,
       .prepare = prepare_gather,
       .fit = power_of_two},
      {.name = "skewed_barrier",
       .function = "skewed_barrier",
       .limit = "barrier|latency|valu",
       .size = "blocks of 512 threads",
       .n = 1 << 12,
       .small = 3,
       .memory = FORMULA(8 * CREW * n),
       .level = "hbm",
       .bytes = FORMULA(8 * CREW * n),
       .flop = FORMULA(2.0 * (CREW + ALONE * LEADERS) * SHIFTS * n),
       .tolerance = 1e-5,
       .prepare = prepare_skewed},
      {.name = "sfu_chain",
       .function = "sfu_chain",
       .limit = "sfu|valu|latency",
       .size = "elements",
       .n = 1 << 22,
       .small = 1000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(2.0 * ROOTS * n),
       .tolerance = 1e-5,
       .prepare = prepare_roots},
      {.name = "integer_division",
       .function = "integer_division",
       .limit = "valu|sfu|latency",
       .size = "elements",
       .n = 1 << 22,
       .small = 1000,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(4 * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare_division},
      {.name = "two_callers",
       .function = "two_callers",
       .limit = "valu|latency",
       .size = "elements",
       .n = 1 << 23,
       .small = 1000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA((2.0 * (SELDOM + OFTEN) + 1) * n),
       .tolerance = 1e-5,
       .prepare = prepare_callers},
      {.name = "template_instance",
       .function = "template_instance<512>",
       .limit = "valu|latency",
       .size = "elements",
       .n = 1 << 23,
       .small = 1000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA((2.0 * HIGH + 1) * n),
       .tolerance = 1e-5,
       .prepare = prepare_instances},
      {.name = "loop_nest",
       .function = "loop_nest",
       .limit = "vl1d|valu|latency",
       .size = "rows and columns",
       .n = 2048,
       .small = 40,
       .memory = FORMULA(4 * (n + RIM) * (n + RIM) + 4 * n * n + 4 * LAYERS * WINDOW * WINDOW),
       .level = "hbm",
       .bytes = FORMULA(4 * (n + RIM) * (n + RIM) + 4 * n * n + 4 * LAYERS * WINDOW * WINDOW),
       .flop = FORMULA(2 * LAYERS * (WINDOW * WINDOW + 1) * n * n),
       .tolerance = 1e-5,
       .prepare = prepare_nest},
      {.name = "hot_among_cold",
       .function = "hot_among_cold",
       .limit = "valu|latency",
       .size = "elements",
       .n = 1 << 21,
       .small = 1000,
       .memory = FORMULA(8 * n + 4 * COLD),
       .level = "hbm",
       .bytes = FORMULA(16 * n),
       .flop = FORMULA(2.0 * PARTS * n),
       .tolerance = 1e-9,
       .prepare = prepare_among},
  };
}
