// Density and velocity of all cells; walls have a density of 1 and are at rest.
#pragma once
#include "array.h"
#include "grid.h"

struct Fields {
    explicit Fields(const Grid &grid) : density(grid.cells()), velocity_x(grid.cells()), velocity_y(grid.cells()) {}

    Array<float> density, velocity_x, velocity_y;
};
