SELECT start_ns, end_ns, samples FROM host_samples
