#include <cuda_runtime.h>

constexpr int TILE = 64, DEPTH = 16, EACH = 4, SIDE = TILE / EACH, THREADS = SIDE * SIDE;

__global__ void __launch_bounds__(THREADS)
multiply(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, size_t n) {
  __shared__ float as[DEPTH][TILE + 4]; // turned, so that a thread reads its rows next to each other
  __shared__ float bs[DEPTH][TILE];
  const int thread = threadIdx.y * SIDE + threadIdx.x;
  const size_t top = blockIdx.y * size_t{TILE}, left = blockIdx.x * size_t{TILE};
  float sums[EACH][EACH] = {};
  for (size_t panel = 0; panel < n; panel += DEPTH) {
#pragma unroll
    for (int i = thread; i < TILE * DEPTH; i += THREADS) {
      as[i % DEPTH][i / DEPTH] = a[(top + i / DEPTH) * n + panel + i % DEPTH];
      bs[i / TILE][i % TILE] = b[(panel + i / TILE) * n + left + i % TILE];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      float x[EACH], y[EACH];
#pragma unroll
      for (int i = 0; i < EACH; ++i) x[i] = as[k][threadIdx.y * EACH + i];
#pragma unroll
      for (int j = 0; j < EACH; ++j) y[j] = bs[k][threadIdx.x + j * SIDE];
#pragma unroll
      for (int i = 0; i < EACH; ++i)
#pragma unroll
        for (int j = 0; j < EACH; ++j) sums[i][j] += x[i] * y[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; ++i)
#pragma unroll
    for (int j = 0; j < EACH; ++j)
      c[(top + threadIdx.y * EACH + i) * n + left + threadIdx.x + j * SIDE] = sums[i][j];
}

void solve(const float *a, const float *b, float *c, size_t n) {
  const unsigned tiles = static_cast<unsigned>(n / TILE);
  const dim3 block(SIDE, SIDE);
  const dim3 grid(tiles, tiles);
  multiply<<<grid, block>>>(a, b, c, n);
}
