#include <cuda_runtime.h>

__global__ void count(const unsigned char *in, unsigned *counts, size_t n) {
  const size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i < n) atomicAdd(&counts[in[i]], 1u);
}

void solve(const unsigned char *in, unsigned *counts, size_t n) {
  cudaMemset(counts, 0, 256 * sizeof(*counts));
  const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
  count<<<blocks, 256>>>(in, counts, n);
}
