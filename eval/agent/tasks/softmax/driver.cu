#include "driver.h"

void solve(const float *in, float *out, size_t rows, size_t columns);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t rows = game.size(16384), columns = rows < 100 ? 512 : 1024;
  driver::Array<float> in(game.numbers<float>(rows * columns)), out(rows * columns);
  std::vector<double> want(rows * columns);
  for (size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) sum += want[i] = std::exp(static_cast<double>(in[i]));
    for (size_t i = row * columns; i < (row + 1) * columns; ++i) want[i] /= sum;
  }
  return game.play(
      out, [&] { solve(in.data(), out.data(), rows, columns); },
      [&] {
        return driver::relative_error(
            rows * columns, [&](size_t i) { return out[i]; }, [&](size_t i) { return want[i]; });
      },
      1e-5);
}
