// yax.cu: the vector-matrix-vector product y A x three ways: slow, fast but wrong, and fast.
//
// yax_faulty is the instructive one. It reads 1/64 of the matrix, so it looks many times faster than yax_problem; a
// comparison that watches only the time takes it for a great improvement. Bytes and operations fall by the same factor.
#include "kernels.h"

constexpr unsigned BLOCK = 64, GRID = 2048;

// Thread per row: neighbouring threads read addresses a whole row apart.
__global__ void yax_problem(const double *y, const double *a, const double *x, size_t n, double *result) {
  double total = 0;
  for (size_t row = thread_index(); row < n; row += thread_count()) {
    double sum = 0;
    for (size_t column = 0; column < n; ++column) sum = fma(a[row * n + column], x[column], sum);
    total = fma(y[row], sum, total);
  }
  if (total != 0) atomicAdd(result, total);
}

// Block per row: neighbouring threads read neighbouring elements. Rows first, first + stride, first + 2 stride, ...
__device__ void yax_rows(const double *y, const double *a, const double *x, size_t n, double *result, size_t first,
                         size_t stride) {
  __shared__ double part[BLOCK];
  double total = 0;
  for (size_t row = first; row < n; row += stride) {
    double sum = 0;
    for (size_t column = threadIdx.x; column < n; column += BLOCK) sum = fma(a[row * n + column], x[column], sum);
    total = fma(y[row], sum, total);
  }
  part[threadIdx.x] = total;
  __syncthreads();
  for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0 && part[0] != 0) atomicAdd(result, part[0]);
}

// The mistake: start and stride still count threads, although the block now works on one row together.
__global__ void yax_faulty(const double *y, const double *a, const double *x, size_t n, double *result) {
  yax_rows(y, a, x, n, result, static_cast<size_t>(blockIdx.x) * blockDim.x, thread_count());
}

__global__ void yax_solution(const double *y, const double *a, const double *x, size_t n, double *result) {
  yax_rows(y, a, x, n, result, blockIdx.x, gridDim.x);
}

// a[row][column] = input(row) input(column): with a product as matrix the CPU needs only two sums.
__global__ void fill_product(double *a, size_t n) {
  for (size_t i = thread_index(); i < n * n; i += thread_count()) a[i] = input(i / n, 3) * input(i % n, 4);
}

template <auto KERNEL> static Run prepare(size_t n) {
  auto y = filled<double>(n, 1), x = filled<double>(n, 2);
  auto a = Buffer<double>(n * n);
  auto result = Buffer<double>(1);
  launch(fill_product, filling_grid(), 256, 0, a.data(), n);
  result.clear();
  return {
      [=] { launch(KERNEL, GRID, BLOCK, 0, y.data(), a.data(), x.data(), n, result.data()); },
      [=] {
        double rows = 0, columns = 0;
        for (size_t i = 0; i < n; ++i) rows += input(i, 1) * input(i, 3), columns += input(i, 4) * input(i, 2);
        const double got = result.host()[0];
        return relative_error(1, [&](size_t) { return Pair{got, rows * columns}; });
      },
  };
}

Kernels yax_kernels() {
  return {
      {.name = "yax_problem",
       .function = "yax_problem",
       .limit = "vl1d|latency|occupancy",
       .size = "rows and columns",
       .n = 32768,
       .small = 130,
       .memory = FORMULA(8 * n * n + 16 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 16 * n),
       .flop = FORMULA(2 * n * n),
       .tolerance = 1e-11,
       .prepare = prepare<yax_problem>},
      {.name = "yax_faulty",
       .function = "yax_faulty",
       .limit = "occupancy|latency|hbm",
       .size = "rows and columns",
       .n = 32768,
       .small = 130,
       .memory = FORMULA(8 * n * n + 16 * n),
       .level = "hbm",
       .bytes = FORMULA(std::ceil(n / 64) * 8 * n + 16 * n),
       .flop = FORMULA(std::ceil(n / 64) * 2 * n),
       .tolerance = 1e-11,
       .prepare = prepare<yax_faulty>,
       .intended_wrong = true},
      {.name = "yax_solution",
       .function = "yax_solution",
       .limit = "hbm",
       .size = "rows and columns",
       .n = 32768,
       .small = 130,
       .memory = FORMULA(8 * n * n + 16 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n + 16 * n),
       .flop = FORMULA(2 * n * n),
       .tolerance = 1e-11,
       .prepare = prepare<yax_solution>},
  };
}
