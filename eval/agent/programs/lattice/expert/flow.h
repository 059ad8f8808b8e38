// The populations and how a step changes them.
#pragma once
#include "array.h"
#include "d2q9.h"
#include "fields.h"
#include "grid.h"
#include <cstdint>
#include <vector>

struct Force {
    float x, y;
};

class Flow {
public:
    Flow(const Grid &grid, const std::vector<uint8_t> &solid, Force force, int block);

    // Populations at equilibrium for a density of 1 and given velocities.
    void begin(const Array<float> &velocity_x, const Array<float> &velocity_y);
    // Populations come in from the neighbours and relax; walls send them back.  Fields are those after the step.
    void step(const Array<float> &rates, Fields &fields);

private:
    Grid grid_;
    Array<uint8_t> solid_;
    Force force_;
    int block_;
    Array<float> one_, other_; // all cells for the first direction, then for the next
    Array<float> *now_ = &one_, *next_ = &other_;
};
