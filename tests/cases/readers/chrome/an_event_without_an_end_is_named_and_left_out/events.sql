SELECT kind, name FROM events ORDER BY start_ns
