// CUDA programs whose bottleneck lies outside of their kernels, each with the fix that removes it.
//
//     programs time STEPS [NAME ...]   times programs as they are and with their fix; lines of JSON
//     programs NAME base|fixed STEPS   runs one of them
//
// A line is {"program", "variant", "steps", "step_us"}: the wall time of a step, over STEPS steps behind WARM ones, from one wait
// for the device to the next. A fix keeps what the device computes.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime.h>

constexpr int WARM = 3;
constexpr size_t MIB = size_t(1) << 20;

#define CHECK(call)                                                                            \
    do {                                                                                       \
        cudaError_t failed = (call);                                                           \
        if (failed != cudaSuccess) {                                                           \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(failed));               \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

// A chain of dependent multiply-adds: 4 cycles each, so that its length sets the time whatever the device holds.
__device__ void chain(float* out, int length) {
    float x = threadIdx.x;
    for (int i = 0; i < length; ++i) x = fmaf(x, 0.999f, 0.5f);
    if (x == -1.0f) out[0] = x;
}
__global__ void model(float* out, int length) { chain(out, length); }
__global__ void tiny(float* out, int length) { chain(out, length); }
__global__ void left(float* out, int length) { chain(out, length); }
__global__ void right(float* out, int length) { chain(out, length); }
__global__ void between(float* out, int length) { chain(out, length); }
__global__ void many_at_once(float* out, int length) { chain(out, length); }

__global__ void scattered(float* out, const float* in, int side) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x, n = size_t(side) * side;
    for (; i < n; i += size_t(gridDim.x) * blockDim.x) out[i] = in[i % side * side + i / side] + 1.0f;
}
__global__ void in_order(float* out, const float* in, int side) {
    size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x, n = size_t(side) * side;
    for (; i < n; i += size_t(gridDim.x) * blockDim.x) out[i] = in[i] + 1.0f;
}

int length_of(double us) { return int(us * 1980.0 / 4.0); }

void host_for(double us) {  // what a framework does for each operation
    auto until = std::chrono::steady_clock::now() + std::chrono::duration<double, std::micro>(us);
    while (std::chrono::steady_clock::now() < until) {
    }
}

float* device(size_t bytes) {
    float* p;
    CHECK(cudaMalloc(&p, bytes));
    CHECK(cudaMemset(p, 0, bytes));
    return p;
}

void wait() { CHECK(cudaDeviceSynchronize()); }

void a_model(float* out, double us, cudaStream_t stream = nullptr) { model<<<132, 128, 0, stream>>>(out, length_of(us)); }

using Step = std::function<void(int)>;

Step tiny_launches(bool fixed) {
    float* out = device(MIB);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    if (!fixed)
        return [=](int) {
            for (int i = 0; i < 200; ++i) host_for(5), tiny<<<1, 32, 0, stream>>>(out, length_of(1));
        };
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 200; ++i) tiny<<<1, 32, 0, stream>>>(out, length_of(1));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    return [=](int) { CHECK(cudaGraphLaunch(ready, stream)); };
}

Step graph_of_tiny(bool fixed) {
    if (!fixed) return tiny_launches(true);
    float* out = device(MIB);
    return [=](int) { many_at_once<<<200, 32>>>(out, length_of(1)); };
}

Step sync_each(bool fixed) {
    float* out = device(MIB);
    return [=](int) {
        for (int i = 0; i < 100; ++i) {
            a_model(out, 8);
            if (!fixed) wait();
        }
    };
}

Step malloc_free(bool fixed) {
    float* kept = fixed ? device(64 * MIB) : nullptr;
    return [=](int) {
        for (int i = 0; i < 8; ++i) {
            float* p = kept;
            if (!fixed) CHECK(cudaMalloc(&p, 64 * MIB));
            a_model(p, 30);
            if (!fixed) CHECK(cudaFree(p));
        }
    };
}

