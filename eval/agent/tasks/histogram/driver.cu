#include "driver.h"

void solve(const unsigned char *in, unsigned *counts, size_t n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(size_t{1} << 27);
  std::vector<unsigned char> values(n);
  std::vector<unsigned> want(256);
  // The smaller of two numbers, squared: small values are frequent.
  for (unsigned char &value : values) {
    const unsigned long long low = std::min(game.below(256), game.below(256));
    ++want[value = static_cast<unsigned char>(low * low / 255)];
  }
  driver::Array<unsigned char> in(std::move(values));
  driver::Array<unsigned> counts(256);
  return game.play(
      counts, [&] { solve(in.data(), counts.data(), n); },
      [&] {
        return driver::relative_error(
            256, [&](size_t i) { return counts[i]; }, [&](size_t i) { return want[i]; });
      },
      0);
}
