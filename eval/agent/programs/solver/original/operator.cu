#include "operator.h"

namespace {

// The coefficient of the face between two points; at the boundary, that of the point inside.
__device__ float face(const Grid &grid, const float *k, size_t here, int x, int y, int z)
{
    bool inside = x >= 0 && y >= 0 && z >= 0 && x < grid.n && y < grid.n && z < grid.n;
    if (!inside)
        return 2.0 * k[here];
    float other = k[grid.at(x, y, z)];
    return 2.0 * k[here] * other / (k[here] + other + 1e-30);
}

__device__ float value(const Grid &grid, const float *u, int x, int y, int z)
{
    bool inside = x >= 0 && y >= 0 && z >= 0 && x < grid.n && y < grid.n && z < grid.n;
    return inside ? u[grid.at(x, y, z)] : 0.0f;
}

__constant__ int steps[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};

__global__ void apply_kernel(Grid grid, const float *k, const float *u, float *result)
{
    int z = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int x = blockIdx.z;
    if (z >= grid.n || y >= grid.n)
        return;
    size_t here = grid.at(x, y, z);
    float sum = 0.0f;
    for (int i = 0; i < 6; i++) {
        int nx = x + steps[i][0], ny = y + steps[i][1], nz = z + steps[i][2];
        sum += face(grid, k, here, nx, ny, nz) * (u[here] - value(grid, u, nx, ny, nz));
    }
    result[here] = sum / (grid.spacing * grid.spacing);
}

__global__ void diagonal_kernel(Grid grid, const float *k, float *result)
{
    int z = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int x = blockIdx.z;
    if (z >= grid.n || y >= grid.n)
        return;
    size_t here = grid.at(x, y, z);
    float sum = 0.0f;
    for (int i = 0; i < 6; i++)
        sum += face(grid, k, here, x + steps[i][0], y + steps[i][1], z + steps[i][2]);
    result[here] = sum / (grid.spacing * grid.spacing);
}

dim3 blocks(const Grid &grid, dim3 threads)
{
    return dim3((grid.n + threads.x - 1) / threads.x, (grid.n + threads.y - 1) / threads.y, grid.n);
}

} // namespace

void Diffusion::apply(const Field &u, Field &result) const
{
    dim3 threads(32, 8);
    apply_kernel<<<blocks(grid_, threads), threads>>>(grid_, coefficients_.data(), u.data(), result.data());
    check(cudaGetLastError(), "applying the operator");
}

void Diffusion::diagonal(Field &result) const
{
    dim3 threads(32, 8);
    diagonal_kernel<<<blocks(grid_, threads), threads>>>(grid_, coefficients_.data(), result.data());
    check(cudaGetLastError(), "reading the diagonal");
}