// Input is copied a step ahead, on a stream of its own, into the buffer that is not in use.
Step prefetched(size_t bytes, double us) {
    struct Buffer {
        float* on_device;
        cudaEvent_t arrived, used;
    };
    float* host;
    CHECK(cudaMallocHost(&host, bytes));
    std::memset(host, 1, bytes);
    cudaStream_t copies, kernels;
    CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    std::vector<Buffer> buffers(2);
    for (Buffer& b : buffers) {
        b.on_device = device(bytes);
        CHECK(cudaEventCreateWithFlags(&b.arrived, cudaEventDisableTiming));
        CHECK(cudaEventCreateWithFlags(&b.used, cudaEventDisableTiming));
    }
    return [=](int step) {
        const Buffer& b = buffers[step % 2];
        CHECK(cudaStreamWaitEvent(copies, b.used));
        CHECK(cudaMemcpyAsync(b.on_device, host, bytes, cudaMemcpyHostToDevice, copies));
        CHECK(cudaEventRecord(b.arrived, copies));
        CHECK(cudaStreamWaitEvent(kernels, b.arrived));
        a_model(b.on_device, us, kernels);
        CHECK(cudaEventRecord(b.used, kernels));
    };
}

Step pageable_copy(bool fixed) {
    const size_t bytes = 64 * MIB;
    if (fixed) return prefetched(bytes, 300);
    float* on_device = device(bytes);
    float* host = static_cast<float*>(std::malloc(bytes));
    std::memset(host, 1, bytes);
    return [=](int) {
        CHECK(cudaMemcpy(on_device, host, bytes, cudaMemcpyHostToDevice));
        a_model(on_device, 300);
    };
}

Step unoverlapped_copy(bool fixed) {
    const size_t bytes = 64 * MIB;
    if (fixed) return prefetched(bytes, 800);
    float *on_device = device(bytes), *host;
    CHECK(cudaMallocHost(&host, bytes));
    std::memset(host, 1, bytes);
    return [=](int) {
        CHECK(cudaMemcpyAsync(on_device, host, bytes, cudaMemcpyHostToDevice));
        a_model(on_device, 800);
    };
}

Step legacy_stream(bool fixed) {
    float* out = device(MIB);
    cudaStream_t one, two, own;
    const unsigned how = fixed ? cudaStreamNonBlocking : cudaStreamDefault;
    CHECK(cudaStreamCreateWithFlags(&one, how));
    CHECK(cudaStreamCreateWithFlags(&two, how));
    CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    cudaStream_t third = fixed ? own : nullptr;  // nullptr is the legacy default stream, which waits for the others
    return [=](int) {
        for (int i = 0; i < 10; ++i) {
            left<<<60, 128, 0, one>>>(out, length_of(100));
            between<<<1, 32, 0, third>>>(out, length_of(2));
            right<<<60, 128, 0, two>>>(out, length_of(100));
            between<<<1, 32, 0, third>>>(out, length_of(2));
        }
    };
}

Step host_input(bool fixed) {
    const size_t n = 4 * MIB;
    float *on_device = device(n * sizeof(float)), *host;
    CHECK(cudaMallocHost(&host, n * sizeof(float)));
    auto made = [=](unsigned seed) {
        for (size_t i = 0; i < n; ++i) host[i] = float((seed = seed * 1664525u + 1013904223u) >> 8) / (1 << 24);
    };
    made(1);
    return [=](int step) {
        if (!fixed) wait(), made(unsigned(step));
        CHECK(cudaMemcpyAsync(on_device, host, n * sizeof(float), cudaMemcpyHostToDevice));
        a_model(on_device, 300);
    };
}

Step printing(bool fixed) {
    float* out = device(MIB);
    FILE* log = std::tmpfile();
    return [=](int step) {
        for (int i = 0; i < 4; ++i) a_model(out, 100);
        for (int line = 0; line < 2000 && !fixed && log; ++line) {
            std::fprintf(log, "step %d line %d: %.9g %.9g %.9g\n", step, line, line / 3.0, line / 7.0, line / 9.0);
            std::fflush(log);
        }
    };
}

