SELECT path, start_ns, end_ns FROM ranges ORDER BY start_ns
