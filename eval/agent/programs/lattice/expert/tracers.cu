#include "tracers.h"

namespace {

__device__ float wrapped(float place, int size)
{
    place -= floorf(place / size) * size;
    return place < size ? place : 0.0f;
}

__device__ float between(const Grid &grid, const float *field, float x, float y)
{
    int left = (int)x, below = (int)y;
    int right = grid.right(left), above = grid.above(below);
    float a = x - left, b = y - below;
    float low = (1.0f - a) * field[grid.at(left, below)] + a * field[grid.at(right, below)];
    float high = (1.0f - a) * field[grid.at(left, above)] + a * field[grid.at(right, above)];
    return (1.0f - b) * low + b * high;
}

__global__ void move_kernel(Grid grid, int count, const float *velocity_x, const float *velocity_y, float *xs, float *ys,
                            int *visits)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float x = xs[i], y = ys[i];
    float ux = between(grid, velocity_x, x, y), uy = between(grid, velocity_y, x, y);
    x = wrapped(x + ux, grid.width);
    y = wrapped(y + uy, grid.height);
    xs[i] = x;
    ys[i] = y;
    int across = (grid.width + patch - 1) / patch;
    atomicAdd(&visits[(int)y / patch * across + (int)x / patch], 1);
}

} // namespace

Tracers::Tracers(const Grid &grid, const std::vector<float> &x, const std::vector<float> &y, int block)
    : grid_(grid), block_(block), x_(x), y_(y),
      visits_((size_t)((grid.width + patch - 1) / patch) * ((grid.height + patch - 1) / patch))
{
    visits_.clear();
}

void Tracers::step(const Fields &fields)
{
    int count = (int)x_.size();
    move_kernel<<<(count + block_ - 1) / block_, block_>>>(grid_, count, fields.velocity_x.data(),
                                                          fields.velocity_y.data(), x_.data(), y_.data(),
                                                          visits_.data());
    check_launch("moving tracers");
}

void Tracers::write(Results &results) const
{
    results.tracer_x = x_.download();
    results.tracer_y = y_.download();
    results.visits = visits_.download();
}
