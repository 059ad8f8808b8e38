// solver CASE OUT: read a case, solve it, write the solution.
#include "files.h"
#include "solve.h"
#include <cstdio>

int main(int count, char **words)
{
    if (count != 3) {
        std::fprintf(stderr, "usage: solver CASE OUT\n");
        return 2;
    }
    Case given = read_case(words[1]);
    Grid grid{given.n, given.spacing};
    Field coefficients(grid.points()), right(grid.points()), u(grid.points());
    coefficients.upload(given.coefficients);
    right.upload(given.right);
    Diffusion matrix(grid, coefficients);
    Progress done = solve(matrix, right, u, given.tolerance, given.most);
    std::printf("%d iterations, residual %.3g\n", done.iterations, done.residual);
    write_result(words[2], u.download());
    return 0;
}
