// demand.h: one kernel whose template argument says what it asks of the device; a launch's Shape gives the amounts.
// Every load yields 1 and every operation adds 1, so that the sum over all threads counts the work that was done.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "gpu.h"
#if !ON_AMD
#include <mma.h>
#endif

enum Access { STREAM, GATHER, INDIRECT, CHAIN, ASYNC }; // how the next address comes about; ASYNC copies into LDS
enum Update { ADD, RETURN, PRIVATE };                   // atomics: without result, with result, first within the block

// Amounts of one step of one thread.
struct Demand {
  int loads = 0, width = 1; // width in words of four bytes
  Access access = STREAM;
  int stores = 0;
  int chains = 4; // independent chains that the arithmetic of a step is spread over
  int fma = 0, fp64 = 0, sfu = 0, integer = 0, matrix = 0;
  int lds = 0;
  int atomics = 0;
  Update update = ADD;
  int paths = 0, path_ops = 0; // paths > 0: a thread takes one of them
  bool barrier = false;        // after each round
  bool coupled = false;        // the arithmetic of a step needs what the step loaded
  int held = 0;                // registers that are kept but not used
  int live = 0;                // values that every step updates
  int threads = 256, resident = 1; // __launch_bounds__
};

enum Skew { EVEN, LANES, WAVES, GROUPS };

struct Shape {
  const unsigned *data = nullptr, *links = nullptr;
  unsigned *written = nullptr, *targets = nullptr, *out = nullptr;
  unsigned rounds = 1, steps = 1;
  Skew skew = EVEN; // every `members`-th takes (members - 1) * extra steps more, the others `extra` fewer
  unsigned members = 1, extra = 0;
  unsigned mask = 0, stride = 1; // words of the footprint - 1, words between neighbours' accesses
  unsigned write_mask = 0, write_stride = 1;
  unsigned target_mask = 0, target_stride = 1;
  unsigned row = 1; // words between what neighbouring lanes read from LDS
  bool sorted = false;
  unsigned one = 1, zero = 0; // known at run time only, so that no operation can be left out
};

constexpr unsigned TILE = 32 * 34 + 64, PRIVATE_TARGETS = 1024;

__host__ __device__ constexpr unsigned lds_words(Demand d) {
  return (d.lds ? TILE : 0) + (d.update == PRIVATE ? PRIVATE_TARGETS : 0) +
         (d.access == ASYNC ? static_cast<unsigned>(d.loads * d.width * d.threads) : 0);
}

// Keeps a value in a register here without an instruction.
#if defined(__CUDA_ARCH__)
#define HOLD(value) asm volatile("" : "+f"(value))
#define MARK(value, number) asm volatile("// path %1" : "+f"(value) : "n"(number))
#elif defined(__AMDGCN__)
#define HOLD(value) asm volatile("" : "+v"(value))
#define MARK(value, number) asm volatile("; path %1" : "+v"(value) : "n"(number))
#else
#define HOLD(value) (void)(value)
#define MARK(value, number) (void)(value)
#endif

__device__ inline float exp2_fast(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#elif defined(__AMDGCN__)
  return __builtin_amdgcn_exp2f(x);
#else
  return exp2f(x);
#endif
}

__device__ inline unsigned scattered(unsigned i) { return i * 1664525u + 1013904223u; }

struct alignas(8) Words2 {
  unsigned x, y;
};
struct alignas(16) Words4 {
  unsigned x, y, z, w;
};

template <int Width> __device__ inline unsigned sum_of(const unsigned *at) {
  if constexpr (Width == 4) {
    const Words4 v = *reinterpret_cast<const Words4 *>(at);
    return v.x + v.y + v.z + v.w;
  } else if constexpr (Width == 2) {
    const Words2 v = *reinterpret_cast<const Words2 *>(at);
    return v.x + v.y;
  } else {
    return *at;
  }
}

template <int Width> __device__ inline void store(unsigned *at, unsigned value) {
  if constexpr (Width == 4)
    *reinterpret_cast<Words4 *>(at) = {value, value, value, value};
  else if constexpr (Width == 2)
    *reinterpret_cast<Words2 *>(at) = {value, value};
  else
    *at = value;
}

template <int Width> __device__ inline void copy_to_lds(unsigned *to, const unsigned *from) {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "n"(4 * Width));
#else
  for (int k = 0; k < Width; ++k) to[k] = from[k];
#endif
}

__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Path p of a step adds p + 1 for each operation; marks keep the compiler from making one path of two.
template <int P, int Ops> __device__ inline void take(unsigned path, float &x, float one) {
  if (path != P) return;
  MARK(x, P);
#pragma unroll
  for (int k = 0; k < Ops; ++k) x = fmaf(x, one, static_cast<float>(P + 1));
  MARK(x, P);
}

