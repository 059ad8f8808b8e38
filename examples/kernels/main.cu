// main.cu: chooses kernels from the table, runs and times them, checks them against the CPU, prints one line for each.
#include <cstring>
#include <string>

#include "kernels.h"

static const char USAGE[] = R"(usage: kernels --list
       kernels NAME[,NAME...]|all [--n N] [--repeat R] [--check] [--small]

  --list      the kernels: what limits them, what n counts, and the formulas of their bytes and operations
  --n N       size, instead of the kernel's own
  --small     the smallest size that still shows a wrong result
  --repeat R  timed launches after the first one (default 10); with 0 the first launch is the one that is timed
  --check     compare the first launch with the CPU
Exit status: 0, 1 when a result is wrong, 2 when the program could not run.
)";

struct Options {
  std::vector<Kernel> kernels;
  size_t n = 0; // 0: the kernel's own
  int repeat = 10;
  bool check = false, small = false, list = false;
};

[[noreturn]] static void refuse(const std::string &why) {
  std::fprintf(stderr, "kernels: %s\n%s", why.c_str(), USAGE);
  std::exit(2);
}

static Kernels table() {
  Kernels all;
  for (const Kernels &part : {matrix_add_kernels(), matmul_kernels(), stencil_kernels(), yax_kernels(), nbody_kernels(),
                              stream_kernels(), transpose_kernels(), memory_kernels(), shared_kernels(),
                              arithmetic_kernels(), control_kernels(), matrix_unit_kernels(), updates_kernels(),
                              async_copy_kernels(), bulk_copy_kernels(), cluster_kernels(), matrix_feed_kernels(),
                              lines_kernels()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

static Kernels named(const std::string &names) {
  const Kernels all = table();
  if (names == "all") return all;
  Kernels chosen;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Kernel &kernel) { return name == kernel.name; });
    if (found == all.end()) refuse("no kernel is called '" + name + "'; --list shows them");
    chosen.push_back(*found);
    begin = end + 1;
  }
  return chosen;
}

