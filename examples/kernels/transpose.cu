// transpose.cu: an optimisation ladder in three steps, each removing what the profile of the one before shows.
#include "kernels.h"

constexpr int TILE = 32, ROWS = 8; // a block of TILE x ROWS threads moves a tile of TILE x TILE elements

// Step 1: reads run along rows, writes jump from row to row: every warp writes TILE separate lines.
__global__ void transpose_naive(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  const size_t column = blockIdx.x * TILE + threadIdx.x;
  for (int step = 0; step < TILE; step += ROWS) {
    const size_t row = blockIdx.y * TILE + threadIdx.y + step;
    if (row < n && column < n) out[column * n + row] = in[row * n + column]; // hot: transpose_naive
  }
}

// Turns a tile in shared memory, so that reads and writes both run along rows. PITCH is the length of a row there.
template <int PITCH>
__device__ void transpose_through_tile(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  __shared__ float tile[TILE][PITCH];
  size_t column = blockIdx.x * TILE + threadIdx.x;
  for (int step = 0; step < TILE; step += ROWS) {
    const size_t row = blockIdx.y * TILE + threadIdx.y + step;
    if (row < n && column < n) tile[threadIdx.y + step][threadIdx.x] = in[row * n + column];
  }
  __syncthreads();
  column = blockIdx.y * TILE + threadIdx.x;
  for (int step = 0; step < TILE; step += ROWS) {
    const size_t row = blockIdx.x * TILE + threadIdx.y + step;
    if (row < n && column < n) out[row * n + column] = tile[threadIdx.x][threadIdx.y + step]; // hot: transpose_lds
  }
}

// Step 2: memory is read and written in whole lines, but a column of the tile lies in one of the 32 banks.
__global__ void transpose_lds(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  transpose_through_tile<TILE>(in, out, n);
}

// Step 3: one element of padding per row moves the elements of a column to different banks.
__global__ void transpose_padded(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  transpose_through_tile<TILE + 1>(in, out, n);
}

template <auto KERNEL> static Run prepare(size_t n) {
  auto in = filled<float>(n * n, 1);
  auto out = Buffer<float>(n * n);
  const dim3 grid(blocks_for(n, TILE), blocks_for(n, TILE)), block(TILE, ROWS);
  return {
      [=] { launch(KERNEL, grid, block, 0, in.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        return relative_error(n * n, [&](size_t i) { return Pair{got[i], input(i % n * n + i / n, 1)}; });
      },
  };
}

Kernels transpose_kernels() {
  return {
      {.name = "transpose_naive",
       .function = "transpose_naive",
       .limit = "vl1d|l2",
       .size = "rows and columns",
       .n = 16384,
       .small = 100,
       .memory = FORMULA(8 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare<transpose_naive>},
      {.name = "transpose_lds",
       .function = "transpose_lds",
       .limit = "lds|hbm",
       .size = "rows and columns",
       .n = 16384,
       .small = 100,
       .memory = FORMULA(8 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare<transpose_lds>},
      {.name = "transpose_padded",
       .function = "transpose_padded",
       .limit = "hbm",
       .size = "rows and columns",
       .n = 16384,
       .small = 100,
       .memory = FORMULA(8 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n),
       .flop = FORMULA(0),
       .tolerance = 0,
       .prepare = prepare<transpose_padded>},
  };
}
