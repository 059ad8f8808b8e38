SELECT duration_ns, "gpu__time_duration.sum", "dram__bytes.sum" FROM counters ORDER BY ALL
