/* A stand-in, see ../README.md. The version is given to the compiler: -DCUPTI_API_VERSION=130000. */
#pragma once
#include <stdint.h>
#include "cupti_result.h"
CUptiResult cuptiGetVersion(uint32_t *version);
