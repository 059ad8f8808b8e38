#include "driver.h"

void solve(const float *a, const float *b, float *c, size_t n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(2048), rows = std::min<size_t>(n, 64);
  driver::Array<float> a(game.numbers<float>(n * n)), b(game.numbers<float>(n * n)), c(n * n);
  // Every column of some rows, spread over the matrix; where they lie changes with the seed.
  std::vector<size_t> row(rows);
  for (size_t r = 0; r < rows; ++r) row[r] = r * (n / rows) + game.below(n / rows);
  std::vector<double> want(rows * n);
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = 0; k < n; ++k)
      for (size_t j = 0; j < n; ++j) want[r * n + j] += static_cast<double>(a[row[r] * n + k]) * b[k * n + j];
  return game.play(
      c, [&] { solve(a.data(), b.data(), c.data(), n); },
      [&] {
        return driver::relative_error(
            rows * n, [&](size_t i) { return c[row[i / n] * n + i % n]; }, [&](size_t i) { return want[i]; });
      },
      1e-4);
}
