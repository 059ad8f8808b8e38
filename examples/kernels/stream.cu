// stream.cu: the roofline ladder in FP32: one operation per element moved, then more and more of them.
//
// add, mul, triad and fma have the intensities 1/12, 1/8, 1/6 and 1/2 flop per byte; fma_sweep<N> has N/2 and crosses
// the ridge of most devices between 20 and 60.
#include "kernels.h"

constexpr float FACTOR = 0.5f;

__global__ void stream_add(float *__restrict__ a, const float *__restrict__ b, size_t n) {
  stream(n, [=](size_t i) { return a[i] + b[i]; }, [=](size_t i, float sum) { a[i] = sum; });
}

__global__ void stream_mul(float *__restrict__ a, const float *__restrict__ b, size_t n) {
  stream(n, [=](size_t i) { return FACTOR * b[i]; }, [=](size_t i, float product) { a[i] = product; });
}

__global__ void stream_triad(float *__restrict__ a, const float *__restrict__ b, size_t n) {
  stream(n, [=](size_t i) { return fmaf(FACTOR, a[i], b[i]); }, [=](size_t i, float sum) { a[i] = sum; });
}

// x = a[i] x + 1 over the elements of a thread. Only the last x of each thread is written.
__global__ void stream_fma(const float *a, float *out, size_t n) {
  float x = 2.0f;
  stream(n, [=](size_t i) { return a[i]; }, [&](size_t, float factor) { x = fmaf(factor, x, 1.0f); });
  out[thread_index()] = x;
}

// The same with COUNT steps per element.
template <int COUNT> __global__ void fma_sweep(const float *a, float *out, size_t n) {
  [[maybe_unused]] constexpr int UNROLL = COUNT < 64 ? COUNT : 64;
  float x = 2.0f;
  stream(
      n, [=](size_t i) { return a[i]; },
      [&](size_t, float factor) {
#pragma unroll UNROLL
        for (int k = 0; k < COUNT; ++k) x = fmaf(factor, x, 1.0f);
      });
  out[thread_index()] = x;
}

template <auto KERNEL> static Run prepare_update(size_t n, double (*want)(double a, double b)) {
  auto a = filled<float>(n, 1), b = filled<float>(n, 2);
  return {
      [=] { launch(KERNEL, filling_grid(), 256, 0, a.data(), b.data(), n); },
      [=] {
        const auto got = a.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], want(input(i, 1), input(i, 2))}; });
      },
  };
}

template <auto KERNEL, int COUNT> static Run prepare_sweep(size_t n) {
  const size_t threads = 256 * static_cast<size_t>(filling_grid());
  auto a = filled<float>(n, 1);
  auto out = Buffer<float>(threads);
  return {
      [=] { launch(KERNEL, filling_grid(), 256, 0, a.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t thread) {
          float x = 2.0f;
          for (size_t i = thread; i < n; i += threads)
            for (int k = 0; k < COUNT; ++k) x = std::fma(static_cast<float>(input(i, 1)), x, 1.0f);
          return Pair{got[thread], x};
        };
        return relative_error(threads, element, 64);
      },
  };
}

template <int COUNT> static Kernel sweep(const char *name, const char *function, const char *limit, Formula flop) {
  return {.name = name,
          .function = function,
          .limit = limit,
          .size = "elements",
          .n = 1 << 28,
          .small = 10000,
          .memory = FORMULA(4 * n),
          .level = "hbm",
          .bytes = FORMULA(4 * n),
          .flop = flop,
          .tolerance = 1e-6,
          .prepare = prepare_sweep<fma_sweep<COUNT>, COUNT>};
}

Kernels stream_kernels() {
  return {
      {.name = "stream_add",
       .function = "stream_add",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 28,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(12 * n),
       .flop = FORMULA(n),
       .tolerance = 0,
       .prepare = [](size_t n) { return prepare_update<stream_add>(n, [](double a, double b) { return a + b; }); }},
      {.name = "stream_mul",
       .function = "stream_mul",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 28,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n),
       .flop = FORMULA(n),
       .tolerance = 0,
       .prepare = [](size_t n) { return prepare_update<stream_mul>(n, [](double, double b) { return FACTOR * b; }); }},
      {.name = "stream_triad",
       .function = "stream_triad",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 28,
       .small = 10000,
       .memory = FORMULA(8 * n),
       .level = "hbm",
       .bytes = FORMULA(12 * n),
       .flop = FORMULA(2 * n),
       .tolerance = 0,
       .prepare =
           [](size_t n) { return prepare_update<stream_triad>(n, [](double a, double b) { return FACTOR * a + b; }); }},
      {.name = "stream_fma",
       .function = "stream_fma",
       .limit = "hbm",
       .size = "elements",
       .n = 1 << 28,
       .small = 10000,
       .memory = FORMULA(4 * n),
       .level = "hbm",
       .bytes = FORMULA(4 * n),
       .flop = FORMULA(2 * n),
       .tolerance = 1e-6,
       .prepare = prepare_sweep<stream_fma, 1>},
      sweep<20>("fma_sweep_20", "fma_sweep<20>", "hbm|valu", FORMULA(20 * 2 * n)),
      sweep<30>("fma_sweep_30", "fma_sweep<30>", "hbm|valu", FORMULA(30 * 2 * n)),
      sweep<40>("fma_sweep_40", "fma_sweep<40>", "valu|hbm", FORMULA(40 * 2 * n)),
      sweep<50>("fma_sweep_50", "fma_sweep<50>", "valu|hbm", FORMULA(50 * 2 * n)),
      sweep<60>("fma_sweep_60", "fma_sweep<60>", "valu|hbm", FORMULA(60 * 2 * n)),
      sweep<256>("fma_sweep_256", "fma_sweep<256>", "valu", FORMULA(256 * 2 * n)),
      sweep<1024>("fma_sweep_1024", "fma_sweep<1024>", "valu", FORMULA(1024 * 2 * n)),
  };
}
