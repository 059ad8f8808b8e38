// Errors of the runtime end the program.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

inline void check(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        std::exit(1);
    }
}

// After a launch.  Builds for development find the kernel that failed.
inline void check_launch(const char *what)
{
    check(cudaGetLastError(), what);
#ifndef NDEBUG
    check(cudaDeviceSynchronize(), what);
#endif
}
