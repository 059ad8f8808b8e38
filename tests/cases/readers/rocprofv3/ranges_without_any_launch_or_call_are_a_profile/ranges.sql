SELECT name, start_ns, end_ns FROM ranges ORDER BY ALL
