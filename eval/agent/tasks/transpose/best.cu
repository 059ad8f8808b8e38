#include <cuda_runtime.h>

constexpr int TILE = 32, ROWS = 8;

__global__ void transpose(const float *__restrict__ in, float *__restrict__ out, size_t n) {
  __shared__ float tile[TILE][TILE + 1];
  const size_t left = blockIdx.x * size_t{TILE}, top = blockIdx.y * size_t{TILE};
#pragma unroll
  for (int row = threadIdx.y; row < TILE; row += ROWS) tile[row][threadIdx.x] = in[(top + row) * n + left + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int row = threadIdx.y; row < TILE; row += ROWS)
    out[(left + row) * n + top + threadIdx.x] = tile[threadIdx.x][row];
}

void solve(const float *in, float *out, size_t n) {
  const unsigned tiles = static_cast<unsigned>(n / TILE);
  const dim3 block(TILE, ROWS);
  const dim3 grid(tiles, tiles);
  transpose<<<grid, block>>>(in, out, n);
}
