// matrix_unit.cu: chains of 16 x 16 x 16 products in FP16 with FP32 sums on tensor cores (CUDA) or matrix cores (CDNA).
#include <cstring>

#include "kernels.h"
#if !ON_AMD
#include <mma.h>
#endif

constexpr int EDGE = 16, TILES = 4, STEPS = 512, BLOCK = 256;

// Each warp computes out = sum over k < TILES of (k + STEPS a b): four independent chains, so that the unit stays busy.
#if ON_AMD
__global__ void tensor_f16(const Half *a, const Half *b, float *out, size_t warps) {
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
  typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
  typedef float Float4 __attribute__((ext_vector_type(4)));
  const size_t warp = thread_index() / warpSize;
  const int lane = threadIdx.x % warpSize;
  if (warp >= warps) return;
  // A lane holds four elements of row (of a) or column (of b) lane % 16, beginning at 4 (lane / 16).
  Half4 row, column;
  Float4 sum[TILES];
  for (int k = 0; k < 4; ++k) {
    row[k] = a[lane % EDGE * EDGE + lane / EDGE * 4 + k];
    column[k] = b[(lane / EDGE * 4 + k) * EDGE + lane % EDGE];
  }
  for (int tile = 0; tile < TILES; ++tile) sum[tile] = static_cast<float>(tile);
  for (int step = 0; step < STEPS; ++step)
    for (int tile = 0; tile < TILES; ++tile)
      sum[tile] = __builtin_amdgcn_mfma_f32_16x16x16f16(row, column, sum[tile], 0, 0, 0); // hot: tensor_f16
  const Float4 total = sum[0] + sum[1] + sum[2] + sum[3];
  for (int k = 0; k < 4; ++k) out[warp * EDGE * EDGE + (lane / EDGE * 4 + k) * EDGE + lane % EDGE] = total[k];
#else
  (void)a, (void)b, (void)out, (void)warps; // unavailable() keeps other devices from this launch
#endif
}
#else
__global__ void tensor_f16(const Half *a, const Half *b, float *out, size_t warps) {
  using namespace nvcuda::wmma;
  const size_t warp = thread_index() / warpSize;
  if (warp >= warps) return;
  fragment<matrix_a, EDGE, EDGE, EDGE, Half, row_major> left;
  fragment<matrix_b, EDGE, EDGE, EDGE, Half, row_major> right;
  fragment<accumulator, EDGE, EDGE, EDGE, float> sum[TILES];
  load_matrix_sync(left, a, EDGE);
  load_matrix_sync(right, b, EDGE);
  for (int tile = 0; tile < TILES; ++tile) fill_fragment(sum[tile], static_cast<float>(tile));
  for (int step = 0; step < STEPS; ++step)
    for (int tile = 0; tile < TILES; ++tile) mma_sync(sum[tile], left, right, sum[tile]); // hot: tensor_f16
  for (int tile = 1; tile < TILES; ++tile)
    for (int k = 0; k < sum[0].num_elements; ++k) sum[0].x[k] += sum[tile].x[k];
  store_matrix_sync(out + warp * EDGE * EDGE, sum[0], EDGE, mem_row_major);
}
#endif

static Run prepare(size_t n) {
  auto a = filled<Half>(EDGE * EDGE, 1), b = filled<Half>(EDGE * EDGE, 2);
  auto out = Buffer<float>(n * EDGE * EDGE);
  int device = 0, lanes = 0;
  CHECK(GPU(GetDevice)(&device));
#if ON_AMD
  CHECK(hipDeviceGetAttribute(&lanes, hipDeviceAttributeWarpSize, device));
#else
  CHECK(cudaDeviceGetAttribute(&lanes, cudaDevAttrWarpSize, device));
#endif
  const unsigned grid = blocks_for(n * static_cast<size_t>(lanes), BLOCK);
  return {
      [=] { launch(tensor_f16, grid, BLOCK, 0, a.data(), b.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double product = 0;
          for (int k = 0; k < EDGE; ++k)
            product += input(i / EDGE % EDGE * EDGE + k, 1) * input(k * EDGE + i % EDGE, 2);
          return Pair{got[i], TILES * (TILES - 1) / 2 + TILES * STEPS * product};
        };
        return relative_error(got.size(), element);
      },
  };
}

// Why this device cannot run it, or nullptr.
static const char *unavailable() {
#if ON_AMD
  DeviceProperties device;
  CHECK(hipGetDeviceProperties(&device, 0));
  for (const char *arch : {"gfx908", "gfx90a", "gfx942", "gfx950"})
    if (std::strncmp(device.gcnArchName, arch, std::strlen(arch)) == 0) return nullptr;
  return "needs CDNA matrix cores (gfx908, gfx90a, gfx942, gfx950)";
#else
  return nullptr;
#endif
}

Kernels matrix_unit_kernels() {
  return {
      {.name = "tensor_f16",
       .function = "tensor_f16",
       .limit = "matrix",
       .size = "warps",
       .n = 1 << 14,
       .small = 10,
       .memory = FORMULA(4 * EDGE * EDGE * n),
       .level = "hbm",
       .bytes = FORMULA(4 * EDGE * EDGE * n),
       .flop = FORMULA(2.0 * EDGE * EDGE * EDGE * TILES * STEPS * n),
       .tolerance = 1e-3,
       .prepare = prepare,
       .unavailable = unavailable},
  };
}
