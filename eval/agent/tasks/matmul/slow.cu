#include <cuda_runtime.h>

__global__ void multiply(const float *a, const float *b, float *c, size_t n) {
  const size_t row = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  const size_t column = blockIdx.y * size_t{blockDim.y} + threadIdx.y;
  float sum = 0;
  for (size_t k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

void solve(const float *a, const float *b, float *c, size_t n) {
  const dim3 block(16, 16);
  const dim3 grid(static_cast<unsigned>(n / 16), static_cast<unsigned>(n / 16));
  multiply<<<grid, block>>>(a, b, c, n);
}
