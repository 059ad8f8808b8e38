SELECT start_ns, end_ns, pid, thread, samples, stack FROM host_samples ORDER BY start_ns
