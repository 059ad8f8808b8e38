#include <cuda_runtime.h>

constexpr int THREADS = 256, MOST = 4096 / THREADS;

template <typename Join> __device__ float over_block(float mine, float *space, Join join) {
  space[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) space[threadIdx.x] = join(space[threadIdx.x], space[threadIdx.x + half]);
    __syncthreads();
  }
  const float all = space[0];
  __syncthreads();
  return all;
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

__global__ void softmax(const float *__restrict__ in, float *__restrict__ out, int columns) {
  __shared__ float space[THREADS];
  const float *x = in + blockIdx.x * static_cast<size_t>(columns);
  float *y = out + blockIdx.x * static_cast<size_t>(columns);
  float mine[MOST];
  float most = -INFINITY;
#pragma unroll
  for (int k = 0; k < MOST; ++k)
    if (k * THREADS < columns) {
      mine[k] = x[k * THREADS + threadIdx.x];
      most = fmaxf(most, mine[k]);
    }
  most = over_block(most, space, Larger());
  float sum = 0;
#pragma unroll
  for (int k = 0; k < MOST; ++k)
    if (k * THREADS < columns) {
      mine[k] = expf(mine[k] - most);
      sum += mine[k];
    }
  const float scale = 1 / over_block(sum, space, Sum());
#pragma unroll
  for (int k = 0; k < MOST; ++k)
    if (k * THREADS < columns) y[k * THREADS + threadIdx.x] = mine[k] * scale;
}

void solve(const float *in, float *out, size_t rows, size_t columns) {
  const unsigned blocks = static_cast<unsigned>(rows);
  softmax<<<blocks, THREADS>>>(in, out, static_cast<int>(columns));
}
