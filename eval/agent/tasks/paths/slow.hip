#include <hip/hip_runtime.h>

constexpr int STEPS = 64;

// Where 64 steps of the recurrence of a kind lead; each of the eight is another piece of code.
__device__ float walk(int kind, float x) {
  switch (kind) {
  case 0: for (int i = 0; i < STEPS; ++i) x = 0.5f * x + 0.25f; return x;
  case 1: for (int i = 0; i < STEPS; ++i) x = 0.25f - 0.5f * x * x; return x;
  case 2: for (int i = 0; i < STEPS; ++i) x = x / (1.0f + x * x); return x;
  case 3: for (int i = 0; i < STEPS; ++i) x = sqrtf(x * x + 0.125f) * 0.75f; return x;
  case 4: for (int i = 0; i < STEPS; ++i) x = fabsf(x) * 0.875f + 0.03125f; return x;
  case 5: for (int i = 0; i < STEPS; ++i) x = 1.0f / (2.0f + x); return x;
  case 6: for (int i = 0; i < STEPS; ++i) x = x * (0.75f - 0.25f * x); return x;
  default: for (int i = 0; i < STEPS; ++i) x = (x + 0.5f) / (x * x + 1.5f); return x;
  }
}

__global__ void walk_all(const unsigned char *kind, const float *in, float *out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = walk(kind[i], in[i]);
}

void solve(const unsigned char *kind, const float *in, float *out, int n) {
  const unsigned blocks = static_cast<unsigned>((n + 255) / 256);
  walk_all<<<blocks, 256>>>(kind, in, out, n);
}
