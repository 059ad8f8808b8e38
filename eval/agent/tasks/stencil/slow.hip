#include <hip/hip_runtime.h>

__global__ void smooth(const float *in, float *out, int n) {
  const int z = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y % n, x = blockIdx.y / n;
  const size_t i = (static_cast<size_t>(z) * n + y) * n + x;
  const size_t row = n, plane = static_cast<size_t>(n) * n;
  if (x == 0 || y == 0 || z == 0 || x == n - 1 || y == n - 1 || z == n - 1) {
    out[i] = in[i];
    return;
  }
  out[i] = 0.4f * in[i] +
           0.1f * (in[i - 1] + in[i + 1] + in[i - row] + in[i + row] + in[i - plane] + in[i + plane]);
}

void solve(const float *in, float *out, int n) {
  const unsigned threads = n < 256 ? n : 256;
  const dim3 grid(static_cast<unsigned>(n) / threads, static_cast<unsigned>(n) * n);
  smooth<<<grid, threads>>>(in, out, n);
}
