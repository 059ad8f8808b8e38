// cuda_runtime.h: CUDA's names for the emulated device.
#pragma once
#include "hip/hip_runtime.h"

#define cudaMemset hipMemset
