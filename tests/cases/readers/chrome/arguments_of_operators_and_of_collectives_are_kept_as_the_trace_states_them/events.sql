SELECT name, arguments FROM events ORDER BY start_ns
