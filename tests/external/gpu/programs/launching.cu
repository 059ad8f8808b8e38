// A program with kernels, NVTX ranges and a graph, for the tests on an NVIDIA GPU: launching HOW COUNT
// HOW: many      COUNT launches of four kernels in turn
//      ranges    COUNT steps, see main; a second thread launches within the step
//      graph     a graph of five kernels, launched COUNT times within a range
//      exit3, _exit, abort, term, kill: COUNT launches, then that end
// It prints "launched N" when all N launches are done.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

static const size_t VALUES = size_t(64) << 20; // 256 MiB: far more than the L2 cache holds
static float *values;
static int launched;

static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(status));
        exit(2);
    }
}

// 2 * ROUNDS operations for each value, which is read and written once.
template <int ROUNDS> __global__ void turn(float *x, size_t n)
{
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        float v = x[i];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            v = fmaf(v, 0.999f, 0.001f);
        x[i] = v;
    }
}

template <int ROUNDS> static void launch(cudaStream_t stream = 0)
{
    turn<ROUNDS><<<1056, 256, 0, stream>>>(values, VALUES);
    check(cudaGetLastError());
    launched++;
}

static void many(int count)
{
    for (int i = 0; i < count; i++)
        switch (i % 4) {
        case 0: launch<1>(); break;
        case 1: launch<8>(); break;
        case 2: launch<64>(); break;
        default: launch<256>();
        }
}

static void ranges(int steps)
{
    many(4); // of the same kernels, outside of every range
    nvtxDomainHandle_t library = nvtxDomainCreateA("my@library");
    for (int step = 0; step < steps; step++) {
        nvtxRangePushA("step");
        nvtxRangePushA("forward [1/2]");
        launch<8>();
        nvtxEventAttributes_t inner = {};
        inner.version = NVTX_VERSION;
        inner.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        inner.messageType = NVTX_MESSAGE_TYPE_ASCII;
        inner.message.ascii = "inner";
        nvtxDomainRangePushEx(library, &inner);
        launch<64>();
        nvtxDomainRangePop(library);
        nvtxRangePop();
        std::thread([] { launch<8>(); check(cudaDeviceSynchronize()); }).join();
        nvtxRangeId_t window = nvtxRangeStartA("window");
        launch<256>();
        nvtxRangeEnd(window);
        nvtxRangePop();
    }
}

static void graph(int count)
{
    cudaStream_t stream;
    cudaGraph_t made;
    cudaGraphExec_t ready;
    check(cudaStreamCreate(&stream));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 5; i++)
        launch<8>(stream);
    check(cudaStreamEndCapture(stream, &made));
    check(cudaGraphInstantiate(&ready, made, 0));
    nvtxRangePushA("replayed");
    for (int i = 0; i < count; i++)
        check(cudaGraphLaunch(ready, stream));
    check(cudaStreamSynchronize(stream));
    nvtxRangePop();
    launched = 5 * count;
}

int main(int words, char **word)
{
    const char *how = words > 1 ? word[1] : "many";
    int count = words > 2 ? atoi(word[2]) : 8;
    check(cudaMalloc(&values, VALUES * sizeof *values));
    check(cudaMemset(values, 0, VALUES * sizeof *values));
    if (!strcmp(how, "ranges"))
        ranges(count);
    else if (!strcmp(how, "graph"))
        graph(count);
    else
        many(count);
    check(cudaDeviceSynchronize());
    printf("launched %d\n", launched);
    fflush(stdout);
    if (!strcmp(how, "exit3"))
        return 3;
    if (!strcmp(how, "_exit") || !strcmp(how, "term") || !strcmp(how, "kill") || !strcmp(how, "abort")) {
        sleep(1); // what is still in a buffer is handed over several times a second
        if (!strcmp(how, "_exit"))
            _exit(3);
        if (!strcmp(how, "abort"))
            abort();
        raise(!strcmp(how, "term") ? SIGTERM : SIGKILL);
    }
    return 0;
}
