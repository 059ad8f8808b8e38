SELECT duration_ns FROM counters ORDER BY ALL
