// Cases and results as files.
#pragma once
#include <string>
#include <vector>

struct Case {
    int n, most;
    float spacing, tolerance;
    std::vector<float> coefficients, right;
};

Case read_case(const std::string &path);
void write_result(const std::string &path, const std::vector<float> &u);
