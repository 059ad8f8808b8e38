// Preconditioned conjugate gradients.
#pragma once
#include "field.h"
#include "operator.h"

struct Progress {
    int iterations;
    double residual;
};

Progress solve(const Diffusion &matrix, const Field &right, Field &u, double tolerance, int most);
