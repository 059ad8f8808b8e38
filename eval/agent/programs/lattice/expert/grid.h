// The rectangle of cells; both directions are periodic.
#pragma once
#include <cuda_runtime.h>

struct Grid {
    int width, height;

    __host__ __device__ int cells() const { return width * height; }
    __host__ __device__ int at(int x, int y) const { return y * width + x; }
    __host__ __device__ int left(int x) const { return x == 0 ? width - 1 : x - 1; }
    __host__ __device__ int right(int x) const { return x == width - 1 ? 0 : x + 1; }
    __host__ __device__ int below(int y) const { return y == 0 ? height - 1 : y - 1; }
    __host__ __device__ int above(int y) const { return y == height - 1 ? 0 : y + 1; }
};
