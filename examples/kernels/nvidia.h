// nvidia.h: the copies that only CUDA has, a line of PTX each: cp.async, bulk copies with their barriers, clusters.
#pragma once

#include "kernels.h"

#if !ON_AMD
#include <cstdint>
#include <cuda.h>

// Describes a matrix of `rows` x `columns` elements, row by row, for copies of tiles of `height` x `width`.
inline CUtensorMap tensor_map(CUtensorMapDataType type, void *matrix, size_t rows, size_t columns, unsigned height,
                              unsigned width, CUtensorMapSwizzle swizzle) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
#else
  CHECK(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result));
#endif
  const size_t element = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 ? 2 : 4;
  const cuuint64_t sizes[] = {columns, rows}, pitch[] = {columns * element};
  const cuuint32_t tile[] = {width, height}, steps[] = {1, 1};
  CUtensorMap map;
  auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  if (!encode || encode(&map, type, 2, matrix, sizes, pitch, tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    std::fprintf(stderr, "kernels: the driver made no tensor map\n");
    std::exit(2);
  }
  return map;
}

// Why this device cannot run what needs a compute capability from `least` to `most`, such as 80 or 90, or nullptr.
inline const char *needs_capability(int least, int most, const char *otherwise) {
  int device = 0, major = 0, minor = 0;
  CHECK(cudaGetDevice(&device));
  CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  const int capability = 10 * major + minor;
  return least <= capability && capability <= most ? nullptr : otherwise;
}

// What PTX calls an address in shared memory.
__device__ inline uint32_t shared_address(const void *pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies BYTES (4, 8 or 16) from global to shared memory without registers; BYPASS leaves out L1 (16 bytes only).
template <int BYTES, bool BYPASS> __device__ inline void copy_async(void *to, const void *from) {
  if constexpr (BYPASS)
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES)
                 : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// A barrier in shared memory that waits for bytes. One thread sets it up before any other uses it.
__device__ inline void barrier_begin(uint64_t *barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_expect(uint64_t *barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_wait(uint64_t *barrier, uint32_t phase) {
  uint32_t done = 0;
  while (!done) // hot: matrix_groups
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(phase)
                 : "memory");
}

// Makes what threads wrote to shared memory visible to bulk copies.
__device__ inline void publish_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Bulk copies: one thread moves whole pieces, a multiple of 16 bytes.
__device__ inline void bulk_load(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}
// The same into the shared memory of every block of the cluster whose bit is set in `blocks`.
__device__ inline void bulk_load_all(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint16_t blocks) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
               "[%3], %4;" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(blocks)
               : "memory");
}
__device__ inline void bulk_store(void *to, const void *from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
}
__device__ inline void bulk_add(unsigned *to, const unsigned *from, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
// Waits until the stores of this thread have read their source, so that it can be filled again.
__device__ inline void bulk_sources_free() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Waits until the stores of this thread are done; a block must not end before.
__device__ inline void bulk_stores_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Tiles of a matrix that a tensor map describes, at column x and row y.
__device__ inline void tile_load(void *to, const void *map, int x, int y, uint64_t *barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
               "[%4];" ::"r"(shared_address(to)),
               "l"(map), "r"(x), "r"(y), "r"(shared_address(barrier))
               : "memory");
}
__device__ inline void tile_store(const void *map, int x, int y, const void *from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(shared_address(from))
               : "memory");
}

// Clusters: blocks that run side by side and reach into each other's shared memory.
__device__ inline uint32_t rank_in_cluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The address of the same variable in another block of the cluster.
__device__ inline uint32_t address_in(const void *mine, uint32_t rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(mine)), "r"(rank));
  return address;
}
#endif
#endif
