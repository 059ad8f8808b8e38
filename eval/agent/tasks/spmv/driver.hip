#include "driver.h"

void solve(const int *start, const int *column, const double *value, const double *x, double *y, int rows);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const int rows = static_cast<int>(game.size(200000));
  std::vector<int> starts{0}, columns;
  for (int row = 0; row < rows; ++row) {
    // One row in 512 is long; some are empty.
    const int most = rows < 4096 ? 200 : 16384;
    const int length = game.below(512) == 0 ? most : static_cast<int>(game.below(120));
    for (int i = 0; i < length; ++i) columns.push_back(static_cast<int>(game.below(static_cast<unsigned>(rows))));
    starts.push_back(static_cast<int>(columns.size()));
  }
  driver::Array<double> value(game.numbers<double>(columns.size())), x(game.numbers<double>(rows)), y(rows);
  driver::Array<int> start(std::move(starts)), column(std::move(columns));
  std::vector<double> want(rows);
  for (int row = 0; row < rows; ++row)
    for (int i = start[row]; i < start[row + 1]; ++i) want[row] += value[i] * x[column[i]];
  return game.play(
      y, [&] { solve(start.data(), column.data(), value.data(), x.data(), y.data(), rows); },
      [&] {
        return driver::relative_error(
            rows, [&](size_t i) { return y[i]; }, [&](size_t i) { return want[i]; });
      },
      1e-10);
}
