SELECT name, arguments FROM ranges ORDER BY start_ns
