SELECT start_ns, end_ns, stack FROM host_samples ORDER BY start_ns
