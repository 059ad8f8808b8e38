SELECT pid, start_ns, end_ns, path FROM ranges ORDER BY start_ns
