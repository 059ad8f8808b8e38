SELECT name, source FROM ranges ORDER BY start_ns
