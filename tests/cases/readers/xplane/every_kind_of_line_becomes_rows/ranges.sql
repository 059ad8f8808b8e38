SELECT path, source, pid, thread FROM ranges ORDER BY range_id
