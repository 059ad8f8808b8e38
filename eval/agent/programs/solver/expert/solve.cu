#include "solve.h"
#include "vectors.h"
#include <cmath>

namespace {

// The norm of right - matrix * u, which rounding keeps apart from the residual that the iteration carries.
double true_residual(const Diffusion &matrix, const Field &right, const Field &u, Field &product, Field &difference)
{
    matrix.apply(u, product);
    subtract(right, product, difference);
    return std::sqrt(dot(difference, difference));
}

} // namespace

Progress solve(const Diffusion &matrix, const Field &right, Field &u, double tolerance, int most)
{
    size_t size = right.size();
    Field r(size), z(size), p(size), product(size), diagonal(size), difference(size);
    matrix.diagonal(diagonal);
    copy(right, r);
    divide(r, diagonal, z);
    copy(z, p);
    double rz = dot(r, z), goal = tolerance * std::sqrt(dot(right, right)), residual = 0;
    for (int i = 1; i <= most; i++) {
        matrix.apply(p, product);
        float step = (float)(rz / dot(p, product));
        add_scaled(u, step, p);
        add_scaled(r, -step, product);
        residual = std::sqrt(dot(r, r));
        if (residual < goal) {
            residual = true_residual(matrix, right, u, product, difference);
            if (residual < goal)
                return {i, residual};
            copy(difference, r);  // rounding had parted them
        }
        divide(r, diagonal, z);
        double before = rz;
        rz = dot(r, z);
        scale_and_add(p, (float)(rz / before), z);
    }
    return {most, residual};
}
