// Particles that drift with the flow.
#pragma once
#include "array.h"
#include "files.h"
#include "grid.h"
#include "macroscopic.h"
#include <map>
#include <vector>

struct Tracer {
    float x, y; // in cells; the middle of cell (0, 0) is at (0, 0)
    int number; // in the case
};

class Tracers {
public:
    Tracers(const Grid &grid, const std::vector<float> &x, const std::vector<float> &y, int sort_every, int block);

    // Move with the velocity at the place, which is interpolated, and note in which patches the tracers are.
    void step(const Macroscopic &fields);
    void write(Results &results) const;

private:
    void sort();
    void count();

    Grid grid_;
    int sort_every_, block_, steps_ = 0;
    std::vector<Tracer> tracers_;
    std::map<int, int> visits_;
};
