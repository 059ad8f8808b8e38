SELECT * EXCLUDE (workload) FROM kernel_stats ORDER BY kernel
