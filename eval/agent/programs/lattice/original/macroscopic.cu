#include "macroscopic.h"

namespace {

__global__ void macroscopic_kernel(Grid grid, const uint8_t *solid, const Cell *populations, float *density,
                                   float *velocity_x, float *velocity_y)
{
    int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= grid.cells())
        return;
    float mass = 0.0f, flow_x = 0.0f, flow_y = 0.0f;
    for (int i = 0; i < directions; i++) {
        float f = populations[cell].f[i];
        mass += f;
        flow_x += direction_x(i) * f;
        flow_y += direction_y(i) * f;
    }
    density[cell] = solid[cell] ? 1.0 : mass;
    velocity_x[cell] = solid[cell] ? 0.0 : flow_x / mass;
    velocity_y[cell] = solid[cell] ? 0.0 : flow_y / mass;
}

} // namespace

void Macroscopic::compute(const Flow &flow)
{
    int cells = flow.grid().cells(), block = flow.block();
    macroscopic_kernel<<<(cells + block - 1) / block, block>>>(flow.grid(), flow.solid().data(),
                                                               flow.populations().data(), density.data(),
                                                               velocity_x.data(), velocity_y.data());
    check_launch("computing densities and velocities");
}
