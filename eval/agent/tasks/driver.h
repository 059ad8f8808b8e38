// driver.h: what the drivers of all tasks share: arrays, timing and the report. For CUDA, HIP and plain C.
//
// A driver makes its inputs from the seed it is given, calls solve() once and checks every element against the CPU, then
// times further calls, each with cold caches and with outputs that hold no right element before, and checks the last one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
#define ON_DEVICE(name) hip##name
#define HAS_DEVICE 1
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#define ON_DEVICE(name) cuda##name
#define HAS_DEVICE 1
#else
#include <chrono>
#endif

namespace driver {

#if defined(HAS_DEVICE)
// Every call that can fail goes through this; an error of the GPU ends the program with status 2.
inline void must(ON_DEVICE(Error_t) error, const char *what) {
  if (error == ON_DEVICE(Success)) return;
  std::fprintf(stderr, "%s: %s\n", what, ON_DEVICE(GetErrorString)(error));
  std::exit(2);
}
inline void *allocate(size_t bytes) {
  void *memory = nullptr;
  must(ON_DEVICE(Malloc)(&memory, bytes), "allocating");
  return memory;
}
inline void release(void *memory) { (void)ON_DEVICE(Free)(memory); }
inline void upload(void *to, const void *from, size_t bytes) {
  must(ON_DEVICE(Memcpy)(to, from, bytes, ON_DEVICE(MemcpyHostToDevice)), "copying to the device");
}
inline void download(void *to, const void *from, size_t bytes) {
  must(ON_DEVICE(Memcpy)(to, from, bytes, ON_DEVICE(MemcpyDeviceToHost)), "copying from the device");
}
inline void set(void *memory, int value, size_t bytes) { must(ON_DEVICE(Memset)(memory, value, bytes), "filling"); }
inline void finish() {
  must(ON_DEVICE(GetLastError)(), "launching");
  must(ON_DEVICE(DeviceSynchronize)(), "running");
}
#else
inline void *allocate(size_t bytes) { return std::malloc(bytes); }
inline void release(void *memory) { std::free(memory); }
inline void upload(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void download(void *to, const void *from, size_t bytes) { std::memcpy(to, from, bytes); }
inline void set(void *memory, int value, size_t bytes) { std::memset(memory, value, bytes); }
inline void finish() {}
#endif

// An array that the candidate sees, with the values that the CPU knows of it.
template <typename T> class Array {
public:
  explicit Array(std::vector<T> values) : values_(std::move(values)) {
    memory_ = allocate(std::max<size_t>(1, values_.size()) * sizeof(T));
    upload(memory_, values_.data(), values_.size() * sizeof(T));
  }
  explicit Array(size_t count) : Array(std::vector<T>(count)) { spoil(); }
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;
  ~Array() { release(memory_); }

  T *data() const { return static_cast<T *>(memory_); }
  size_t size() const { return values_.size(); }
  const T &operator[](size_t i) const { return values_[i]; }
  // All bytes 255: NaN for floats, the largest number for counts.
  void spoil() const { set(memory_, 255, values_.size() * sizeof(T)); }
  // What the candidate wrote, from here on the values that the CPU knows.
  void fetch() { download(values_.data(), memory_, values_.size() * sizeof(T)); }

private:
  std::vector<T> values_;
  void *memory_ = nullptr;
};

class Game {
public:
  // --seed S: of the inputs; --repeat R: timed calls; --size N: what the task makes of it.
  Game(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string name = argv[i];
      const unsigned long long value = std::strtoull(argv[i + 1], nullptr, 10);
      if (name == "--seed") state_ = value * 0x9E3779B97F4A7C15ull + 1;
      if (name == "--repeat") repeat_ = static_cast<int>(value);
      if (name == "--size") size_ = static_cast<size_t>(value);
    }
  }

  size_t size(size_t otherwise) const { return size_ ? size_ : otherwise; }

  // The next pseudo-random number below `limit`.
  unsigned long long below(unsigned long long limit) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return (state_ >> 11) % limit;
  }
  // In [-1, 1), a multiple of 1/1024.
  double number() { return static_cast<double>(below(2048)) / 1024 - 1; }
  template <typename T> std::vector<T> numbers(size_t count) {
    std::vector<T> values(count);
    for (T &value : values) value = static_cast<T>(number());
    return values;
  }

  // Calls solve() and prints the report. error() compares `output` with the CPU once it is fetched: 0 is exact.
  template <typename T, typename Solve, typename Error>
  int play(Array<T> &output, Solve solve, Error error, double tolerance) {
    output.spoil();
    solve();
    finish();
    output.fetch();
    double worst = error();
    std::vector<double> times;
    if (worst <= tolerance) {
      for (int i = 0; i < repeat_; ++i) times.push_back(timed(output, solve));
      if (repeat_ > 0) {
        output.fetch();
        worst = std::max(worst, error());
      }
    }
    const bool right = worst <= tolerance; // false for NaN
    std::printf("\n{\"right\": %s, \"error\": %.6g, \"times_ns\": [", right ? "true" : "false",
                std::isfinite(worst) ? worst : 1e308);
    for (size_t i = 0; i < times.size(); ++i) std::printf("%s%.1f", i ? ", " : "", times[i]);
    std::printf("]}\n");
    return 0;
  }

private:
  // Nanoseconds of one call; the caches hold something else before it, and the output nothing that is right.
  template <typename T, typename Solve> double timed(Array<T> &output, Solve solve) {
    static Array<char> cold(COLD_BYTES);
    output.spoil();
    cold.spoil();
    finish();
#if defined(HAS_DEVICE)
    ON_DEVICE(Event_t) begin, end;
    must(ON_DEVICE(EventCreate)(&begin), "timing");
    must(ON_DEVICE(EventCreate)(&end), "timing");
    must(ON_DEVICE(EventRecord)(begin, 0), "timing");
    solve();
    must(ON_DEVICE(EventRecord)(end, 0), "timing");
    must(ON_DEVICE(EventSynchronize)(end), "timing");
    finish();
    float milliseconds = 0;
    must(ON_DEVICE(EventElapsedTime)(&milliseconds, begin, end), "timing");
    (void)ON_DEVICE(EventDestroy)(begin);
    (void)ON_DEVICE(EventDestroy)(end);
    return 1e6 * static_cast<double>(milliseconds);
#else
    const auto begin = std::chrono::steady_clock::now();
    solve();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
#endif
  }

#if defined(HAS_DEVICE) && !defined(EMULATED)
  static constexpr size_t COLD_BYTES = size_t{256} << 20;
#else
  static constexpr size_t COLD_BYTES = size_t{1} << 20;
#endif
  unsigned long long state_ = 88172645463325252ull;
  int repeat_ = 20;
  size_t size_ = 0;
};

// Largest |got - want| over the largest |want|. Infinite where something is not a number.
template <typename Got, typename Want> double relative_error(size_t count, Got got, Want want) {
  double difference = 0, scale = 0;
  for (size_t i = 0; i < count; ++i) {
    const double have = static_cast<double>(got(i)), should = static_cast<double>(want(i));
    if (!std::isfinite(have)) return INFINITY;
    difference = std::max(difference, std::fabs(have - should));
    scale = std::max(scale, std::fabs(should));
  }
  return scale > 0 ? difference / scale : difference;
}

} // namespace driver
