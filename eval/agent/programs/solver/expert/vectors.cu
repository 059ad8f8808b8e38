#include "vectors.h"

namespace {

constexpr int THREADS = 256;

int blocks(size_t size) { return (int)((size + THREADS - 1) / THREADS); }

__device__ size_t number() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

constexpr int SUMS = 1024;

// A sum for each block: in registers, then in the block, then one atomic.
__global__ void dot_kernel(const float *a, const float *b, size_t size, double *result)
{
    double sum = 0;
    for (size_t i = number(); i < size; i += (size_t)gridDim.x * blockDim.x)
        sum += (double)a[i] * b[i];
    for (int lane = 16; lane; lane /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, lane);
    __shared__ double sums[THREADS / 32];
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < THREADS / 32; i++)
            sum += sums[i];
        atomicAdd(result, sum);
    }
}

__global__ void add_scaled_kernel(float *y, float factor, const float *x, size_t size)
{
    size_t i = number();
    if (i < size)
        y[i] += factor * x[i];
}

__global__ void scale_and_add_kernel(float *p, float factor, const float *z, size_t size)
{
    size_t i = number();
    if (i < size)
        p[i] = z[i] + factor * p[i];
}

__global__ void divide_kernel(const float *a, const float *b, float *result, size_t size)
{
    size_t i = number();
    if (i < size)
        result[i] = a[i] / b[i];
}

__global__ void subtract_kernel(const float *a, const float *b, float *result, size_t size)
{
    size_t i = number();
    if (i < size)
        result[i] = a[i] - b[i];
}

} // namespace

double dot(const Field &a, const Field &b)
{
    static double *sum = nullptr;
    if (!sum)
        check(cudaMalloc(&sum, sizeof(double)), "allocating a sum");
    double result;
    check(cudaMemsetAsync(sum, 0, sizeof(double)), "clearing a sum");
    dot_kernel<<<SUMS, THREADS>>>(a.data(), b.data(), a.size(), sum);
    check(cudaMemcpy(&result, sum, sizeof(double), cudaMemcpyDeviceToHost), "reading a sum");
    return result;
}

void add_scaled(Field &y, float factor, const Field &x)
{
    add_scaled_kernel<<<blocks(y.size()), THREADS>>>(y.data(), factor, x.data(), y.size());
}

void scale_and_add(Field &p, float factor, const Field &z)
{
    scale_and_add_kernel<<<blocks(p.size()), THREADS>>>(p.data(), factor, z.data(), p.size());
}

void divide(const Field &a, const Field &b, Field &result)
{
    divide_kernel<<<blocks(a.size()), THREADS>>>(a.data(), b.data(), result.data(), a.size());
}

void subtract(const Field &a, const Field &b, Field &result)
{
    subtract_kernel<<<blocks(a.size()), THREADS>>>(a.data(), b.data(), result.data(), a.size());
}

void copy(const Field &from, Field &to)
{
    check(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(float), cudaMemcpyDeviceToDevice), "copying");
}
