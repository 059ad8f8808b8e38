// Solves a diffusion problem; each step is made of parts, which go through buffers of their own.
//
//     nvcc -O0 -g -o cpp_malloc cpp_malloc.cu && ./cpp_malloc [--steps N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        cudaError_t failed = (call);                                             \
        if (failed != cudaSuccess) {                                             \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(failed)); \
            std::exit(1);                                                        \
        }                                                                        \
    } while (0)

constexpr int CELLS = 1 << 24, PARTS = 8;

__global__ void diffuse(float* out, const float* in, int cells, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cells) return;
    float left = in[i > 0 ? i - 1 : i], right = in[i + 1 < cells ? i + 1 : i];
    out[i] = in[i] + rate * (left - 2 * in[i] + right);
}

void launch_diffuse(float* out, const float* in, float rate) {
    diffuse<<<(CELLS + 255) / 256, 256>>>(out, in, CELLS, rate);
    CHECK(cudaGetLastError());
}

// One step of the state; the buffers of its parts are needed only here.
void advance(float* state, float rate) {
    float* parts[PARTS];
    for (int part = 0; part < PARTS; ++part) {
        CHECK(cudaMalloc(&parts[part], CELLS * sizeof(float)));
    }
    const float* from = state;
    for (int part = 0; part < PARTS; ++part) {
        launch_diffuse(parts[part], from, rate / PARTS);
        from = parts[part];
    }
    launch_diffuse(state, from, rate / PARTS);
    for (int part = 0; part < PARTS; ++part) {
        CHECK(cudaFree(parts[part]));
    }
}

int main(int argc, char** argv) {
    int steps = argc > 2 && !std::strcmp(argv[1], "--steps") ? std::atoi(argv[2]) : 2500;
    std::vector<float> values(CELLS);
    for (int i = 0; i < CELLS; ++i) values[i] = i % 1000 < 10 ? 1.0f : 0.0f;
    float* state;
    CHECK(cudaMalloc(&state, CELLS * sizeof(float)));
    CHECK(cudaMemcpy(state, values.data(), CELLS * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
    auto began = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) advance(state, 0.2f);
    CHECK(cudaDeviceSynchronize());
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    float first;
    CHECK(cudaMemcpy(&first, state, sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(state));
    std::printf("%d steps in %.2f s, first cell %.4f\n", steps, seconds, first);
    return 0;
}
