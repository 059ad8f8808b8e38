#include <hip/hip_runtime.h>

constexpr int LANES = 64, ROWS = 4;

// Work-groups of four waves; each wave adds up one row.
__global__ void multiply(const int *__restrict__ start, const int *__restrict__ column,
                         const double *__restrict__ value, const double *__restrict__ x, double *__restrict__ y,
                         int rows) {
  __shared__ double partial[ROWS][LANES];
  const int lane = threadIdx.x % LANES, own = threadIdx.x / LANES;
  const int row = blockIdx.x * ROWS + own;
  double sum = 0;
  if (row < rows)
    for (int i = start[row] + lane; i < start[row + 1]; i += LANES) sum += value[i] * x[column[i]];
  partial[own][lane] = sum;
  __syncthreads();
  for (int half = LANES / 2; half > 0; half /= 2) {
    if (lane < half) partial[own][lane] += partial[own][lane + half];
    __syncthreads();
  }
  if (lane == 0 && row < rows) y[row] = partial[own][0];
}

void solve(const int *start, const int *column, const double *value, const double *x, double *y, int rows) {
  const unsigned blocks = static_cast<unsigned>((rows + ROWS - 1) / ROWS);
  multiply<<<blocks, ROWS * LANES>>>(start, column, value, x, y, rows);
}
