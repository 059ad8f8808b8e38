// async_copy.cu: copies from global to shared memory that pass no registers (cp.async of CUDA, loads to LDS of CDNA 3 and
// later), whole and in pieces.
#include <cstring>

#include "nvidia.h"

constexpr unsigned APART = 8; // floats: 32 bytes, a sector of its own for each lane
constexpr unsigned BLOCK = 256, DEPTH = 4;
static const char NEEDS[] = "needs cp.async: CUDA, compute capability 8.0 or more";

// A lane's piece of BYTES, as one register or several.
template <int BYTES> struct Piece;
template <> struct Piece<4> { using Type = float; };

#if ON_AMD
typedef float Float4 __attribute__((vector_size(16)));
template <> struct Piece<16> { using Type = Float4; };

// The hardware puts the pieces of a wave side by side from the address of its first lane on.
template <int BYTES, bool> __device__ inline void fetch(typename Piece<BYTES>::Type *row, const void *from) {
#if defined(__gfx942__) || defined(__gfx950__)
  auto *source = (__attribute__((address_space(1))) void *)const_cast<void *>(from);
  auto *wave = (__attribute__((address_space(3))) void *)(row + threadIdx.x / warpSize * warpSize);
  if constexpr (BYTES == 4) __builtin_amdgcn_global_load_lds(source, wave, 4, 0, 0);
#if defined(__gfx950__)
  if constexpr (BYTES == 16) __builtin_amdgcn_global_load_lds(source, wave, 16, 0, 0);
#endif
  (void)source, (void)wave;
#else
  (void)row, (void)from; // unavailable() keeps other devices from this launch
#endif
}
__device__ inline void wait_for_copies() {
#if defined(__AMDGCN__)
  __builtin_amdgcn_s_waitcnt(0);
#endif
}
#else
template <> struct Piece<8> { using Type = float2; };
template <> struct Piece<16> { using Type = float4; };

template <int BYTES, bool BYPASS> __device__ inline void fetch(typename Piece<BYTES>::Type *row, const void *from) {
  copy_async<BYTES, BYPASS>(row + threadIdx.x, from);
}
#endif

// Piece i * SPREAD of `in` to piece i of `out` by way of shared memory: written there by the copy, read once by the lane.
template <int BYTES, bool BYPASS, unsigned SPREAD>
__global__ void async_copy(const float *in, float *out, size_t pieces) {
  using Type = typename Piece<BYTES>::Type;
  __shared__ Type stage[DEPTH][BLOCK];
  const size_t stride = thread_count();
  for (size_t first = thread_index(); first < pieces; first += DEPTH * stride) {
#pragma unroll
    for (unsigned k = 0; k < DEPTH; ++k)
      if (const size_t i = first + k * stride; i < pieces)
        fetch<BYTES, BYPASS>(stage[k], reinterpret_cast<const Type *>(in) + i * SPREAD);
    wait_for_copies();
#pragma unroll
    for (unsigned k = 0; k < DEPTH; ++k)
      if (const size_t i = first + k * stride; i < pieces)
        reinterpret_cast<Type *>(out)[i] = stage[k][threadIdx.x];
  }
}

template <int BYTES, bool BYPASS, unsigned SPREAD> static Run prepare(size_t n) {
  constexpr size_t EACH = BYTES / 4;
  auto in = filled<float>(n * SPREAD, 1);
  auto out = Buffer<float>(n);
  return {
      [=] {
        launch(async_copy<BYTES, BYPASS, SPREAD>, filling_grid(), BLOCK, 0, in.data(), out.data(), n / EACH);
      },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) { return Pair{got[i], input(i / EACH * EACH * SPREAD + i % EACH, 1)}; };
        return relative_error(n, element);
      },
  };
}

