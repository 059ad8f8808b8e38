#include <cuda_runtime.h>

__global__ void softmax(const float *in, float *out, size_t rows, size_t columns) {
  const size_t row = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (row >= rows) return;
  const float *x = in + row * columns;
  float *y = out + row * columns;
  float most = x[0];
  for (size_t i = 1; i < columns; ++i) most = fmaxf(most, x[i]);
  float sum = 0;
  for (size_t i = 0; i < columns; ++i) sum += expf(x[i] - most);
  for (size_t i = 0; i < columns; ++i) y[i] = expf(x[i] - most) / sum;
}

void solve(const float *in, float *out, size_t rows, size_t columns) {
  const unsigned blocks = static_cast<unsigned>((rows + 127) / 128);
  softmax<<<blocks, 128>>>(in, out, rows, columns);
}