// Assembly as long as that of a large kernel, for the driver to compile.
std::string assembly() {
    std::string text = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry late(.param .u64 out)\n{\n"
                       ".reg .f32 %f<4>;\n.reg .b64 %a;\nld.param.u64 %a, [out];\nld.global.f32 %f1, [%a];\n";
    for (int i = 0; i < 3000; ++i) text += "fma.rn.f32 %f1, %f1, 0f3F7FBE77, 0f" + std::string(i % 2 ? "3F000000" : "3E800000") + ";\n";
    return text + "st.global.f32 [%a], %f1;\nret;\n}\n";
}

Step first_step_compiles(bool fixed) {
    float* out = device(MIB);
    auto library = std::make_shared<cudaLibrary_t>(nullptr);
    auto kernel = std::make_shared<cudaKernel_t>(nullptr);
    auto compile = [=] {
        std::string text = assembly();
        CHECK(cudaLibraryLoadData(library.get(), text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
        CHECK(cudaLibraryGetKernel(kernel.get(), *library, "late"));
    };
    if (fixed) compile();
    return [=](int) {
        a_model(out, 2000);
        if (!*kernel) compile();
        float* to = out;
        void* arguments[] = {&to};
        CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(*kernel), dim3(1), dim3(32), arguments, 0, nullptr));
    };
}

Step slow_kernel(bool fixed) {
    const int side = 8192;
    float *in = device(sizeof(float) * side * side), *out = device(sizeof(float) * side * side);
    return [=](int) {
        for (int i = 0; i < 4; ++i)
            if (fixed)
                in_order<<<132 * 16, 256>>>(out, in, side);
            else
                scattered<<<132 * 16, 256>>>(out, in, side);
    };
}

const std::vector<std::pair<const char*, Step (*)(bool)>> PROGRAMS = {
    {"tiny_launches", tiny_launches}, {"graph_of_tiny", graph_of_tiny}, {"sync_each", sync_each},
    {"malloc_free", malloc_free}, {"pageable_copy", pageable_copy}, {"unoverlapped_copy", unoverlapped_copy},
    {"legacy_stream", legacy_stream}, {"host_input", host_input}, {"printing", printing},
    {"first_step_compiles", first_step_compiles}, {"slow_kernel", slow_kernel},
};

void run(const char* name, Step (*made)(bool), bool fixed, int steps) {
    using Clock = std::chrono::steady_clock;
    Step step = made(fixed);
    int number = 0;
    while (number < WARM) step(number++);
    wait();
    auto began = Clock::now();
    while (number < WARM + steps) step(number++);
    wait();
    double us = std::chrono::duration<double, std::micro>(Clock::now() - began).count() / steps;
    std::printf("{\"program\": \"%s\", \"variant\": \"%s\", \"steps\": %d, \"step_us\": %.3f}\n", name, fixed ? "fixed" : "base", steps, us);
    std::fflush(stdout);
    CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    setenv("CUDA_CACHE_DISABLE", "1", 1);
    if (argc > 2 && !std::strcmp(argv[1], "time")) {
        for (auto& [name, made] : PROGRAMS) {
            bool wanted = argc == 3;
            for (int i = 3; i < argc; ++i) wanted = wanted || !std::strcmp(name, argv[i]);
            for (bool fixed : {false, true}) {
                if (!wanted) continue;
                CHECK(cudaDeviceReset());  // nothing of the programs before is in the way of allocations
                run(name, made, fixed, std::atoi(argv[2]));
            }
        }
        return 0;
    }
    for (auto& [name, made] : PROGRAMS)
        if (argc == 4 && !std::strcmp(argv[1], name)) return run(name, made, !std::strcmp(argv[2], "fixed"), std::atoi(argv[3])), 0;
    std::fprintf(stderr, "usage: programs time STEPS [NAME ...] | programs NAME base|fixed STEPS\n");
    return 2;
}
