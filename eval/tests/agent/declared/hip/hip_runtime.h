// hip_runtime.h: what the tasks of eval/agent need beyond the declarations of tests/oracle/examples.
#pragma once
#include "../../../../../tests/oracle/examples/declared_hip/hip/hip_runtime.h"

inline constexpr hipMemcpyKind hipMemcpyHostToDevice = hipMemcpyDeviceToHost; // nothing is run
