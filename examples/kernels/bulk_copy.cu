// bulk_copy.cu: the copy engine of an SM (TMA of CUDA): one thread moves whole tiles between global and shared memory.
#include "nvidia.h"

constexpr unsigned EDGE = 64, FLOATS = EDGE * EDGE; // of a piece, which is a tile where a tensor map describes it
static const char NEEDS[] = "needs bulk copies (TMA): CUDA, compute capability 9.0 or more";

#if !ON_AMD
constexpr unsigned PIECE = 4 * FLOATS, BLOCK = 128, BLOCKS = 2;

// In and out by bulk copies: no thread touches the data.
__global__ void bulk_copy(const float *in, float *out, size_t pieces) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float stage[FLOATS];
  __shared__ uint64_t arrived;
  if (threadIdx.x > 0) return;
  barrier_begin(&arrived);
  uint32_t phase = 0;
  for (size_t piece = blockIdx.x; piece < pieces; piece += gridDim.x, phase ^= 1) {
    barrier_expect(&arrived, PIECE);
    bulk_load(stage, in + piece * FLOATS, PIECE, &arrived);
    barrier_wait(&arrived, phase);
    publish_to_copies();
    bulk_store(out + piece * FLOATS, stage, PIECE);
    bulk_sources_free();
  }
  bulk_stores_done();
#endif
}

// In by a bulk copy, out by the threads.
__global__ void bulk_read(const float *in, float *out, size_t pieces) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float4 stage[FLOATS / 4];
  __shared__ uint64_t arrived;
  if (threadIdx.x == 0) barrier_begin(&arrived);
  __syncthreads();
  uint32_t phase = 0;
  for (size_t piece = blockIdx.x; piece < pieces; piece += gridDim.x, phase ^= 1) {
    if (threadIdx.x == 0) {
      barrier_expect(&arrived, PIECE);
      bulk_load(stage, in + piece * FLOATS, PIECE, &arrived);
    }
    barrier_wait(&arrived, phase);
    float4 *place = reinterpret_cast<float4 *>(out + piece * FLOATS);
    for (unsigned i = threadIdx.x; i < FLOATS / 4; i += BLOCK) place[i] = stage[i];
    __syncthreads();
  }
#endif
}

// In by the threads, out by a bulk copy.
__global__ void bulk_write(const float *in, float *out, size_t pieces) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float4 stage[FLOATS / 4];
  for (size_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const float4 *place = reinterpret_cast<const float4 *>(in + piece * FLOATS);
    for (unsigned i = threadIdx.x; i < FLOATS / 4; i += BLOCK) stage[i] = place[i];
    publish_to_copies();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(out + piece * FLOATS, stage, PIECE);
      bulk_sources_free();
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_stores_done();
#endif
}

// Adds a piece of ones to every piece of sums: L2 does the additions.
__global__ void bulk_reduce(unsigned *sums, size_t pieces) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) unsigned ones[FLOATS];
  for (unsigned i = threadIdx.x; i < FLOATS; i += BLOCK) ones[i] = 1;
  publish_to_copies();
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (size_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    bulk_add(sums + piece * FLOATS, ones, PIECE);
    bulk_sources_free();
  }
  bulk_stores_done();
#endif
}

// Each block of a cluster fetches its half of a piece for both, so that L2 is read once; each writes its own half back.
__global__ void __cluster_dims__(BLOCKS, 1, 1) bulk_multicast(const float *in, float *out, size_t pieces) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float stage[FLOATS];
  __shared__ uint64_t arrived;
  constexpr unsigned HALF = FLOATS / BLOCKS;
  const uint32_t own = rank_in_cluster() * HALF;
  if (threadIdx.x == 0) barrier_begin(&arrived);
  cluster_sync();
  uint32_t phase = 0;
  for (size_t piece = blockIdx.x / BLOCKS; piece < pieces; piece += gridDim.x / BLOCKS, phase ^= 1) {
    if (threadIdx.x == 0) {
      barrier_expect(&arrived, PIECE);
      bulk_load_all(stage + own, in + piece * FLOATS + own, PIECE / BLOCKS, &arrived, (1 << BLOCKS) - 1);
    }
    barrier_wait(&arrived, phase);
    if (threadIdx.x == 0) {
      publish_to_copies();
      bulk_store(out + piece * FLOATS + own, stage + own, PIECE / BLOCKS);
      bulk_sources_free();
    }
    cluster_sync(); // the other block's next piece must not come before this one has left
  }
  if (threadIdx.x == 0) bulk_stores_done();
#endif
}

