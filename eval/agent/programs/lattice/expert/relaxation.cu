#include "relaxation.h"

namespace {

__global__ void relaxation_kernel(Grid grid, Medium medium, float *rates)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= grid.cells())
        return;
    int x = cell % grid.width;
    double edge = x < grid.width - 1 - x ? x : grid.width - 1 - x;
    double depth = edge / (0.05 * grid.width);
    double viscosity = medium.viscosity + medium.sponge * exp(-depth * depth);
    rates[cell] = 1.0 / (3.0 * viscosity + 0.5);
}

} // namespace

void fill_relaxation(const Grid &grid, const Medium &medium, Array<float> &rates, int block)
{
    relaxation_kernel<<<(grid.cells() + block - 1) / block, block>>>(grid, medium, rates.data());
    check_launch("filling the rates of relaxation");
}
