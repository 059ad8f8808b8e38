"""perf stat, the counters of Linux: how it is run, and how its output is read."""