template <int Ops, int... P>
__device__ inline void take_one(std::integer_sequence<int, P...>, unsigned path, float &x, float one) {
  (take<P, Ops>(path, x, one), ...);
}

// Products of 16 x 16 x 16 that add 1 to every element of their sums.
template <int Chains> struct Products {
#if ON_AMD
#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
  typedef _Float16 Half4 __attribute__((ext_vector_type(4)));
  typedef float Float4 __attribute__((ext_vector_type(4)));
  Half4 left, right;
  Float4 sum[Chains];
  __device__ explicit Products(float one) : left(static_cast<_Float16>(one)), right(static_cast<_Float16>(one / 16)) {
    for (auto &s : sum) s = 0.0f;
  }
  __device__ void add(int k) { sum[k] = __builtin_amdgcn_mfma_f32_16x16x16f16(left, right, sum[k], 0, 0, 0); }
  __device__ float first(int k) const { return sum[k][0]; }
#else // no matrix unit
  float sum[Chains] = {};
  __device__ explicit Products(float) {}
  __device__ void add(int k) { sum[k] += 1; }
  __device__ float first(int k) const { return sum[k]; }
#endif
#else
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major> left;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __half, nvcuda::wmma::row_major> right;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum[Chains];
  __device__ explicit Products(float one) {
    nvcuda::wmma::fill_fragment(left, __float2half(one));
    nvcuda::wmma::fill_fragment(right, __float2half(one / 16));
    for (auto &s : sum) nvcuda::wmma::fill_fragment(s, 0.0f);
  }
  __device__ void add(int k) { nvcuda::wmma::mma_sync(sum[k], left, right, sum[k]); }
  __device__ float first(int k) const { return sum[k].x[0]; }
#endif
};
struct NoProducts {
  __device__ explicit NoProducts(float) {}
};

__host__ __device__ constexpr int at_least_one(int n) { return n > 0 ? n : 1; }

