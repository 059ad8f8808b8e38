#include <hip/hip_runtime.h>

constexpr int WIDE = 64, HIGH = 4, DEEP = 16;

__global__ void smooth(const float *__restrict__ in, float *__restrict__ out, int n) {
  const int across = (n + WIDE - 1) / WIDE;
  const int x = blockIdx.x % across * WIDE + threadIdx.x % WIDE;
  const int y = blockIdx.x / across * HIGH + threadIdx.x / WIDE;
  const int first = blockIdx.y * DEEP;
  if (x >= n) return;
  const size_t row = n, plane = static_cast<size_t>(n) * n;
  size_t i = (static_cast<size_t>(first) * n + y) * n + x;
  const bool edge = x == 0 || y == 0 || x == n - 1 || y == n - 1;
  float below = first > 0 ? in[i - plane] : 0.0f, here = in[i];
  for (int z = first; z < first + DEEP; ++z, i += plane) {
    const float above = z < n - 1 ? in[i + plane] : 0.0f;
    if (edge || z == 0 || z == n - 1)
      out[i] = here;
    else
      out[i] = 0.4f * here + 0.1f * (in[i - 1] + in[i + 1] + in[i - row] + in[i + row] + below + above);
    below = here;
    here = above;
  }
}

void solve(const float *in, float *out, int n) {
  const unsigned across = static_cast<unsigned>((n + WIDE - 1) / WIDE);
  const dim3 grid(across * static_cast<unsigned>(n / HIGH), static_cast<unsigned>(n / DEEP));
  smooth<<<grid, WIDE * HIGH>>>(in, out, n);
}
