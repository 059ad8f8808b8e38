#include <hip/hip_runtime.h>

constexpr int THREADS = 256;

__global__ void rows_times_x(const double *__restrict__ a, const double *__restrict__ x,
                             const double *__restrict__ left, double *__restrict__ out, int columns) {
  __shared__ double partial[THREADS];
  const int thread = threadIdx.x;
  const double *row = a + static_cast<size_t>(blockIdx.x) * columns;
  double sum = 0;
#pragma unroll 4
  for (int i = thread; i < columns; i += THREADS) sum += row[i] * x[i];
  partial[thread] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = left[blockIdx.x] * partial[0];
}

void solve(const double *a, const double *x, const double *left, double *out, int rows, int columns) {
  const unsigned blocks = static_cast<unsigned>(rows);
  rows_times_x<<<blocks, THREADS>>>(a, x, left, out, columns);
}
