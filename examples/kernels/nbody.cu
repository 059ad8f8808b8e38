// nbody.cu: one time step of gravity among n bodies, all pairs, in FP32: bodies read one by one, and tile by tile.
//
// A pair costs 18 operations: 3 subtractions, 6 fused multiply-adds, 2 multiplications, 1 reciprocal square root.
#include "kernels.h"

constexpr unsigned TILE = 256;
constexpr float SOFTENING = 0.01f, TIME_STEP = 0.001f;

struct Body {
  float x, y, z, vx, vy, vz;
};

struct Force {
  float x = 0, y = 0, z = 0;
};

__device__ inline void attract(Force &force, float dx, float dy, float dz) {
  const float inverse = rsqrtf(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, SOFTENING))));
  const float cube = inverse * inverse * inverse;
  force.x = fmaf(dx, cube, force.x);
  force.y = fmaf(dy, cube, force.y);
  force.z = fmaf(dz, cube, force.z);
}

__device__ inline void accelerate(Body &body, const Force &force) {
  body.vx = fmaf(TIME_STEP, force.x, body.vx);
  body.vy = fmaf(TIME_STEP, force.y, body.vy);
  body.vz = fmaf(TIME_STEP, force.z, body.vz);
}

// Thread per body; every thread reads every body from memory.
__global__ void nbody_naive(Body *bodies, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  const Body mine = bodies[i];
  Force force;
  for (size_t j = 0; j < n; ++j) attract(force, bodies[j].x - mine.x, bodies[j].y - mine.y, bodies[j].z - mine.z);
  accelerate(bodies[i], force);
}

// The block loads TILE positions to shared memory, and each of its threads uses all of them.
__global__ void nbody_tiled(Body *bodies, size_t n) {
  __shared__ float4 tile[TILE];
  const size_t i = thread_index();
  const Body mine = bodies[i < n ? i : n - 1];
  Force force;
  for (size_t first = 0; first < n; first += TILE) {
    const size_t j = first + threadIdx.x;
    if (j < n) tile[threadIdx.x] = make_float4(bodies[j].x, bodies[j].y, bodies[j].z, 0);
    __syncthreads();
    const unsigned count = n - first < TILE ? static_cast<unsigned>(n - first) : TILE;
    for (unsigned k = 0; k < count; ++k) attract(force, tile[k].x - mine.x, tile[k].y - mine.y, tile[k].z - mine.z);
    __syncthreads();
  }
  if (i < n) accelerate(bodies[i], force);
}

// The six numbers of body i are inputs 6 i to 6 i + 5.
__host__ __device__ inline Body initial(size_t i) {
  auto number = [=](size_t k) { return static_cast<float>(input(6 * i + k, 1)); };
  return {number(0), number(1), number(2), number(3), number(4), number(5)};
}

__global__ void fill_bodies(Body *bodies, size_t n) {
  for (size_t i = thread_index(); i < n; i += thread_count()) bodies[i] = initial(i);
}

template <auto KERNEL> static Run prepare(size_t n) {
  auto bodies = Buffer<Body>(n);
  launch(fill_bodies, filling_grid(), 256, 0, bodies.data(), n);
  return {
      [=] { launch(KERNEL, blocks_for(n, TILE), TILE, 0, bodies.data(), n); },
      [=] {
        const auto got = bodies.host();
        std::vector<Body> all(n);
        for (size_t i = 0; i < n; ++i) all[i] = initial(i);
        auto element = [&](size_t i) {
          double sum = 0; // of the force along x + 2 y + 3 z, so that one number tells all three
          for (const Body &other : all) {
            const double dx = other.x - all[i].x, dy = other.y - all[i].y, dz = other.z - all[i].z;
            const double square = dx * dx + dy * dy + dz * dz + SOFTENING;
            sum += (dx + 2 * dy + 3 * dz) / (square * std::sqrt(square));
          }
          const double before = all[i].vx + 2.0 * all[i].vy + 3.0 * all[i].vz;
          return Pair{got[i].vx + 2.0 * got[i].vy + 3.0 * got[i].vz, before + TIME_STEP * sum};
        };
        return relative_error(n, element, 128);
      },
  };
}

Kernels nbody_kernels() {
  return {
      {.name = "nbody_naive",
       .function = "nbody_naive",
       .limit = "occupancy|latency",
       .size = "bodies",
       .n = 1 << 16,
       .small = 300,
       .memory = FORMULA(24 * n),
       .level = "hbm",
       .bytes = FORMULA(36 * n),
       .flop = FORMULA(18 * n * n + 6 * n),
       .tolerance = 1e-3,
       .prepare = prepare<nbody_naive>},
      {.name = "nbody_tiled",
       .function = "nbody_tiled",
       .limit = "valu|sfu",
       .size = "bodies",
       .n = 1 << 16,
       .small = 300,
       .memory = FORMULA(24 * n),
       .level = "hbm",
       .bytes = FORMULA(36 * n),
       .flop = FORMULA(18 * n * n + 6 * n),
       .tolerance = 1e-3,
       .prepare = prepare<nbody_tiled>},
  };
}
