SELECT start_ns FROM host_samples ORDER BY start_ns
