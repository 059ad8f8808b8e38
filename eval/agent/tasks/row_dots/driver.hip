#include "driver.h"

void solve(const double *a, const double *x, const double *left, double *out, int rows, int columns);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t rows = game.size(16384), columns = rows < 100 ? 512 : 16384;
  driver::Array<double> a(game.numbers<double>(rows * columns)), x(game.numbers<double>(columns));
  driver::Array<double> left(game.numbers<double>(rows)), out(rows);
  std::vector<double> want(rows);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < columns; ++i) want[row] += a[row * columns + i] * x[i];
    want[row] *= left[row];
  }
  const int r = static_cast<int>(rows), c = static_cast<int>(columns);
  return game.play(
      out, [&] { solve(a.data(), x.data(), left.data(), out.data(), r, c); },
      [&] {
        return driver::relative_error(
            rows, [&](size_t i) { return out[i]; }, [&](size_t i) { return want[i]; });
      },
      1e-10);
}
