// The nine velocities of the lattice: their directions, weights and equilibria.
#pragma once
#include <cuda_runtime.h>

constexpr int directions = 9;

__host__ __device__ inline int direction_x(int i)
{
    const int values[directions] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
    return values[i];
}

__host__ __device__ inline int direction_y(int i)
{
    const int values[directions] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    return values[i];
}

__host__ __device__ inline int opposite(int i)
{
    const int values[directions] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    return values[i];
}

__host__ __device__ inline float weight(int i)
{
    return i == 0 ? 4.0 / 9.0 : i < 5 ? 1.0 / 9.0 : 1.0 / 36.0;
}

__host__ __device__ inline float equilibrium(int i, float density, float ux, float uy)
{
    float along = direction_x(i) * ux + direction_y(i) * uy;
    float square = ux * ux + uy * uy;
    return weight(i) * density * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * square);
}

// All populations of a cell.
struct Cell {
    float f[directions];
};
