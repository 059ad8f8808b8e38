// The grid: n points along each dimension, of which x is contiguous; values outside are zero.
#pragma once
#include <cstddef>

struct Grid {
    int n;
    float spacing;
    __host__ __device__ size_t points() const { return (size_t)n * n * n; }
    __host__ __device__ size_t at(int x, int y, int z) const { return ((size_t)z * n + y) * n + x; }
};
