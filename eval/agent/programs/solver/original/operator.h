// The operator -div(k grad u) by finite volumes.
#pragma once
#include "field.h"
#include "grid.h"

class Diffusion {
public:
    Diffusion(const Grid &grid, const Field &coefficients) : grid_(grid), coefficients_(coefficients) {}
    void apply(const Field &u, Field &result) const;
    void diagonal(Field &result) const;

private:
    Grid grid_;
    const Field &coefficients_;
};
