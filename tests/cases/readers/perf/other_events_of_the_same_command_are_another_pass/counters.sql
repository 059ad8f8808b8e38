SELECT cycles, "cache-misses" FROM counters
