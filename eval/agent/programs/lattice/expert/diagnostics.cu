#include "diagnostics.h"
#include <cmath>
#include <cstring>

namespace {

constexpr float fastest = 0.16f; // of the last bin, which has all that is faster as well
constexpr int most_blocks = 256, copies = 8;

// Sums of a block in shared memory, then one addition for each block; bins have copies, so that few warps share one.
__global__ void diagnostics_kernel(int cells, const float *density, const float *velocity_x, const float *velocity_y,
                                   double *sums, int *largest, double *histogram)
{
    __shared__ float bins[copies][bin_count];
    __shared__ float mass_of[1024], energy_of[1024], largest_of[1024];
    int own = threadIdx.x;
    for (int i = own; i < copies * bin_count; i += blockDim.x)
        bins[i / bin_count][i % bin_count] = 0.0f;
    __syncthreads();
    float mass = 0.0f, energy = 0.0f, top = 0.0f;
    for (int cell = blockIdx.x * blockDim.x + own; cell < cells; cell += gridDim.x * blockDim.x) {
        float ux = velocity_x[cell], uy = velocity_y[cell], weight = density[cell];
        float square = ux * ux + uy * uy;
        mass += weight;
        energy += 0.5f * weight * square;
        top = fmaxf(top, square);
        int bin = (int)(sqrtf(square) * (bin_count / fastest));
        if (histogram)
            atomicAdd(&bins[own % copies][bin < bin_count ? bin : bin_count - 1], weight);
    }
    mass_of[own] = mass;
    energy_of[own] = energy;
    largest_of[own] = top;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (own < half) {
            mass_of[own] += mass_of[own + half];
            energy_of[own] += energy_of[own + half];
            largest_of[own] = fmaxf(largest_of[own], largest_of[own + half]);
        }
        __syncthreads();
    }
    if (own == 0 && sums) {
        atomicAdd(&sums[0], (double)mass_of[0]);
        atomicAdd(&sums[1], (double)energy_of[0]);
        atomicMax(largest, __float_as_int(largest_of[0]));
    }
    if (own < bin_count && histogram) {
        float total = 0.0f;
        for (int i = 0; i < copies; i++)
            total += bins[i][own];
        if (total > 0.0f)
            atomicAdd(&histogram[own], (double)total);
    }
}

} // namespace

Diagnostics::Diagnostics(const Grid &grid, int norms_every, int histogram_every, int steps, int block)
    : grid_(grid), norms_every_(norms_every), histogram_every_(histogram_every), block_(block),
      sums_(2 * (size_t)steps), largest_(steps), histogram_(bin_count)
{
    if (block < bin_count || block > 1024 || (block & (block - 1))) {
        std::fprintf(stderr, "a block of diagnostics is a power of two from %d to 1024\n", bin_count);
        std::exit(1);
    }
    sums_.clear();
    largest_.clear();
    histogram_.clear();
}

void Diagnostics::step(const Fields &fields)
{
    bool norms = steps_ % norms_every_ == 0, histogram = steps_ % histogram_every_ == 0;
    steps_++;
    if (!norms && !histogram)
        return;
    int cells = grid_.cells(), blocks = (cells + block_ - 1) / block_;
    diagnostics_kernel<<<blocks < most_blocks ? blocks : most_blocks, block_>>>(
        cells, fields.density.data(), fields.velocity_x.data(), fields.velocity_y.data(),
        norms ? sums_.data() + 2 * noted_ : nullptr, norms ? largest_.data() + noted_ : nullptr,
        histogram ? histogram_.data() : nullptr);
    check_launch("diagnostics");
    noted_ += norms;
}

void Diagnostics::write(Results &results) const
{
    std::vector<double> sums = sums_.download(), bins = histogram_.download();
    std::vector<int> largest = largest_.download();
    for (size_t i = 0; i < noted_; i++) {
        float square;
        std::memcpy(&square, &largest[i], sizeof(float));
        results.norms.push_back((float)(sums[2 * i] / grid_.cells()));
        results.norms.push_back((float)(sums[2 * i + 1] / grid_.cells()));
        results.norms.push_back(std::sqrt(square));
    }
    results.histogram.assign(bins.begin(), bins.end());
}
