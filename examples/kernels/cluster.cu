// cluster.cu: blocks of a cluster (CUDA) that use each other's shared memory: reads, writes, atomics, bulk copies.
#include "nvidia.h"

constexpr unsigned RING = 1024, TURNS = 256, BLOCKS = 2;
static const char NEEDS[] = "needs clusters of blocks: CUDA, compute capability 9.0 or more";

#if !ON_AMD
// A thread adds up what it finds in the other block, each time one place further.
__global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_read(const float *in, float *out) {
#if __CUDA_ARCH__ >= 900
  __shared__ float ring[RING];
  ring[threadIdx.x] = in[thread_index()];
  cluster_sync();
  const uint32_t other = address_in(ring, rank_in_cluster() ^ 1);
  float sum = 0;
#pragma unroll 8
  for (unsigned turn = 0; turn < TURNS; ++turn) {
    float value;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(other + (threadIdx.x + turn) % RING * 4));
    sum += value;
  }
  out[thread_index()] = sum;
  cluster_sync(); // a block must stay as long as the other reads from it
#endif
}

// A thread writes to its place in the other block again and again; the last turn stays.
__global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_write(const float *in, float *out) {
#if __CUDA_ARCH__ >= 900
  __shared__ float ring[RING];
  const float mine = in[thread_index()];
  const uint32_t other = address_in(ring, rank_in_cluster() ^ 1) + threadIdx.x * 4;
  cluster_sync();
#pragma unroll 1 // of stores in a row to one address only the last would be left
  for (unsigned turn = 0; turn < TURNS; ++turn)
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(other), "f"(mine + turn) : "memory");
  cluster_sync();
  out[thread_index()] = ring[threadIdx.x];
#endif
}

// A thread adds its number to the same place in the other block, again and again.
__global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_atomic(unsigned *out) {
#if __CUDA_ARCH__ >= 900
  __shared__ unsigned counts[RING];
  counts[threadIdx.x] = 0;
  const uint32_t other = address_in(counts, rank_in_cluster() ^ 1);
  cluster_sync();
  unsigned last = 0;
  for (unsigned turn = 0; turn < TURNS; ++turn)
    asm volatile("atom.shared::cluster.add.u32 %0, [%1], %2;"
                 : "=r"(last)
                 : "r"(other + threadIdx.x * 4), "r"(threadIdx.x)
                 : "memory");
  cluster_sync();
  out[thread_index()] = counts[threadIdx.x] + last * 0;
#endif
}

// Bulk copies from block to block, one after the other. Both blocks wait for each other in between: bytes of the next
// copy must not count for a barrier that still waits for this one.
__global__ void __cluster_dims__(BLOCKS, 1, 1) cluster_bulk(const float *in, float *out) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(128) float mine[RING], theirs[RING];
  __shared__ uint64_t arrived;
  mine[threadIdx.x] = in[thread_index()];
  if (threadIdx.x == 0) barrier_begin(&arrived);
  publish_to_copies();
  cluster_sync();
  const uint32_t rank = rank_in_cluster() ^ 1;
  for (unsigned turn = 0; turn < TURNS; ++turn) {
    if (threadIdx.x == 0) {
      barrier_expect(&arrived, sizeof mine);
      asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       address_in(theirs, rank)),
                   "r"(shared_address(mine)), "r"(static_cast<uint32_t>(sizeof mine)), "r"(address_in(&arrived, rank))
                   : "memory");
    }
    barrier_wait(&arrived, turn & 1);
    cluster_sync();
  }
  out[thread_index()] = theirs[threadIdx.x];
#endif
}

// `want(i)`: what thread i writes; blocks 2 k and 2 k + 1 are a cluster.
template <typename Want> static Run prepare_ring(void (*kernel)(const float *, float *), size_t n, Want want) {
  auto in = filled<float>(n * RING, 1);
  auto out = Buffer<float>(n * RING);
  return {
      [=] { launch(kernel, static_cast<unsigned>(n), RING, 0, in.data(), out.data()); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) { return Pair{got[i], want((i ^ RING) / RING * RING, i)}; };
        return relative_error(got.size(), element, 1 << 14);
      },
  };
}
static Run prepare_read(size_t n) {
  return prepare_ring(cluster_read, n, [](size_t other, size_t i) {
    double sum = 0;
    for (unsigned turn = 0; turn < TURNS; ++turn) sum += input(other + (i + turn) % RING, 1);
    return sum;
  });
}
static Run prepare_write(size_t n) {
  return prepare_ring(cluster_write, n, [](size_t other, size_t i) {
    return input(other + i % RING, 1) + TURNS - 1;
  });
}
static Run prepare_bulk(size_t n) {
  return prepare_ring(cluster_bulk, n, [](size_t other, size_t i) { return input(other + i % RING, 1); });
}
static Run prepare_atomic(size_t n) {
  auto out = Buffer<unsigned>(n * RING);
  return {
      [=] { launch(cluster_atomic, static_cast<unsigned>(n), RING, 0, out.data()); },
      [=] {
        const auto got = out.host();
        auto element = [&](size_t i) { return Pair{static_cast<double>(got[i]), 1.0 * TURNS * (i % RING)}; };
        return relative_error(got.size(), element);
      },
  };
}
static const char *unavailable() { return needs_capability(90, 1000, NEEDS); }
#else
constexpr Run (*prepare_read)(size_t) = nullptr, (*prepare_write)(size_t) = nullptr,
              (*prepare_atomic)(size_t) = nullptr, (*prepare_bulk)(size_t) = nullptr;
static const char *unavailable() { return NEEDS; }
#endif

static size_t whole_clusters(size_t n) { return std::max<size_t>(BLOCKS, n / BLOCKS * BLOCKS); }

static Kernel exchange(const char *name, const char *limit, Run (*prepare)(size_t)) {
  return {.name = name,
          .function = name,
          .limit = limit,
          .size = "blocks of 1024 threads, two to a cluster",
          .n = 2048,
          .small = 2,
          .memory = FORMULA(8 * RING * n),
          .level = "lds",
          .bytes = FORMULA(4 * RING * n * TURNS),
          .flop = FORMULA(0),
          .tolerance = 1e-5,
          .prepare = prepare,
          .fit = whole_clusters,
          .unavailable = unavailable};
}

Kernels cluster_kernels() {
  Kernel read = exchange("cluster_read", "lds|latency", prepare_read);
  read.flop = FORMULA(RING * n * TURNS);
  Kernel write = exchange("cluster_write", "lds|latency", prepare_write);
  write.flop = FORMULA(RING * n * TURNS);
  return {
      read,
      write,
      exchange("cluster_atomic", "atomics|lds|latency", prepare_atomic),
      exchange("cluster_bulk", "lds|latency|barrier", prepare_bulk),
  };
}
