// Particles that drift with the flow.
#pragma once
#include "array.h"
#include "fields.h"
#include "files.h"
#include "grid.h"
#include <vector>

class Tracers {
public:
    Tracers(const Grid &grid, const std::vector<float> &x, const std::vector<float> &y, int block);

    // Move with the velocity at the place, which is interpolated, and note in which patches the tracers are.
    void step(const Fields &fields);
    void write(Results &results) const;

private:
    Grid grid_;
    int block_;
    Array<float> x_, y_; // in cells; the middle of cell (0, 0) is at (0, 0)
    Array<int> visits_;
};
