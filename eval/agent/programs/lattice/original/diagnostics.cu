#include "diagnostics.h"
#include <algorithm>
#include <cmath>

namespace {

constexpr float fastest = 0.16f; // of the last bin, which has all that is faster as well

__global__ void histogram_kernel(int cells, const float *density, const float *velocity_x, const float *velocity_y,
                                 float *bins)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= cells)
        return;
    double ux = velocity_x[cell], uy = velocity_y[cell];
    int bin = (int)(sqrt(ux * ux + uy * uy) * (bin_count / fastest));
    atomicAdd(&bins[bin < bin_count ? bin : bin_count - 1], density[cell]);
}

} // namespace

Diagnostics::Diagnostics(const Grid &grid, int norms_every, int histogram_every, int block)
    : grid_(grid), norms_every_(norms_every), histogram_every_(histogram_every), block_(block),
      histogram_(bin_count, 0.0)
{
}

void Diagnostics::norms(const Macroscopic &fields)
{
    std::vector<float> density = fields.density.download();
    std::vector<float> velocity_x = fields.velocity_x.download(), velocity_y = fields.velocity_y.download();
    double mass = 0.0, energy = 0.0, largest = 0.0;
    for (size_t i = 0; i < density.size(); i++) {
        double square = velocity_x[i] * velocity_x[i] + velocity_y[i] * velocity_y[i];
        mass += density[i];
        energy += 0.5 * density[i] * square;
        largest = std::max(largest, square);
    }
    norms_.push_back((float)(mass / density.size()));
    norms_.push_back((float)(energy / density.size()));
    norms_.push_back((float)std::sqrt(largest));
}

void Diagnostics::histogram(const Macroscopic &fields)
{
    Array<float> bins(bin_count);
    bins.clear();
    int cells = grid_.cells();
    histogram_kernel<<<(cells + block_ - 1) / block_, block_>>>(cells, fields.density.data(), fields.velocity_x.data(),
                                                                fields.velocity_y.data(), bins.data());
    check_launch("the histogram of speeds");
    std::vector<float> found = bins.download();
    for (int i = 0; i < bin_count; i++)
        histogram_[i] += found[i];
}

void Diagnostics::step(const Macroscopic &fields)
{
    if (steps_ % norms_every_ == 0)
        norms(fields);
    if (steps_ % histogram_every_ == 0)
        histogram(fields);
    steps_++;
}

void Diagnostics::write(Results &results) const
{
    results.norms = norms_;
    results.histogram.assign(histogram_.begin(), histogram_.end());
}
