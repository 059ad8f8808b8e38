// The operator -div(k grad u) by finite volumes, with the coefficients of all faces computed once.
#pragma once
#include "field.h"
#include "grid.h"

class Diffusion {
public:
    Diffusion(const Grid &grid, const Field &coefficients);
    void apply(const Field &u, Field &result) const;
    void diagonal(Field &result) const;

private:
    Grid grid_;
    Field x_, y_, z_, diagonal_;  // faces behind each point along a dimension, and the sum of all six
};
