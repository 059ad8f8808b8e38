#include "operator.h"

namespace {

__device__ float mean(float a, float b) { return 2.0f * a * b / (a + b + 1e-30f); }

__global__ void prepare(Grid g, const float *k, float *fx, float *fy, float *fz, float *diagonal)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= g.n || y >= g.n)
        return;
    size_t i = g.at(x, y, z), row = g.n, plane = (size_t)g.n * g.n;
    float scale = 1.0f / (g.spacing * g.spacing), own = k[i], edge = 2.0f * own;
    float left = x > 0 ? mean(own, k[i - 1]) : edge, right = x + 1 < g.n ? mean(own, k[i + 1]) : edge;
    float front = y > 0 ? mean(own, k[i - row]) : edge, back = y + 1 < g.n ? mean(own, k[i + row]) : edge;
    float below = z > 0 ? mean(own, k[i - plane]) : edge, above = z + 1 < g.n ? mean(own, k[i + plane]) : edge;
    fx[i] = scale * right;
    fy[i] = scale * back;
    fz[i] = scale * above;
    diagonal[i] = scale * (left + right + front + back + below + above);
}

__global__ void apply_kernel(Grid g, const float *__restrict__ fx, const float *__restrict__ fy,
                             const float *__restrict__ fz, const float *__restrict__ d, const float *__restrict__ u,
                             float *__restrict__ result)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x >= g.n || y >= g.n)
        return;
    size_t i = g.at(x, y, z), row = g.n, plane = (size_t)g.n * g.n;
    float sum = d[i] * u[i];
    if (x > 0) sum -= fx[i - 1] * u[i - 1];
    if (x + 1 < g.n) sum -= fx[i] * u[i + 1];
    if (y > 0) sum -= fy[i - row] * u[i - row];
    if (y + 1 < g.n) sum -= fy[i] * u[i + row];
    if (z > 0) sum -= fz[i - plane] * u[i - plane];
    if (z + 1 < g.n) sum -= fz[i] * u[i + plane];
    result[i] = sum;
}

dim3 blocks(const Grid &grid, dim3 threads)
{
    return dim3((grid.n + threads.x - 1) / threads.x, (grid.n + threads.y - 1) / threads.y, grid.n);
}

const dim3 THREADS(64, 4);

} // namespace

Diffusion::Diffusion(const Grid &grid, const Field &coefficients)
    : grid_(grid), x_(grid.points()), y_(grid.points()), z_(grid.points()), diagonal_(grid.points())
{
    prepare<<<blocks(grid, THREADS), THREADS>>>(grid, coefficients.data(), x_.data(), y_.data(), z_.data(),
                                                diagonal_.data());
    check(cudaGetLastError(), "preparing the operator");
}

void Diffusion::apply(const Field &u, Field &result) const
{
    apply_kernel<<<blocks(grid_, THREADS), THREADS>>>(grid_, x_.data(), y_.data(), z_.data(), diagonal_.data(),
                                                      u.data(), result.data());
    check(cudaGetLastError(), "applying the operator");
}

void Diffusion::diagonal(Field &result) const
{
    check(cudaMemcpy(result.data(), diagonal_.data(), result.size() * sizeof(float), cudaMemcpyDeviceToDevice),
          "copying the diagonal");
}
