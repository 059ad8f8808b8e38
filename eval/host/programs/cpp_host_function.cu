// Removes spikes from frames of a detector on the host and smooths them on the GPU.
//
//     nvcc -O0 -g -o cpp_host_function cpp_host_function.cu && ./cpp_host_function [--steps N]
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

constexpr int SIDE = 512, PASSES = 1000;

__global__ void smooth(float* out, const float* in, int side) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= side - 1 || y >= side - 1) return;
    const float* at = in + y * side + x;
    out[y * side + x] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-side] + at[side]);
}

// A frame as the detector sends it.
void read_frame(std::vector<float>& frame, unsigned seed) {
    for (size_t i = 0; i < frame.size(); i += 7) frame[i] = float((i * 2654435761u + seed) >> 20 & 255);
}

// Each pixel becomes the median of itself and its neighbours in the line.
void median_filter(std::vector<float>& frame, int side) {
    std::vector<float> line(side);
    for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) line[x] = frame[y * side + x];
        for (int x = 2; x < side - 2; ++x) {
            float near[5];
            for (int k = 0; k < 5; ++k) {
                float value = line[x + k - 2];
                int place = k;
                for (; place > 0 && near[place - 1] > value; --place) near[place] = near[place - 1];
                near[place] = value;
            }
            frame[y * side + x] = near[2];
        }
    }
}

// The frame after all passes; a and b are buffers on the device.
void smooth_on_device(std::vector<float>& frame, float* a, float* b) {
    size_t bytes = frame.size() * sizeof(float);
    CHECK(cudaMemcpy(a, frame.data(), bytes, cudaMemcpyHostToDevice));
    dim3 threads(32, 8), blocks(SIDE / 32, SIDE / 8);
    for (int pass = 0; pass < PASSES; ++pass) {
        smooth<<<blocks, threads>>>(b, a, SIDE);
        float* other = a;
        a = b;
        b = other;
    }
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(frame.data(), a, bytes, cudaMemcpyDeviceToHost));
}

int main(int argc, char** argv) {
    int steps = argc > 2 && !std::strcmp(argv[1], "--steps") ? std::atoi(argv[2]) : 250;
    std::vector<float> frame(size_t(SIDE) * SIDE);
    float *a, *b;
    CHECK(cudaMalloc(&a, frame.size() * sizeof(float)));
    CHECK(cudaMalloc(&b, frame.size() * sizeof(float)));
    auto began = std::chrono::steady_clock::now();
    double sum = 0;
    for (int step = 0; step < steps; ++step) {
        read_frame(frame, unsigned(step));
        median_filter(frame, SIDE);
        smooth_on_device(frame, a, b);
        sum += frame[frame.size() / 2 + SIDE / 2];
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
    std::printf("%d steps in %.2f s, sum %.1f\n", steps, seconds, sum);
    return 0;
}
