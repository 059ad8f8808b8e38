// The nine velocities of the lattice: their directions, weights and equilibria.
#pragma once
#include <cuda_runtime.h>

constexpr int directions = 9;

__host__ __device__ constexpr int direction_x(int i)
{
    return i == 1 || i == 5 || i == 8 ? 1 : i == 3 || i == 6 || i == 7 ? -1 : 0;
}

__host__ __device__ constexpr int direction_y(int i)
{
    return i == 2 || i == 5 || i == 6 ? 1 : i == 4 || i == 7 || i == 8 ? -1 : 0;
}

__host__ __device__ constexpr int opposite(int i)
{
    return i == 0 ? 0 : i < 5 ? (i + 1) % 4 + 1 : (i - 3) % 4 + 5;
}

__host__ __device__ constexpr float weight(int i)
{
    return i == 0 ? 4.0f / 9.0f : i < 5 ? 1.0f / 9.0f : 1.0f / 36.0f;
}

__host__ __device__ inline float equilibrium(int i, float density, float ux, float uy)
{
    float along = direction_x(i) * ux + direction_y(i) * uy;
    float square = ux * ux + uy * uy;
    return weight(i) * density * (1.0f + 3.0f * along + 4.5f * along * along - 1.5f * square);
}
