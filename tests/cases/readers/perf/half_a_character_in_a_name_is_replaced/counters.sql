SELECT * EXCLUDE (workload, rank, host) FROM counters
