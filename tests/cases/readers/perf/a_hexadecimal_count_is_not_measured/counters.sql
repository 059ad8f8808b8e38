SELECT cycles, instructions FROM counters
