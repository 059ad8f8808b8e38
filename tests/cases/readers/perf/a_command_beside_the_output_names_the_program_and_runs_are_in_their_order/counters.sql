SELECT kernel, cycles, duration_ns FROM counters ORDER BY dispatch_id
