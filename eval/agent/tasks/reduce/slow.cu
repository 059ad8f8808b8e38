#include <cuda_runtime.h>

__global__ void add(const unsigned *in, unsigned long long *sum, size_t n) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) atomicAdd(sum, static_cast<unsigned long long>(in[i]));
}

void solve(const unsigned *in, unsigned long long *sum, size_t n) {
  cudaMemset(sum, 0, sizeof(*sum));
  const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
  add<<<blocks, 256>>>(in, sum, n);
}
