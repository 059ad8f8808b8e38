SELECT kernel, calls, total_ns, mean_ns, min_ns, max_ns, std_ns FROM kernel_stats ORDER BY ALL
