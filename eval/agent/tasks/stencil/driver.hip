#include "driver.h"

void solve(const float *in, float *out, int n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(512), all = n * n * n;
  driver::Array<float> in(game.numbers<float>(all)), out(all);
  auto want = [&](size_t i) -> double {
    const size_t x = i % n, y = i / n % n, z = i / n / n;
    if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) return in[i];
    const double around = static_cast<double>(in[i - 1]) + in[i + 1] + in[i - n] + in[i + n] + in[i - n * n] + in[i + n * n];
    return 0.4 * in[i] + 0.1 * around;
  };
  return game.play(
      out, [&] { solve(in.data(), out.data(), static_cast<int>(n)); },
      [&] { return driver::relative_error(all, [&](size_t i) { return out[i]; }, want); }, 1e-6);
}
