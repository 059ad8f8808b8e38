// Density and velocity of all cells; walls have a density of 1 and are at rest.
#pragma once
#include "array.h"
#include "flow.h"

struct Macroscopic {
    explicit Macroscopic(const Grid &grid) : density(grid.cells()), velocity_x(grid.cells()), velocity_y(grid.cells())
    {
    }

    void compute(const Flow &flow);

    Array<float> density, velocity_x, velocity_y;
};