template <Demand D> __global__ void __launch_bounds__(D.threads, D.resident) demand(Shape s) {
  DYNAMIC_SHARED(unsigned, shared)
  unsigned *tile = shared, *mine_of = shared + (D.lds ? TILE : 0);
  unsigned *slots = mine_of + (D.update == PRIVATE ? PRIVATE_TARGETS : 0);
  const unsigned lane = threadIdx.x % warpSize, thread = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned threads = gridDim.x * blockDim.x;
  const float one = static_cast<float>(s.one), zero = static_cast<float>(s.zero);
  if constexpr (D.lds > 0)
    for (unsigned i = threadIdx.x; i < TILE; i += blockDim.x) tile[i] = s.one;
  if constexpr (D.update == PRIVATE)
    for (unsigned i = threadIdx.x; i < PRIVATE_TARGETS; i += blockDim.x) mine_of[i] = 0;
  if constexpr (D.lds > 0 || D.update == PRIVATE) __syncthreads();

  unsigned steps = s.steps;
  if (s.skew != EVEN) {
    const unsigned who = s.skew == LANES ? lane : s.skew == WAVES ? threadIdx.x / warpSize : blockIdx.x;
    steps = who % s.members == 0 ? steps + (s.members - 1) * s.extra : steps - s.extra;
  }
  const unsigned between = D.width * s.stride, hop = threads * between;
  unsigned at = D.access == GATHER ? scattered(thread) : thread * between, count = 0, number = 0;
  unsigned chase[at_least_one(D.loads)];
  if constexpr (D.access == CHAIN)
#pragma unroll
    for (int j = 0; j < D.loads; ++j) chase[j] = (thread * D.loads + j) * 2654435761u & s.mask;
  unsigned write_at = thread * D.width * s.write_stride;
  const unsigned write_hop = threads * D.width * s.write_stride;
  const unsigned path = D.paths > 0 ? (s.sorted ? thread / warpSize : thread) % at_least_one(D.paths) : 0;
  float f[at_least_one(D.chains)] = {}, e[at_least_one(D.chains)] = {}, by_path = 0;
  double d[at_least_one(D.chains)] = {};
  unsigned n[at_least_one(D.chains)] = {};
  float held[at_least_one(D.held)], live[at_least_one(D.live)];
#pragma unroll
  for (int k = 0; k < D.held; ++k) held[k] = one;
#pragma unroll
  for (int k = 0; k < D.live; ++k) live[k] = 0;
  std::conditional_t<(D.matrix > 0), Products<at_least_one(D.chains)>, NoProducts> products(one);

#pragma unroll 1
  for (unsigned round = 0; round < s.rounds; ++round) {
#pragma unroll
    for (int k = 0; k < D.held; ++k) HOLD(held[k]);
#pragma unroll 1
    for (unsigned step = 0; step < steps; ++step) {
      unsigned loaded = 0;
      if constexpr (D.access == STREAM || D.access == GATHER) {
#pragma unroll
        for (int j = 0; j < D.loads; ++j) {
          loaded += sum_of<D.width>(s.data + (at & s.mask & ~(D.width - 1u)));
          at = D.access == GATHER ? scattered(at) : at + hop;
        }
      } else if constexpr (D.access == INDIRECT) {
#pragma unroll
        for (int j = 0; j < D.loads; ++j) {
          loaded += s.data[s.links[at & s.mask] & s.mask];
          at += hop;
        }
      } else if constexpr (D.access == CHAIN) {
#pragma unroll
        for (int j = 0; j < D.loads; ++j) {
          const unsigned next = s.links[chase[j]];
          chase[j] = next & s.mask;
          loaded += 1 + (next == 0xffffffffu);
        }
      } else {
#pragma unroll
        for (int j = 0; j < D.loads; ++j) {
          copy_to_lds<D.width>(slots + (j * D.threads + threadIdx.x) * D.width, s.data + (at & s.mask));
          at += hop;
        }
        wait_for_copies();
#pragma unroll
        for (int j = 0; j < D.loads; ++j) loaded += sum_of<D.width>(slots + (j * D.threads + threadIdx.x) * D.width);
      }
      count += loaded;
      unsigned more = s.one;
      if constexpr (D.coupled) more += loaded * s.zero;
      const float add = D.coupled ? static_cast<float>(more) : one;
      const double add_double = static_cast<double>(add);
#pragma unroll
      for (int k = 0; k < D.fma; ++k) f[k % D.chains] = fmaf(f[k % D.chains], one, add);
#pragma unroll
      for (int k = 0; k < D.fp64; ++k) d[k % D.chains] = fma(d[k % D.chains], static_cast<double>(one), add_double);
#pragma unroll
      for (int k = 0; k < D.sfu; ++k) e[k % D.chains] += exp2_fast(e[k % D.chains] * zero + (add - one));
#pragma unroll
      for (int k = 0; k < D.integer; ++k) n[k % D.chains] = (n[k % D.chains] + more) ^ s.zero;
      if constexpr (D.matrix > 0)
#pragma unroll
        for (int k = 0; k < D.matrix; ++k) products.add(k % D.chains);
#pragma unroll
      for (int k = 0; k < D.live; ++k) live[k] = fmaf(live[k], one, add);
      if constexpr (D.paths > 0) take_one<D.path_ops>(std::make_integer_sequence<int, D.paths>{}, path, by_path, one);
      if constexpr (D.lds > 0) {
        const unsigned base = lane % 32 * s.row + (number & 31);
#pragma unroll
        for (int k = 0; k < D.lds; ++k) count += tile[base + k % 32];
      }
#pragma unroll
      for (int k = 0; k < D.atomics; ++k) {
        const unsigned target = (thread * s.target_stride + number + k) & s.target_mask;
        if constexpr (D.update == PRIVATE)
          atomicAdd(&mine_of[target & (PRIVATE_TARGETS - 1)], 1u);
        else if constexpr (D.update == RETURN)
          count += atomicAdd(&s.targets[target], 1u) == 0xffffffffu;
        else
          atomicAdd(&s.targets[target], 1u);
      }
#pragma unroll
      for (int k = 0; k < D.stores; ++k) {
        store<D.width>(s.written + (write_at & s.write_mask & ~(D.width - 1u)), count);
        write_at += write_hop;
      }
      ++number;
    }
    if constexpr (D.barrier) __syncthreads();
  }

  if constexpr (D.update == PRIVATE) {
    __syncthreads();
    for (unsigned i = threadIdx.x; i < PRIVATE_TARGETS && i <= s.target_mask; i += blockDim.x)
      atomicAdd(&s.targets[i], mine_of[i]);
  }
  count += static_cast<unsigned>(by_path);
  for (int k = 0; k < D.chains; ++k)
    count += static_cast<unsigned>(f[k]) + static_cast<unsigned>(e[k]) + static_cast<unsigned>(d[k]) + n[k];
  if constexpr (D.matrix > 0)
    for (int k = 0; k < D.chains; ++k) count += static_cast<unsigned>(products.first(k));
  for (int k = 0; k < D.live; ++k) count += static_cast<unsigned>(live[k]);
  for (int k = 0; k < D.held; ++k) count += static_cast<unsigned>(held[k]) - 1u;
  s.out[thread] = count;
}

// One launch: a kernel as it is ("base"), a fix that keeps its work, or a removal of one of its demands.
struct Case {
  std::string kernel, what;
  bool keeps_work, on_host;
  void (*function)(Shape);
  unsigned grid, block, lds_bytes;
  bool scaled; // whether its rounds may be scaled to a time that can be measured well
  Shape shape;
};

std::vector<Case> &cases();
struct Cases {
  explicit Cases(const std::vector<Case> &some) { cases().insert(cases().end(), some.begin(), some.end()); }
};
