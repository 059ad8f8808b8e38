#include <hip/hip_runtime.h>

__global__ void rows_times_x(const double *a, const double *x, const double *left, double *out, int rows,
                             int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (int i = 0; i < columns; ++i) sum += left[row] * a[static_cast<size_t>(row) * columns + i] * x[i];
  out[row] = sum;
}

void solve(const double *a, const double *x, const double *left, double *out, int rows, int columns) {
  const unsigned blocks = static_cast<unsigned>((rows + 63) / 64);
  rows_times_x<<<blocks, 64>>>(a, x, left, out, rows, columns);
}