static size_t number(const char *option, const char *text, size_t least, size_t most) {
  char *end = nullptr;
  const unsigned long long value = text ? std::strtoull(text, &end, 10) : 0;
  if (!text || end == text || *end || *text == '-' || value < least || value > most)
    refuse(std::string(option) + " needs a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

static Options options(int count, char **words) {
  Options chosen;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list")
      chosen.list = true;
    else if (word == "--check")
      chosen.check = true;
    else if (word == "--small")
      chosen.small = true;
    else if (word == "--n")
      chosen.n = number("--n", words[++i], 8, size_t{1} << 40);
    else if (word == "--repeat")
      chosen.repeat = static_cast<int>(number("--repeat", words[++i], 0, 1000000));
    else if (word == "--help" || word == "-h")
      std::fputs(USAGE, stdout), std::exit(0);
    else if (word[0] == '-')
      refuse("unknown option " + word);
    else if (chosen.kernels.empty())
      chosen.kernels = named(word);
    else
      refuse("more than one list of kernels; separate the names by commas");
  }
  if (chosen.kernels.empty() && !chosen.list) refuse("no kernel named");
  return chosen;
}

static void list() {
  for (const Kernel &kernel : table())
    std::printf("%s\n  function  %s\n  limit     %s\n  n         %zu %s\n  bytes     %s (%s)\n  flop      %s\n",
                kernel.name, kernel.function, kernel.limit, kernel.n, kernel.size, kernel.bytes.text, kernel.level,
                kernel.flop.text);
}

// The size to run: the one asked for, or the default halved until it fits into the free memory.
static size_t size_for(const Kernel &kernel, const Options &chosen) {
  size_t free = 0, total = 0;
  CHECK(GPU(MemGetInfo)(&free, &total));
  auto accepted = [&](size_t n) { return kernel.fit ? kernel.fit(n) : n; };
  auto fits = [&](size_t n) { return kernel.memory.value(static_cast<double>(n)) <= 0.9 * static_cast<double>(free); };
  size_t n = accepted(chosen.n ? chosen.n : chosen.small ? kernel.small : kernel.n);
  const size_t wanted = n;
  while (!fits(n) && !chosen.n && n > kernel.small) n = accepted(n / 2);
  if (!fits(n)) {
    std::fprintf(stderr, "kernels: %s with n = %zu needs %.2f GB, but %.2f GB are free\n", kernel.name, n,
                 kernel.memory.value(static_cast<double>(n)) / 1e9, static_cast<double>(free) / 1e9);
    std::exit(2);
  }
  if (n != wanted) std::fprintf(stderr, "kernels: %s: n reduced from %zu to %zu to fit\n", kernel.name, wanted, n);
  return n;
}

// Duration of one launch in microseconds, between two events.
static double time_of(const std::function<void()> &launch) {
  GPU(Event_t) begin, end;
  CHECK(GPU(EventCreate)(&begin));
  CHECK(GPU(EventCreate)(&end));
  CHECK(GPU(EventRecord)(begin, 0));
  launch();
  CHECK(GPU(EventRecord)(end, 0));
  CHECK(GPU(EventSynchronize)(end));
  float milliseconds = 0;
  CHECK(GPU(EventElapsedTime)(&milliseconds, begin, end));
  CHECK(GPU(EventDestroy)(begin));
  CHECK(GPU(EventDestroy)(end));
  return milliseconds * 1e3;
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A rate in G/s, or "-" where the kernel has no such operations.
static std::string rate(double amount, double microseconds) {
  if (amount <= 0 || microseconds <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", amount / microseconds / 1e3);
  return text;
}

// Runs one kernel and prints its line. False when its result is not what it should be.
static bool run(const Kernel &kernel, const Options &chosen) {
  if (const char *why = kernel.unavailable ? kernel.unavailable() : nullptr) {
    std::printf("%-21s skipped: %s\n", kernel.name, why);
    return true;
  }
  const size_t n = size_for(kernel, chosen);
  const Run prepared = kernel.prepare(n);
  CHECK(GPU(DeviceSynchronize)());
  std::vector<double> times{time_of(prepared.launch)};
  char error[32] = "-";
  const char *verdict = "-";
  bool right = true;
  if (chosen.check) {
    const double worst = prepared.error();
    right = (worst <= kernel.tolerance) != kernel.intended_wrong;
    verdict = right ? (kernel.intended_wrong ? "wrong as intended" : "ok") : "FAILED";
    std::snprintf(error, sizeof error, "%.1e", worst);
  }
  for (int i = 0; i < chosen.repeat; ++i) times.push_back(time_of(prepared.launch));
  if (chosen.repeat > 0) times.erase(times.begin());
  const double time = median(times), bytes = kernel.bytes.value(static_cast<double>(n)),
               flop = kernel.flop.value(static_cast<double>(n));
  std::printf("%-21s %10zu %12.1f %14.6g %-5s %10s %14.6g %10s %9s %s\n", kernel.name, n, time, bytes, kernel.level,
              rate(bytes, time).c_str(), flop, rate(flop, time).c_str(), error, verdict);
  std::fflush(stdout);
  return right;
}

int main(int count, char **words) {
  const Options chosen = options(count, words);
  if (chosen.list) {
    list();
    return 0;
  }
  DeviceProperties device;
  CHECK(GPU(GetDeviceProperties)(&device, 0));
  std::printf("# %s, %d multiprocessors, %.1f GB\n", device.name, device.multiProcessorCount,
              static_cast<double>(device.totalGlobalMem) / 1e9);
  std::printf("%-21s %10s %12s %14s %-5s %10s %14s %10s %9s %s\n", "kernel", "n", "time_us", "bytes", "level", "GB/s",
              "flop", "GFLOP/s", "error", "check");
  int failed = 0;
  for (const Kernel &kernel : chosen.kernels) failed += !run(kernel, chosen);
  if (failed) std::fprintf(stderr, "kernels: %d of %zu gave a wrong result\n", failed, chosen.kernels.size());
  return failed ? 1 : 0;
}
