// matrix_add.cu: the same addition in two orders. Neighbouring threads take neighbouring columns, or neighbouring rows.
#include "kernels.h"

// c = a + b for n x n matrices stored row by row; a warp reads one stretch of a row.
__global__ void matrix_add_row(const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c,
                               size_t n) {
  const size_t column = thread_index();
  if (column >= n) return;
  for (size_t row = blockIdx.y; row < n; row += gridDim.y)
    c[row * n + column] = a[row * n + column] + b[row * n + column];
}

// The same sum; a warp reads one element from each of its rows, n elements apart.
__global__ void matrix_add_col(const double *__restrict__ a, const double *__restrict__ b, double *__restrict__ c,
                               size_t n) {
  const size_t row = thread_index();
  if (row >= n) return;
  for (size_t column = blockIdx.y; column < n; column += gridDim.y)
    c[row * n + column] = a[row * n + column] + b[row * n + column];
}

template <auto KERNEL> static Run prepare(size_t n) {
  auto a = filled<double>(n * n, 1), b = filled<double>(n * n, 2);
  auto c = Buffer<double>(n * n);
  const dim3 grid(blocks_for(n, 256), static_cast<unsigned>(std::min<size_t>(n, 65535)));
  return {
      [=] { launch(KERNEL, grid, 256, 0, a.data(), b.data(), c.data(), n); },
      [=] {
        const auto got = c.host();
        return relative_error(n * n, [&](size_t i) { return Pair{got[i], input(i, 1) + input(i, 2)}; });
      },
  };
}

Kernels matrix_add_kernels() {
  return {
      {.name = "matrix_add_row",
       .function = "matrix_add_row",
       .limit = "hbm",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(24 * n * n),
       .level = "hbm",
       .bytes = FORMULA(24 * n * n),
       .flop = FORMULA(n * n),
       .tolerance = 0,
       .prepare = prepare<matrix_add_row>},
      {.name = "matrix_add_col",
       .function = "matrix_add_col",
       .limit = "vl1d",
       .size = "rows and columns",
       .n = 8192,
       .small = 70,
       .memory = FORMULA(24 * n * n),
       .level = "hbm",
       .bytes = FORMULA(24 * n * n),
       .flop = FORMULA(n * n),
       .tolerance = 0,
       .prepare = prepare<matrix_add_col>},
  };
}
