SELECT name, path, source, pid, thread, start_ns, end_ns FROM ranges ORDER BY range_id
