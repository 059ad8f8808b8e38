// main.cu: times every kernel with its interventions, or launches every kernel once for a profiler.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "demand.h"

static const char USAGE[] = R"(usage: interventions list
       interventions time FILE.csv SCALES [SECONDS]   times all cases; a line for each as it is measured
       interventions once SCALES [PART PARTS]         launches the kernels themselves once each: every PARTS-th
       interventions check                            launches all cases small: do fixes count what their kernel counts?

SCALES is the file of factors for the rounds of each kernel: `time` writes it, `once` reads it.
)";

constexpr size_t WORDS = size_t{1} << 27, WRITTEN = size_t{1} << 26;
constexpr size_t TARGETS = size_t{1} << 20, THREADS = size_t{1} << 22, ON_HOST = size_t{1} << 24;
constexpr int REPEATS = 7;
constexpr double SHORT = 120, LONG = 1200, TOO_LONG = 20000; // microseconds

std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}

__global__ void fill_ones(unsigned *words, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) words[i] = 1;
}

__global__ void fill_links(unsigned *words, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) words[i] = scattered(static_cast<unsigned>(i)) % n;
}

__global__ void add_up(const unsigned *words, size_t n, unsigned long long *total) {
  unsigned long long sum = 0;
  for (size_t i = thread_index(); i < n; i += thread_count()) sum += words[i];
  atomicAdd(total, sum);
}

// What all kernels work on. Memory of the host is pinned, and only taken where a kernel reads it.
class Arrays {
public:
  explicit Arrays(size_t shrink)
      : data_(WORDS / shrink), links_(WORDS / shrink), written_(WRITTEN / shrink), targets_(TARGETS),
        out_(THREADS), total_(1) {
    launch(fill_ones, filling_grid(), 256, 0, data_.data(), data_.count());
    launch(fill_links, filling_grid(), 256, 0, links_.data(), links_.count());
    written_.clear();
    CHECK(GPU(DeviceSynchronize)());
  }

  Shape place(const Case &one, unsigned factor, unsigned divisor) {
    Shape shape = one.shape;
    shape.rounds = std::max(1u, shape.rounds * factor / divisor);
    shape.data = one.on_host ? host() : data_.data();
    shape.links = links_.data();
    shape.written = written_.data();
    shape.targets = targets_.data();
    shape.out = out_.data();
    shape.mask &= static_cast<unsigned>(data_.count() - 1);
    shape.write_mask &= static_cast<unsigned>(written_.count() - 1);
    if (size_t{one.grid} * one.block > out_.count()) {
      std::fprintf(stderr, "%s %s has too many threads\n", one.kernel.c_str(), one.what.c_str());
      std::exit(2);
    }
    return shape;
  }

  // The sum of what one launch counted.
  unsigned long long counted(const Case &one, const Shape &shape) {
    targets_.clear();
    launch(one.function, one.grid, one.block, one.lds_bytes, shape);
    total_.clear();
    launch(add_up, filling_grid(), 256, 0, out_.data(), size_t{one.grid} * one.block, total_.data());
    launch(add_up, filling_grid(), 256, 0, targets_.data(), TARGETS, total_.data());
    return total_.host()[0];
  }

private:
  const unsigned *host() {
    if (!host_) {
      void *memory = nullptr;
      CHECK(GPU(HostAlloc)(&memory, ON_HOST * sizeof(unsigned), 0));
      host_ = static_cast<unsigned *>(memory);
      std::fill(host_, host_ + ON_HOST, 1u);
    }
    return host_;
  }

  Buffer<unsigned> data_, links_, written_, targets_, out_;
  Buffer<unsigned long long> total_;
  unsigned *host_ = nullptr;
};

static void allow_lds(const Case &one) {
#if !ON_AMD
  if (one.lds_bytes > 48 * 1024)
    CHECK(cudaFuncSetAttribute(reinterpret_cast<const void *>(one.function),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(one.lds_bytes)));
#endif
}

// Duration of one launch in microseconds, between two events.
static double time_of(const Case &one, const Shape &shape) {
  static GPU(Event_t) begin, end;
  static bool made = false;
  if (!made) {
    CHECK(GPU(EventCreate)(&begin));
    CHECK(GPU(EventCreate)(&end));
    made = true;
  }
  CHECK(GPU(EventRecord)(begin, 0));
  launch(one.function, one.grid, one.block, one.lds_bytes, shape);
  CHECK(GPU(EventRecord)(end, 0));
  CHECK(GPU(EventSynchronize)(end));
  float milliseconds = 0;
  CHECK(GPU(EventElapsedTime)(&milliseconds, begin, end));
  return milliseconds * 1e3;
}

struct Scale {
  unsigned factor = 1, divisor = 1;
};

// Twice the rounds until a launch can be measured well, half of them until it does not take too long.
static Scale scale_for(Arrays &arrays, const Case &base) {
  Scale scale;
  if (!base.scaled) return scale;
  auto timed = [&] {
    const Shape shape = arrays.place(base, scale.factor, scale.divisor);
    const double first = time_of(base, shape);
    return first > TOO_LONG ? first : time_of(base, shape);
  };
  double time = timed();
  while (time < SHORT && scale.factor < 256) {
    scale.factor *= 2;
    time = timed();
  }
  while (time > LONG && scale.factor == 1 && scale.divisor < 16) {
    scale.divisor *= 2;
    time = timed();
  }
  return scale;
}

