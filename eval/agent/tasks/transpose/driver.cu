#include "driver.h"

void solve(const float *in, float *out, size_t n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(8192);
  driver::Array<float> in(game.numbers<float>(n * n)), out(n * n);
  return game.play(
      out, [&] { solve(in.data(), out.data(), n); },
      [&] {
        return driver::relative_error(
            n * n, [&](size_t i) { return out[i]; }, [&](size_t i) { return in[i % n * n + i / n]; });
      },
      0);
}
