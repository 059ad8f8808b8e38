#include <cuda_runtime.h>

constexpr unsigned THREADS = 256, MOST_BLOCKS = 2048;
constexpr int BATCH = 8;

__global__ void add(const unsigned *__restrict__ in, unsigned long long *sum, size_t n) {
  __shared__ unsigned long long partial[THREADS];
  const size_t stride = size_t{gridDim.x} * THREADS;
  unsigned long long mine = 0;
  // Eight loads are under way at once.
  for (size_t first = blockIdx.x * size_t{THREADS} + threadIdx.x; first < n; first += BATCH * stride) {
    unsigned loaded[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; ++k) loaded[k] = first + k * stride < n ? in[first + k * stride] : 0;
#pragma unroll
    for (int k = 0; k < BATCH; ++k) mine += loaded[k];
  }
  partial[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, partial[0]);
}

void solve(const unsigned *in, unsigned long long *sum, size_t n) {
  cudaMemset(sum, 0, sizeof(*sum));
  const size_t needed = (n + THREADS * BATCH - 1) / (THREADS * BATCH);
  const unsigned blocks = needed < MOST_BLOCKS ? static_cast<unsigned>(needed) : MOST_BLOCKS;
  add<<<blocks, THREADS>>>(in, sum, n);
}
