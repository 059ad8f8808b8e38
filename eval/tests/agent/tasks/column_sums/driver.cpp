#include "driver.h"

extern "C" void solve(const double *in, double *out, size_t n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(1024);
  driver::Array<double> in(game.numbers<double>(n * n)), out(n);
  std::vector<double> want(n);
  for (size_t i = 0; i < n * n; ++i) want[i % n] += in[i];
  return game.play(
      out, [&] { solve(in.data(), out.data(), n); },
      [&] {
        return driver::relative_error(
            n, [&](size_t i) { return out[i]; }, [&](size_t i) { return want[i]; });
      },
      1e-12);
}
