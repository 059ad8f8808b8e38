// The kernels behind h200_own_counters.csv.gz and h200_full_set.csv.gz (one H200, CUDA 13.0, ncu 2025.3.1), built with
// nvcc -O3 -arch=sm_90 -std=c++17. Each does a known amount of work; all but copy4, addd and atom run 2112 x 256 threads.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

__global__ void copy4(const float4 *a, float4 *b, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i];
}

__global__ void fma32(float *o, int it) {  // 8 x it FMA, 8 FMA to begin with, 8 ADD to end with
    float x[8];
    for (int j = 0; j < 8; j++) x[j] = threadIdx.x * 0.001f + j;
    for (int i = 0; i < it; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = fmaf(x[j], 1.0001f, 0.5f);
    }
    float s = 0;
    for (int j = 0; j < 8; j++) s += x[j];
    if (s == 1.2345f) o[0] = s;
}

__global__ void addd(const double *a, const double *b, double *c, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void half2fma(__half2 *o, int it, __half2 k, __half2 m) {  // 8 x it FMA of pairs, 7 additions of pairs
    __half2 x[8];
    for (int j = 0; j < 8; j++) x[j] = __halves2half2(__int2half_rn(threadIdx.x & 7), __int2half_rn(j));
    for (int i = 0; i < it; i++) {
#pragma unroll
        for (int j = 0; j < 8; j++) x[j] = __hfma2(x[j], k, m);
    }
    __half2 s = x[0];
    for (int j = 1; j < 8; j++) s = __hadd2(s, x[j]);
    o[blockIdx.x * blockDim.x + threadIdx.x] = s;
}

__global__ void wm(float *o, int it) {  // the compiler merges equal products: 2048 HMMA.16816 a warp are left
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[4];
    wmma::fill_fragment(a, 1.f);
    wmma::fill_fragment(b, 1.f);
    for (int j = 0; j < 4; j++) wmma::fill_fragment(c[j], 0.f);
    for (int i = 0; i < it; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) wmma::mma_sync(c[j], a, b, c[j]);
    if (c[0].x[0] + c[1].x[0] + c[2].x[0] + c[3].x[0] == -1.f) o[0] = 1;
}

__global__ void conflict(float *o, int it) {  // every load meets 32 lanes on one bank
    __shared__ float s[32 * 32];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = i;
    __syncthreads();
    volatile float *v = s;
    float t = 0;
    for (int i = 0; i < it; i++) t += v[(threadIdx.x & 31) * 32 + (i & 31)];
    if (t == -1) o[0] = t;
}

__global__ void atom(unsigned *o, int it) {
    for (int i = 0; i < it; i++) atomicAdd(o + (i & 3), 1u);
}

__global__ void iadd(int *o, int it, int k) {
    int x = threadIdx.x, y = k;
    for (int i = 0; i < it; i++) {
        x = x * k + y;
        y = y ^ (x >> 3);
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = x + y;
}

__global__ void diverge(float *o, int it) {
    float x = threadIdx.x;
    int w = threadIdx.x & 15;
    for (int i = 0; i < it; i++) {
        switch ((w + i) & 15) {
#define C(n) case n: x = x * 1.01f + 0.5f * n; if (x > 1e6f) x = sqrtf(x); break;
            C(0) C(1) C(2) C(3) C(4) C(5) C(6) C(7)
            default: x = sinf(x);
        }
    }
    o[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

int main() {
    size_t n = 1 << 28;
    float *a, *b;
    cudaMalloc(&a, n * 4);
    cudaMalloc(&b, n * 4);
    cudaMemset(a, 0, n * 4);
    cudaMemset(b, 0, n * 4);
    copy4<<<n / 4 / 256, 256>>>((float4 *)a, (float4 *)b, n / 4);
    fma32<<<132 * 16, 256>>>(b, 4096);
    addd<<<(1 << 24) / 256, 256>>>((double *)a, (double *)b, (double *)b + (1 << 25), 1 << 24);
    half2fma<<<132 * 16, 256>>>((__half2 *)b, 4096, __float2half2_rn(0.5f), __float2half2_rn(1.f));
    wm<<<132 * 16, 256>>>(b, 512);
    conflict<<<132 * 16, 256>>>(b, 512);
    atom<<<132 * 4, 256>>>((unsigned *)b, 16);
    iadd<<<132 * 16, 256>>>((int *)b, 4096, 3);
    diverge<<<132 * 16, 256>>>(b, 512);
    return cudaDeviceSynchronize();
}
