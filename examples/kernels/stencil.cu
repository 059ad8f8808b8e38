// stencil.cu: a box blur, the mean of the (2 RADIUS + 1)^2 neighbours, straight from memory and through a tile.
#include "kernels.h"

constexpr int WIDTH = 32, HEIGHT = 8; // of a block

// Every thread reads all its neighbours; the caches are left to find what blocks share. The edges stay as they are.
template <int RADIUS> __global__ void stencil_naive(const double *in, double *out, size_t n) {
  const size_t row = RADIUS + blockIdx.y * HEIGHT + threadIdx.y, column = RADIUS + blockIdx.x * WIDTH + threadIdx.x;
  if (row + RADIUS >= n || column + RADIUS >= n) return;
  double sum = 0;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) sum += in[(row + dy) * n + column + dx];
  out[row * n + column] = sum * (1.0 / ((2 * RADIUS + 1) * (2 * RADIUS + 1)));
}

// The block first copies its cells and a rim of RADIUS cells to shared memory, then sums from there.
template <int RADIUS> __global__ void stencil_tiled(const double *in, double *out, size_t n) {
  __shared__ double tile[HEIGHT + 2 * RADIUS][WIDTH + 2 * RADIUS];
  const size_t first_row = blockIdx.y * HEIGHT, first_column = blockIdx.x * WIDTH; // of the rim
  for (size_t y = threadIdx.y; y < HEIGHT + 2 * RADIUS; y += HEIGHT)
    for (size_t x = threadIdx.x; x < WIDTH + 2 * RADIUS; x += WIDTH)
      if (first_row + y < n && first_column + x < n) tile[y][x] = in[(first_row + y) * n + first_column + x];
  __syncthreads();
  const size_t row = RADIUS + first_row + threadIdx.y, column = RADIUS + first_column + threadIdx.x;
  if (row + RADIUS >= n || column + RADIUS >= n) return;
  double sum = 0;
  for (int dy = 0; dy <= 2 * RADIUS; ++dy)
    for (int dx = 0; dx <= 2 * RADIUS; ++dx) sum += tile[threadIdx.y + dy][threadIdx.x + dx];
  out[row * n + column] = sum * (1.0 / ((2 * RADIUS + 1) * (2 * RADIUS + 1)));
}

template <auto KERNEL, int RADIUS> static Run prepare(size_t n) {
  auto in = filled<double>(n * n, 1);
  auto out = Buffer<double>(n * n);
  const size_t inner = n - 2 * RADIUS;
  const dim3 grid(blocks_for(inner, WIDTH), blocks_for(inner, HEIGHT)), block(WIDTH, HEIGHT);
  return {
      [=] { launch(KERNEL, grid, block, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          const size_t row = i / inner, column = i % inner;
          double sum = 0;
          for (size_t y = row; y <= row + 2 * RADIUS; ++y)
            for (size_t x = column; x <= column + 2 * RADIUS; ++x) sum += input(y * n + x, 1);
          return Pair{got[(row + RADIUS) * n + column + RADIUS], sum / ((2 * RADIUS + 1) * (2 * RADIUS + 1))};
        };
        return relative_error(inner * inner, element);
      },
  };
}

Kernels stencil_kernels() {
  return {
      {.name = "stencil_naive_1",
       .function = "stencil_naive<1>",
       .limit = "hbm|vl1d",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(16 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 8 * (n - 2) * (n - 2)),
       .flop = FORMULA(10 * (n - 2) * (n - 2)),
       .tolerance = 1e-14,
       .prepare = prepare<stencil_naive<1>, 1>},
      {.name = "stencil_tiled_1",
       .function = "stencil_tiled<1>",
       .limit = "valu|latency|barrier",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(16 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 8 * (n - 2) * (n - 2)),
       .flop = FORMULA(10 * (n - 2) * (n - 2)),
       .tolerance = 1e-14,
       .prepare = prepare<stencil_tiled<1>, 1>},
      {.name = "stencil_naive_2",
       .function = "stencil_naive<2>",
       .limit = "vl1d|hbm",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(16 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 8 * (n - 4) * (n - 4)),
       .flop = FORMULA(26 * (n - 4) * (n - 4)),
       .tolerance = 1e-14,
       .prepare = prepare<stencil_naive<2>, 2>},
      {.name = "stencil_tiled_2",
       .function = "stencil_tiled<2>",
       .limit = "lds|hbm",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(16 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 8 * (n - 4) * (n - 4)),
       .flop = FORMULA(26 * (n - 4) * (n - 4)),
       .tolerance = 1e-14,
       .prepare = prepare<stencil_tiled<2>, 2>},
  };
}
