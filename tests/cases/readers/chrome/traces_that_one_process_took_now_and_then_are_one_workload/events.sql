SELECT name, start_ns, end_ns FROM events ORDER BY start_ns
