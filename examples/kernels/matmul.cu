// matmul.cu: c = a b for n x n matrices in FP64, straight from memory and through tiles in shared memory (LDS).
#include "kernels.h"

constexpr int TILE = 16;

// One thread per element of c, which reads a row of a and a column of b.
__global__ void matmul_naive(const double *a, const double *b, double *c, size_t n) {
  const size_t row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  if (row >= n || column >= n) return;
  double sum = 0;
  for (size_t k = 0; k < n; ++k) sum = fma(a[row * n + k], b[k * n + column], sum); // hot: matmul_naive
  c[row * n + column] = sum;
}

// A block loads a tile of a and one of b, uses each element TILE times, and moves on: 1/TILE of the reads.
__global__ void matmul_tiled(const double *a, const double *b, double *c, size_t n) {
  __shared__ double tile_a[TILE][TILE], tile_b[TILE][TILE];
  const size_t row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  double sum = 0;
  for (size_t first = 0; first < n; first += TILE) {
    const size_t k_a = first + threadIdx.x, k_b = first + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < n && k_a < n ? a[row * n + k_a] : 0;
    tile_b[threadIdx.y][threadIdx.x] = k_b < n && column < n ? b[k_b * n + column] : 0;
    __syncthreads();
    // hot: matmul_tiled
    for (int k = 0; k < TILE; ++k) sum = fma(tile_a[threadIdx.y][k], tile_b[k][threadIdx.x], sum);
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

template <auto KERNEL> static Run prepare(size_t n) {
  auto a = filled<double>(n * n, 1), b = filled<double>(n * n, 2);
  auto c = Buffer<double>(n * n);
  const dim3 grid(blocks_for(n, TILE), blocks_for(n, TILE)), block(TILE, TILE);
  return {
      [=] { launch(KERNEL, grid, block, 0, a.data(), b.data(), c.data(), n); },
      [=] {
        const auto got = c.host();
        auto element = [&](size_t i) {
          double want = 0;
          for (size_t k = 0; k < n; ++k) want += input(i / n * n + k, 1) * input(k * n + i % n, 2);
          return Pair{got[i], want};
        };
        return relative_error(n * n, element, 2048);
      },
  };
}

Kernels matmul_kernels() {
  return {
      {.name = "matmul_naive",
       .function = "matmul_naive",
       .limit = "vl1d|l2|latency",
       .size = "rows and columns",
       .n = 2048,
       .small = 37,
       .memory = FORMULA(24 * n * n),
       .level = "hbm",
       .bytes = FORMULA(24 * n * n),
       .flop = FORMULA(2 * n * n * n),
       .tolerance = 1e-12,
       .prepare = prepare<matmul_naive>},
      {.name = "matmul_tiled",
       .function = "matmul_tiled",
       .limit = "lds",
       .size = "rows and columns",
       .n = 2048,
       .small = 37,
       .memory = FORMULA(24 * n * n),
       .level = "hbm",
       .bytes = FORMULA(24 * n * n),
       .flop = FORMULA(2 * n * n * n),
       .tolerance = 1e-12,
       .prepare = prepare<matmul_tiled>},
  };
}
