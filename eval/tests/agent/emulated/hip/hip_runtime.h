// hip_runtime.h: what the tasks of eval/agent need beyond the emulated device of tests/oracle/examples.
#pragma once
#define EMULATED 1
#include "../../../../../tests/oracle/examples/emulated_hip/hip/hip_runtime.h"

inline constexpr hipMemcpyKind hipMemcpyHostToDevice = hipMemcpyDeviceToHost; // either way it copies
