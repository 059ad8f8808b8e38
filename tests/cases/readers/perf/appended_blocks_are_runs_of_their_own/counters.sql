SELECT kernel, duration_ns, cycles FROM counters ORDER BY dispatch_id
