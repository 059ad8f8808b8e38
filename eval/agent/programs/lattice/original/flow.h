// The populations and how a step changes them.
#pragma once
#include "array.h"
#include "d2q9.h"
#include "grid.h"
#include <cstdint>
#include <vector>

struct Force {
    float x, y;
};

class Flow {
public:
    Flow(const Grid &grid, const std::vector<uint8_t> &solid, Force force, int rows, int block);

    // Populations at equilibrium for a density of 1 and given velocities.
    void begin(const Array<float> &velocity_x, const Array<float> &velocity_y);
    // Populations come in from the neighbours and relax; walls send them back.
    void step(const Array<float> &rates);

    const Grid &grid() const { return grid_; }
    const Array<Cell> &populations() const { return *now_; }
    const Array<uint8_t> &solid() const { return solid_; }
    Force force() const { return force_; }
    int block() const { return block_; }

private:
    Grid grid_;
    Array<uint8_t> solid_;
    Force force_;
    int rows_, block_;
    Array<Cell> one_, other_;
    Array<Cell> *now_ = &one_, *next_ = &other_;
};
