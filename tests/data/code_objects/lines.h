#define DEVICE __attribute__((device)) static inline
DEVICE float fused(float a, float b, float c) {
  return a * b + c;
}
template <int n> DEVICE float inner(float x) {
  return x * n
         + 1.0f;
}
template <int n> DEVICE float outer(float x) {
  return inner<n>(x) * inner<n + 1>(x);
}
