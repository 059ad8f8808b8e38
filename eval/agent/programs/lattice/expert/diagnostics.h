// What is watched while the flow develops.
#pragma once
#include "array.h"
#include "fields.h"
#include "files.h"
#include "grid.h"
#include <vector>

class Diagnostics {
public:
    Diagnostics(const Grid &grid, int norms_every, int histogram_every, int steps, int block);

    void step(const Fields &fields);
    void write(Results &results) const;

private:
    Grid grid_;
    int norms_every_, histogram_every_, block_, steps_ = 0;
    size_t noted_ = 0;          // steps with norms
    Array<double> sums_;        // mass and energy for each step with norms
    Array<int> largest_;        // the bits of the largest square of a speed, which sort like the number
    Array<double> histogram_;
};
