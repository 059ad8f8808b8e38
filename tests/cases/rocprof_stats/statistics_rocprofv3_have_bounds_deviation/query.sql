SELECT * FROM kernel_stats
