#include "driver.h"

void solve(const unsigned *in, unsigned long long *sum, size_t n);

int main(int argc, char **argv) {
  driver::Game game(argc, argv);
  const size_t n = game.size(size_t{1} << 26);
  std::vector<unsigned> values(n);
  unsigned long long sum = 0;
  for (unsigned &value : values) sum += value = static_cast<unsigned>(game.below(1u << 31));
  driver::Array<unsigned> in(std::move(values));
  driver::Array<unsigned long long> out(1);
  return game.play(
      out, [&] { solve(in.data(), out.data(), n); }, [&] { return out[0] == sum ? 0.0 : 1.0; }, 0);
}
