#include <hip/hip_runtime.h>

__global__ void multiply(const int *start, const int *column, const double *value, const double *x, double *y,
                         int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (int i = start[row]; i < start[row + 1]; ++i) sum += value[i] * x[column[i]];
  y[row] = sum;
}

void solve(const int *start, const int *column, const double *value, const double *x, double *y, int rows) {
  const unsigned blocks = static_cast<unsigned>((rows + 255) / 256);
  multiply<<<blocks, 256>>>(start, column, value, x, y, rows);
}