static std::vector<std::string> kernels() {
  std::vector<std::string> names;
  for (const Case &one : cases())
    if (one.what == "base") names.push_back(one.kernel);
  return names;
}

static int time_all(const char *path, const char *scales_path, double seconds) {
  Arrays arrays(1);
  std::map<std::string, std::vector<const Case *>> of_kernel;
  for (const Case &one : cases()) of_kernel[one.kernel].push_back(&one);
  std::ofstream file(path), scales(scales_path);
  file << "kernel,what,keeps_work,time_us,least_us,most_us,n,counted,grid,block,lds_bytes,rounds\n";
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  size_t done = 0;
  for (const std::string &name : kernels()) {
    if (elapsed() > seconds) break;
    auto &variants = of_kernel[name];
    for (const Case *one : variants) allow_lds(*one);
    const Case &base = **std::find_if(variants.begin(), variants.end(), [](auto *c) { return c->what == "base"; });
    const Scale scale = scale_for(arrays, base);
    std::vector<Shape> shapes;
    std::vector<std::vector<double>> times(variants.size());
    std::vector<unsigned long long> counted;
    for (const Case *one : variants) {
      shapes.push_back(arrays.place(*one, scale.factor, scale.divisor));
      counted.push_back(arrays.counted(*one, shapes.back()));
    }
    for (int repeat = 0; repeat < REPEATS; ++repeat)
      for (size_t i = 0; i < variants.size(); ++i) {
        time_of(*variants[i], shapes[i]); // leaves the caches as this variant does
        times[i].push_back(time_of(*variants[i], shapes[i]));
      }
    for (size_t i = 0; i < variants.size(); ++i) {
      std::sort(times[i].begin(), times[i].end());
      const Case &one = *variants[i];
      char line[256];
      std::snprintf(line, sizeof line, "%s,%s,%d,%.2f,%.2f,%.2f,%d,%llu,%u,%u,%u,%u\n", one.kernel.c_str(),
                    one.what.c_str(), one.keeps_work, times[i][REPEATS / 2], times[i].front(), times[i].back(), REPEATS,
                    counted[i], one.grid, one.block, one.lds_bytes, shapes[i].rounds);
      file << line;
    }
    scales << name << ' ' << scale.factor << ' ' << scale.divisor << '\n';
    file.flush();
    scales.flush();
    ++done;
  }
  std::printf("%zu of %zu kernels timed in %.1f s\n", done, of_kernel.size(), elapsed());
  return 0;
}

static int once(const char *scales_path, size_t part, size_t parts) {
  std::ifstream file(scales_path);
  std::map<std::string, Scale> scales;
  std::string name;
  for (Scale scale; file >> name >> scale.factor >> scale.divisor;) scales[name] = scale;
  Arrays arrays(1);
  std::vector<const Case *> chosen;
  for (const Case &one : cases())
    if (one.what == "base" && scales.count(one.kernel)) chosen.push_back(&one);
  for (size_t i = part; i < chosen.size(); i += parts) {
    const Case &one = *chosen[i];
    const Scale scale = scales[one.kernel];
    allow_lds(one);
    launch(one.function, one.grid, one.block, one.lds_bytes, arrays.place(one, scale.factor, scale.divisor));
    CHECK(GPU(DeviceSynchronize)());
    std::printf("%s %u %u\n", one.kernel.c_str(), one.grid, one.block);
    std::fflush(stdout);
  }
  return 0;
}

// Launches every case with fewer rounds and work-groups: that every fix counts what its kernel counts.
static int check_all() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  constexpr unsigned UNITS = 132;
  Arrays arrays(64);
  std::map<std::string, unsigned long long> expected;
  std::map<std::string, unsigned> fewer;
  int wrong = 0;
  for (Case one : cases()) {
    allow_lds(one);
    if (one.what == "base") fewer[one.kernel] = one.grid % UNITS == 0 && one.shape.members == 1 ? UNITS : 1;
    one.grid /= fewer[one.kernel];
    const auto counted = arrays.counted(one, arrays.place(one, 1, one.scaled ? 16 : 1));
    if (one.what == "base") expected[one.kernel] = counted;
    const bool right = !one.keeps_work || counted == expected[one.kernel];
    if (!right)
      std::printf("%s %s counts %llu, its kernel %llu\n", one.kernel.c_str(), one.what.c_str(), counted,
                  expected[one.kernel]);
    wrong += !right;
  }
  std::printf("%d of %zu cases count something else than their kernel\n", wrong, cases().size());
  return wrong ? 1 : 0;
}

int main(int count, char **words) {
  // The order of kernels is that of their names, whatever order the files were linked in.
  std::stable_sort(cases().begin(), cases().end(), [](const Case &a, const Case &b) { return a.kernel < b.kernel; });
  const std::string mode = count > 1 ? words[1] : "";
  if (mode == "list") {
    for (const Case &one : cases()) std::printf("%s %s\n", one.kernel.c_str(), one.what.c_str());
    return 0;
  }
  if (mode == "check") return check_all();
  if (mode == "time" && count >= 4) return time_all(words[2], words[3], count > 4 ? std::atof(words[4]) : 1e9);
  if (mode == "once" && count >= 3)
    return once(words[2], count > 4 ? std::atoi(words[3]) : 0, count > 4 ? std::atoi(words[4]) : 1);
  std::fputs(USAGE, stderr);
  return 2;
}
