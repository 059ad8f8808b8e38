#include "flow.h"
#include <algorithm>
#include <utility>

namespace {

__global__ void begin_kernel(Grid grid, const float *velocity_x, const float *velocity_y, Cell *populations)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= grid.cells())
        return;
    for (int i = 0; i < directions; i++)
        populations[cell].f[i] = equilibrium(i, 1.0f, velocity_x[cell], velocity_y[cell]);
}

// One tile of rows: pull, then relax towards equilibrium with the force as a shift of the velocity.
__global__ void step_kernel(Grid grid, int first_row, int rows, const uint8_t *solid, const float *rates, Force force,
                            const Cell *from, Cell *to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = first_row + blockIdx.y;
    if (x >= grid.width || y >= first_row + rows || y >= grid.height)
        return;
    int cell = grid.at(x, y);
    if (solid[cell]) {
        for (int i = 0; i < directions; i++)
            to[cell].f[i] = weight(i);
        return;
    }
    int columns[3] = {grid.left(x), x, grid.right(x)};
    int lines[3] = {grid.below(y), y, grid.above(y)};
    float f[directions], density = 0.0f, flow_x = 0.0f, flow_y = 0.0f;
    for (int i = 0; i < directions; i++) {
        int source = grid.at(columns[1 - direction_x(i)], lines[1 - direction_y(i)]);
        f[i] = solid[source] ? from[cell].f[opposite(i)] : from[source].f[i];
        density += f[i];
        flow_x += direction_x(i) * f[i];
        flow_y += direction_y(i) * f[i];
    }
    float rate = rates[cell];
    float ux = flow_x / density + force.x / rate;
    float uy = flow_y / density + force.y / rate;
    for (int i = 0; i < directions; i++)
        to[cell].f[i] = (1.0 - rate) * f[i] + rate * equilibrium(i, density, ux, uy);
}

} // namespace

Flow::Flow(const Grid &grid, const std::vector<uint8_t> &solid, Force force, int rows, int block)
    : grid_(grid), solid_(solid), force_(force), rows_(rows), block_(block), one_(grid.cells()), other_(grid.cells())
{
}

void Flow::begin(const Array<float> &velocity_x, const Array<float> &velocity_y)
{
    begin_kernel<<<(grid_.cells() + block_ - 1) / block_, block_>>>(grid_, velocity_x.data(), velocity_y.data(),
                                                                    now_->data());
    check_launch("setting populations");
}

void Flow::step(const Array<float> &rates)
{
    for (int row = 0; row < grid_.height; row += rows_) {
        int rows = std::min(rows_, grid_.height - row);
        dim3 blocks((grid_.width + block_ - 1) / block_, rows);
        step_kernel<<<blocks, block_>>>(grid_, row, rows, solid_.data(), rates.data(), force_, now_->data(),
                                        next_->data());
        check_launch("a step of the flow");
    }
    std::swap(now_, next_);
}
