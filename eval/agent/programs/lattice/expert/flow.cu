#include "flow.h"
#include <utility>

namespace {

__global__ void begin_kernel(Grid grid, const float *velocity_x, const float *velocity_y, float *populations)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= grid.cells())
        return;
    for (int i = 0; i < directions; i++)
        populations[i * grid.cells() + cell] = equilibrium(i, 1.0f, velocity_x[cell], velocity_y[cell]);
}

// Pull, then relax towards equilibrium with the force as a shift of the velocity.
__global__ void step_kernel(Grid grid, const uint8_t *__restrict__ solid, const float *__restrict__ rates, Force force,
                            const float *__restrict__ from, float *__restrict__ to, float *__restrict__ density_to,
                            float *__restrict__ velocity_x_to, float *__restrict__ velocity_y_to)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= grid.width)
        return;
    int cell = grid.at(x, y), cells = grid.cells();
    if (solid[cell]) {
#pragma unroll
        for (int i = 0; i < directions; i++)
            to[i * cells + cell] = weight(i);
        density_to[cell] = 1.0f;
        velocity_x_to[cell] = velocity_y_to[cell] = 0.0f;
        return;
    }
    int left = grid.left(x), right = grid.right(x), below = grid.below(y), above = grid.above(y);
    float f[directions], density = 0.0f, flow_x = 0.0f, flow_y = 0.0f;
#pragma unroll
    for (int i = 0; i < directions; i++) {
        int column = direction_x(i) > 0 ? left : direction_x(i) < 0 ? right : x;
        int line = direction_y(i) > 0 ? below : direction_y(i) < 0 ? above : y;
        int source = grid.at(column, line);
        f[i] = solid[source] ? from[opposite(i) * cells + cell] : from[i * cells + source];
        density += f[i];
        flow_x += direction_x(i) * f[i];
        flow_y += direction_y(i) * f[i];
    }
    float rate = rates[cell];
    float ux = flow_x / density + force.x / rate;
    float uy = flow_y / density + force.y / rate;
    float mass = 0.0f;
    flow_x = flow_y = 0.0f;
#pragma unroll
    for (int i = 0; i < directions; i++) {
        float value = (1.0f - rate) * f[i] + rate * equilibrium(i, density, ux, uy);
        to[i * cells + cell] = value;
        mass += value;
        flow_x += direction_x(i) * value;
        flow_y += direction_y(i) * value;
    }
    density_to[cell] = mass;
    velocity_x_to[cell] = flow_x / mass;
    velocity_y_to[cell] = flow_y / mass;
}

} // namespace

Flow::Flow(const Grid &grid, const std::vector<uint8_t> &solid, Force force, int block)
    : grid_(grid), solid_(solid), force_(force), block_(block),
      one_((size_t)directions * grid.cells()), other_((size_t)directions * grid.cells())
{
}

void Flow::begin(const Array<float> &velocity_x, const Array<float> &velocity_y)
{
    begin_kernel<<<(grid_.cells() + block_ - 1) / block_, block_>>>(grid_, velocity_x.data(), velocity_y.data(),
                                                                    now_->data());
    check_launch("setting populations");
}

void Flow::step(const Array<float> &rates, Fields &fields)
{
    dim3 blocks((grid_.width + block_ - 1) / block_, grid_.height);
    step_kernel<<<blocks, block_>>>(grid_, solid_.data(), rates.data(), force_, now_->data(), next_->data(),
                                    fields.density.data(), fields.velocity_x.data(), fields.velocity_y.data());
    check_launch("a step of the flow");
    std::swap(now_, next_);
}
