SELECT rank, name, start_ns FROM events ORDER BY start_ns, rank
