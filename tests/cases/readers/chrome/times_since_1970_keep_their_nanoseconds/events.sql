SELECT start_ns, end_ns FROM events ORDER BY ALL
