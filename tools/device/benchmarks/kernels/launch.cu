// A kernel that does nothing: what a launch costs.
#include "portable.h"
KERNEL(64) empty(ARGUMENTS) {}
