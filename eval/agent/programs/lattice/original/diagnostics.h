// What is watched while the flow develops.
#pragma once
#include "array.h"
#include "files.h"
#include "macroscopic.h"
#include <vector>

class Diagnostics {
public:
    Diagnostics(const Grid &grid, int norms_every, int histogram_every, int block);

    void step(const Macroscopic &fields);
    void write(Results &results) const;

private:
    void norms(const Macroscopic &fields);
    void histogram(const Macroscopic &fields);

    Grid grid_;
    int norms_every_, histogram_every_, block_, steps_ = 0;
    std::vector<float> norms_;
    std::vector<double> histogram_;
};
