// How fast populations relax in each cell: the fluid's viscosity, raised in a sponge around the left and right edges.
#pragma once
#include "array.h"
#include "grid.h"

struct Medium {
    float viscosity; // of the fluid
    float sponge;    // what is added at the edges
};

void fill_relaxation(const Grid &grid, const Medium &medium, Array<float> &rates, int block);
