// matrix_feed.cu: tensor cores (CUDA) fed from shared memory: by loads of matrices into registers, and directly.
#include "nvidia.h"

constexpr unsigned EDGE = 16, STEPS = 1024;
constexpr unsigned TILE = 64; // of the product of matrices, in all three directions
static const char NEEDS_LOADS[] = "needs ldmatrix and mma: CUDA, compute capability 8.0 or more";
static const char NEEDS_GROUPS[] = "needs wgmma: CUDA, compute capability 9.0, built for 90a";

#if !ON_AMD
constexpr unsigned LANES = 32, BLOCK = 128;
constexpr unsigned PITCH = EDGE + 8; // halves: eight rows of 16 bytes then lie in different banks

// Each warp computes out = STEPS a b of 16 x 16 tiles, and loads both from shared memory anew in every step: from two places
// in turn, as the compiler would keep what it has loaded from one.
__global__ void matrix_loads(const Half *a, const Half *b, float *out, size_t warps) {
  __shared__ alignas(16) Half left[2][EDGE * PITCH], right[2][EDGE * PITCH];
  for (unsigned i = threadIdx.x; i < 2 * EDGE * EDGE; i += BLOCK) {
    const unsigned turn = i / (EDGE * EDGE), at = i % (EDGE * EDGE);
    left[turn][at / EDGE * PITCH + at % EDGE] = a[at];
    right[turn][at / EDGE * PITCH + at % EDGE] = b[at];
  }
  __syncthreads();
  const size_t warp = thread_index() / LANES;
  if (warp >= warps) return;
  const unsigned lane = threadIdx.x % LANES;
  // Lane l gives the address of row l % 8 of 8 x 8 matrix l / 8: those of the upper and lower half, left, then right.
  const unsigned place = lane % EDGE * PITCH + lane / EDGE * 8;
  uint32_t from_left = shared_address(left[0] + place), from_right = shared_address(right[0] + place);
  uint32_t to_other = sizeof left[0];
  float sum[2][4] = {};
#pragma unroll 1
  for (unsigned step = 0; step < STEPS; ++step) {
    uint32_t row[4], column[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(row[0]), "=r"(row[1]), "=r"(row[2]), "=r"(row[3])
                 : "r"(from_left));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(column[0]), "=r"(column[1]), "=r"(column[2]), "=r"(column[3])
                 : "r"(from_right));
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                   "{%0, %1, %2, %3};"
                   : "+f"(sum[half][0]), "+f"(sum[half][1]), "+f"(sum[half][2]), "+f"(sum[half][3])
                   : "r"(row[0]), "r"(row[1]), "r"(row[2]), "r"(row[3]), "r"(column[2 * half]),
                     "r"(column[2 * half + 1]));
    from_left += to_other, from_right += to_other, to_other = -to_other;
  }
  float *tile = out + warp * EDGE * EDGE;
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned k = 0; k < 4; ++k)
      tile[(lane / 4 + k / 2 * 8) * EDGE + half * 8 + lane % 4 * 2 + k % 2] = sum[half][k];
}

static Run prepare_loads(size_t n) {
  auto a = filled<Half>(EDGE * EDGE, 1), b = filled<Half>(EDGE * EDGE, 2);
  auto out = Buffer<float>(n * EDGE * EDGE);
  return {
      [=] { launch(matrix_loads, blocks_for(n * LANES, BLOCK), BLOCK, 0, a.data(), b.data(), out.data(), n); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double product = 0;
          for (unsigned k = 0; k < EDGE; ++k)
            product += input(i / EDGE % EDGE * EDGE + k, 1) * input(k * EDGE + i % EDGE, 2);
          return Pair{got[i], STEPS * product};
        };
        return relative_error(got.size(), element);
      },
  };
}

