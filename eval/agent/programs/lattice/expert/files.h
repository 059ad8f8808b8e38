// The case that is read and the results that are written.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

struct Case {
    int32_t width, height, steps, tracers;
    float viscosity, sponge, force_x, force_y;
    std::vector<uint8_t> solid;    // for each cell, row by row
    std::vector<float> velocity_x; // at the beginning
    std::vector<float> velocity_y;
    std::vector<float> tracer_x;
    std::vector<float> tracer_y;
};

constexpr int norm_count = 3; // mass, energy, largest speed
constexpr int bin_count = 32;
constexpr int patch = 32; // cells of a side of the patches in which visits of tracers are counted

struct Results {
    std::vector<float> density, velocity_x, velocity_y; // after the last step
    std::vector<float> tracer_x, tracer_y;              // in the order of the case
    std::vector<float> norms;                           // norm_count for each step
    std::vector<float> histogram;                       // mass by speed, summed over steps
    std::vector<int32_t> visits;                        // tracers in each patch, summed over steps
};

Case read_case(const std::string &path);
void write_results(const std::string &path, const Results &results);
