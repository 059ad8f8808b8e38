SELECT name, arguments, forward_ns FROM ranges ORDER BY start_ns