// How wgmma finds a tile whose rows of 128 bytes a tensor map has swizzled: groups of eight rows, 1024 bytes apart.
__device__ inline uint64_t tile_at(const Half *tile, unsigned column) {
  const uint64_t address = __cvta_generic_to_shared(tile) + 2 * column;
  return (address & 0x3FFFF) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// out = a b^T of n x n matrices, a tile of 64 x 64 for each block: tiles come by tensor maps, and the tensor cores read
// them where they lie.
__global__ void __launch_bounds__(BLOCK) matrix_groups(const __grid_constant__ CUtensorMap a,
                                                       const __grid_constant__ CUtensorMap b, float *out, size_t n) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ alignas(1024) Half left[TILE * TILE], right[TILE * TILE];
  __shared__ uint64_t arrived;
  if (threadIdx.x == 0) barrier_begin(&arrived);
  __syncthreads();
  float sum[32] = {};
  uint32_t phase = 0;
  for (size_t k = 0; k < n; k += TILE, phase ^= 1) {
    if (threadIdx.x == 0) {
      barrier_expect(&arrived, sizeof left + sizeof right);
      tile_load(left, &a, static_cast<int>(k), static_cast<int>(blockIdx.y * TILE), &arrived);
      tile_load(right, &b, static_cast<int>(k), static_cast<int>(blockIdx.x * TILE), &arrived);
    }
    barrier_wait(&arrived, phase); // hot: matrix_groups
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (unsigned column = 0; column < TILE; column += 16)
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
          "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, "
          "1, 1, 1, 0, 0;"
          : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]), "+f"(sum[6]),
            "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]), "+f"(sum[12]), "+f"(sum[13]),
            "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]), "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]),
            "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]), "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]),
            "+f"(sum[28]), "+f"(sum[29]), "+f"(sum[30]), "+f"(sum[31])
          : "l"(tile_at(left, column)), "l"(tile_at(right, column)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); // hot: matrix_groups
    __syncthreads();
  }
  const unsigned warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  for (unsigned k = 0; k < 32; ++k) {
    const size_t row = blockIdx.y * TILE + warp * 16 + lane / 4 + k % 4 / 2 * 8;
    out[row * n + blockIdx.x * TILE + k / 4 * 8 + lane % 4 * 2 + k % 2] = sum[k];
  }
#endif
}

static Run prepare_groups(size_t n) {
  auto a = filled<Half>(n * n, 1), b = filled<Half>(n * n, 2);
  auto out = Buffer<float>(n * n);
  const auto map = [&](const Buffer<Half> &matrix) {
    return tensor_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT16, matrix.data(), n, n, TILE, TILE, CU_TENSOR_MAP_SWIZZLE_128B);
  };
  const CUtensorMap left = map(a), right = map(b);
  const unsigned tiles = static_cast<unsigned>(n / TILE);
  return {
      [=] {
        launch(matrix_groups, dim3(tiles, tiles), BLOCK, 0, left, right, out.data(), n);
        (void)a, (void)b; // kept as long as the maps
      },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) {
          double product = 0;
          for (size_t k = 0; k < n; ++k) product += input(i / n * n + k, 1) * input(i % n * n + k, 2);
          return Pair{got[i], product};
        };
        return relative_error(got.size(), element, 1 << 12);
      },
  };
}

static const char *no_loads() { return needs_capability(80, 1000, NEEDS_LOADS); }
static const char *no_groups() { return needs_capability(90, 90, NEEDS_GROUPS); }
#else
constexpr Run (*prepare_loads)(size_t) = nullptr, (*prepare_groups)(size_t) = nullptr;
static const char *no_loads() { return NEEDS_LOADS; }
static const char *no_groups() { return NEEDS_GROUPS; }
#endif

static size_t whole_tiles(size_t n) { return std::max<size_t>(TILE, n / TILE * TILE); }

Kernels matrix_feed_kernels() {
  return {
      {.name = "matrix_loads",
       .function = "matrix_loads",
       .limit = "lds|matrix",
       .size = "warps",
       .n = 1 << 14,
       .small = 10,
       .memory = FORMULA(4 * EDGE * EDGE * n),
       .level = "lds",
       .bytes = FORMULA(2.0 * 2 * EDGE * EDGE * STEPS * n),
       .flop = FORMULA(2.0 * EDGE * EDGE * EDGE * STEPS * n),
       .tolerance = 1e-3,
       .prepare = prepare_loads,
       .unavailable = no_loads},
      {.name = "matrix_groups",
       .function = "matrix_groups",
       .limit = "latency|l2|lds",
       .size = "rows and columns",
       .n = 2048,
       .small = 128,
       .memory = FORMULA(8 * n * n),
       .level = "hbm",
       .bytes = FORMULA(8 * n * n),
       .flop = FORMULA(2 * n * n * n),
       .tolerance = 1e-3,
       .prepare = prepare_groups,
       .fit = whole_tiles,
       .unavailable = no_groups},
  };
}
