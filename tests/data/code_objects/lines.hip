// Kernels whose lines are known, built with and without -g. README.md says how.
#include "lines.h"
#define KERNEL extern "C" __attribute__((global))

KERNEL void saxpy(float *y, const float *x, float a, int n) {
  int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < n)
    y[i] = fused(a, x[i], y[i]);
}

// The loop waits for its two loads.
KERNEL void dots(float *out, const float *a, const float *b, int n) {
  float sum = 0;
  int i = __builtin_amdgcn_workitem_id_x();
  for (int k = 0; k < n; k++)
    sum += a[k * 64 + i] * b[k];
  out[i] = outer<3>(sum);
}

namespace deep {
template <typename T> __attribute__((global)) void scaled(T *p, T by) {
  p[__builtin_amdgcn_workitem_id_x()] *= by;
}
} // namespace deep
template __attribute__((global)) void deep::scaled<double>(double *, double);