#if !ON_AMD
// A float of `few` through registers and four floats of `many` by cp.async: two ways in one kernel, five floats out.
__global__ void copy_two_ways(const float *few, const float *many, float *few_out, float *many_out, size_t n) {
  __shared__ float4 stage[BLOCK];
  for (size_t i = thread_index(); i < n; i += thread_count()) {
    copy_async<16, true>(&stage[threadIdx.x], many + 4 * i);
    few_out[i] = few[i];
    wait_for_copies();
    reinterpret_cast<float4 *>(many_out)[i] = stage[threadIdx.x];
  }
}

static Run prepare_two_ways(size_t n) {
  auto few = filled<float>(n, 1), many = filled<float>(4 * n, 2);
  auto few_out = Buffer<float>(n), many_out = Buffer<float>(4 * n);
  return {
      [=] {
        launch(copy_two_ways, filling_grid(), BLOCK, 0, few.data(), many.data(), few_out.data(), many_out.data(), n);
      },
      [=] {
        const auto one = few_out.host(), four = many_out.host();
        auto element = [&](size_t i) {
          return i < n ? Pair{one[i], input(i, 1)} : Pair{four[i - n], input(i - n, 2)};
        };
        return relative_error(5 * n, element);
      },
  };
}


static const char *no_copies() { return needs_capability(80, 1000, NEEDS); }
constexpr auto no_narrow = no_copies, no_wide = no_copies;
constexpr auto prepare_8 = prepare<8, false, 1>, prepare_bypass = prepare<16, true, 1>;
#else
constexpr Run (*prepare_8)(size_t) = nullptr, (*prepare_bypass)(size_t) = nullptr, (*prepare_two_ways)(size_t) = nullptr;

static const char *no_copies() { return NEEDS; }
static bool is(const char *arch) {
  DeviceProperties device;
  CHECK(hipGetDeviceProperties(&device, 0));
  return std::strncmp(device.gcnArchName, arch, std::strlen(arch)) == 0;
}
static const char *no_wide() { return is("gfx950") ? nullptr : "needs loads of 16 bytes to LDS (gfx950), or CUDA"; }
static const char *no_narrow() {
  return is("gfx942") || is("gfx950") ? nullptr : "needs loads to LDS (gfx942, gfx950), or cp.async of CUDA";
}
#endif

static size_t whole_pieces(size_t n) { return std::max<size_t>(4, n / 4 * 4); }

static Kernel copy(const char *name, const char *function, Run (*prepare)(size_t), const char *(*unavailable)()) {
  return {.name = name,
          .function = function,
          .limit = "hbm",
          .size = "floats",
          .n = 1 << 26,
          .small = 10000,
          .memory = FORMULA(8 * n),
          .level = "hbm",
          .bytes = FORMULA(8 * n),
          .flop = FORMULA(0),
          .tolerance = 0,
          .prepare = prepare,
          .fit = whole_pieces,
          .unavailable = unavailable};
}

Kernels async_copy_kernels() {
  Kernel scattered = copy("async_copy_scattered", "async_copy<4, false, 8>", prepare<4, false, APART>, no_narrow);
  scattered.limit = "hbm|l2|vl1d";
  scattered.n = 1 << 24;
  scattered.memory = FORMULA(4 * (APART + 1) * n);
  scattered.bytes = FORMULA(4 * (APART + 1) * n);
  Kernel both = copy("copy_two_ways", "copy_two_ways", prepare_two_ways, no_copies);
  both.n = 1 << 24;
  both.size = "floats through registers, and four times as many asynchronously";
  both.memory = FORMULA(40 * n);
  both.bytes = FORMULA(40 * n);
  return {
      copy("async_copy_4", "async_copy<4, false, 1>", prepare<4, false, 1>, no_narrow),
      copy("async_copy_8", "async_copy<8, false, 1>", prepare_8, no_copies),
      copy("async_copy_16", "async_copy<16, false, 1>", prepare<16, false, 1>, no_wide),
      copy("async_copy_bypass", "async_copy<16, true, 1>", prepare_bypass, no_copies),
      scattered,
      both,
  };
}