// The same copy by tiles of a matrix that tensor maps describe: `columns` tiles lie in a row of them.
__global__ void tensor_map_copy(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out,
                                size_t tiles, unsigned columns) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float stage[FLOATS];
  __shared__ uint64_t arrived;
  if (threadIdx.x > 0) return;
  barrier_begin(&arrived);
  uint32_t phase = 0;
  for (size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, phase ^= 1) {
    const int x = static_cast<int>(tile % columns * EDGE), y = static_cast<int>(tile / columns * EDGE);
    barrier_expect(&arrived, PIECE);
    tile_load(stage, &in, x, y, &arrived);
    barrier_wait(&arrived, phase);
    publish_to_copies();
    tile_store(&out, x, y, stage);
    bulk_sources_free();
  }
  bulk_stores_done();
#endif
}

static Run prepare_with(void (*kernel)(const float *, float *, size_t), size_t n) {
  auto in = filled<float>(n, 1);
  auto out = Buffer<float>(n);
  return {
      [=] { launch(kernel, filling_grid(), BLOCK, 0, in.data(), out.data(), n / FLOATS); },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], input(i, 1)}; });
      },
  };
}
static Run prepare_copy(size_t n) { return prepare_with(bulk_copy, n); }
static Run prepare_read(size_t n) { return prepare_with(bulk_read, n); }
static Run prepare_write(size_t n) { return prepare_with(bulk_write, n); }
static Run prepare_multicast(size_t n) { return prepare_with(bulk_multicast, n); }

static Run prepare_reduce(size_t n) {
  auto sums = Buffer<unsigned>(n);
  sums.clear();
  return {
      [=] { launch(bulk_reduce, filling_grid(), BLOCK, 0, sums.data(), n / FLOATS); },
      [=] {
        const auto got = sums.host();
        return relative_error(n, [&](size_t i) { return Pair{static_cast<double>(got[i]), 1}; });
      },
  };
}

// Tiles in a row of the matrix: as many as divide the tiles there are, so that the matrix is about square.
static unsigned columns_of(size_t tiles) {
  unsigned columns = 1;
  while (columns * 2ull * columns * 2 <= tiles && tiles % (columns * 2) == 0) columns *= 2;
  return columns;
}

static Run prepare_tensor_map(size_t n) {
  auto in = filled<float>(n, 1);
  auto out = Buffer<float>(n);
  const unsigned columns = columns_of(n / FLOATS);
  const CUtensorMap from = tensor_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, in.data(), n / columns / EDGE, columns * EDGE,
                                      EDGE, EDGE, CU_TENSOR_MAP_SWIZZLE_NONE);
  const CUtensorMap to = tensor_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, out.data(), n / columns / EDGE, columns * EDGE,
                                    EDGE, EDGE, CU_TENSOR_MAP_SWIZZLE_NONE);
  return {
      [=] {
        launch(tensor_map_copy, filling_grid(), BLOCK, 0, from, to, n / FLOATS, columns);
        (void)in, (void)out; // kept as long as the maps
      },
      [=] {
        const auto got = out.host();
        return relative_error(n, [&](size_t i) { return Pair{got[i], input(i, 1)}; });
      },
  };
}

static const char *unavailable() { return needs_capability(90, 1000, NEEDS); }
#else
constexpr Run (*prepare_copy)(size_t) = nullptr, (*prepare_read)(size_t) = nullptr, (*prepare_write)(size_t) = nullptr,
              (*prepare_multicast)(size_t) = nullptr, (*prepare_reduce)(size_t) = nullptr,
              (*prepare_tensor_map)(size_t) = nullptr;
static const char *unavailable() { return NEEDS; }
#endif

static size_t whole_blocks(size_t n) { return std::max<size_t>(FLOATS, n / FLOATS * FLOATS); }

static Kernel copy(const char *name, Run (*prepare)(size_t)) {
  return {.name = name,
          .function = name,
          .limit = "hbm",
          .size = "floats",
          .n = 1 << 26,
          .small = 8 * FLOATS,
          .memory = FORMULA(8 * n),
          .level = "hbm",
          .bytes = FORMULA(8 * n),
          .flop = FORMULA(0),
          .tolerance = 0,
          .prepare = prepare,
          .fit = whole_blocks,
          .unavailable = unavailable};
}

Kernels bulk_copy_kernels() {
  Kernel reduce = copy("bulk_reduce", prepare_reduce);
  reduce.limit = "hbm|l2|atomics";
  reduce.memory = FORMULA(4 * n);
  return {
      copy("bulk_copy", prepare_copy),           copy("bulk_read", prepare_read), copy("bulk_write", prepare_write),
      copy("bulk_multicast", prepare_multicast), reduce,                          copy("tensor_map_copy", prepare_tensor_map),
  };
}
