#include "tracers.h"
#include <algorithm>

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
    float low = (1.0 - a) * field[grid.at(left, below)] + a * field[grid.at(right, below)];
    float high = (1.0 - a) * field[grid.at(left, above)] + a * field[grid.at(right, above)];
    return (1.0 - b) * low + b * high;
}

__global__ void move_kernel(Grid grid, int count, const float *velocity_x, const float *velocity_y, Tracer *tracers)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    Tracer tracer = tracers[i];
    float ux = between(grid, velocity_x, tracer.x, tracer.y), uy = between(grid, velocity_y, tracer.x, tracer.y);
    tracer.x = wrapped(tracer.x + ux, grid.width);
    tracer.y = wrapped(tracer.y + uy, grid.height);
    tracers[i] = tracer;
}

} // namespace

Tracers::Tracers(const Grid &grid, const std::vector<float> &x, const std::vector<float> &y, int sort_every, int block)
    : grid_(grid), sort_every_(sort_every), block_(block), tracers_(x.size())
{
    for (size_t i = 0; i < x.size(); i++)
        tracers_[i] = Tracer{x[i], y[i], (int)i};
}

void Tracers::sort()
{
    // Neighbours in memory read neighbours in the fields.
    std::sort(tracers_.begin(), tracers_.end(), [this](const Tracer &a, const Tracer &b) {
        int one = grid_.at((int)a.x, (int)a.y), other = grid_.at((int)b.x, (int)b.y);
        return one != other ? one < other : a.number < b.number;
    });
}

void Tracers::count()
{
    int across = (grid_.width + patch - 1) / patch;
    for (const Tracer &tracer : tracers_)
        visits_[(int)tracer.y / patch * across + (int)tracer.x / patch]++;
}

void Tracers::step(const Macroscopic &fields)
{
    if (steps_++ % sort_every_ == 0)
        sort();
    Array<Tracer> moving(tracers_);
    int count_of = (int)tracers_.size();
    move_kernel<<<(count_of + block_ - 1) / block_, block_>>>(grid_, count_of, fields.velocity_x.data(),
                                                              fields.velocity_y.data(), moving.data());
    check_launch("moving tracers");
    tracers_ = moving.download();
    count();
}

void Tracers::write(Results &results) const
{
    results.tracer_x.resize(tracers_.size());
    results.tracer_y.resize(tracers_.size());
    for (const Tracer &tracer : tracers_) {
        results.tracer_x[tracer.number] = tracer.x;
        results.tracer_y[tracer.number] = tracer.y;
    }
    int across = (grid_.width + patch - 1) / patch, down = (grid_.height + patch - 1) / patch;
    results.visits.assign((size_t)across * down, 0);
    for (const auto &visit : visits_)
        results.visits[visit.first] = visit.second;
}
