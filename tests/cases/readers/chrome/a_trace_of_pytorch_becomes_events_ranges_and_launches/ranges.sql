SELECT name, path, depth, source, thread FROM ranges ORDER BY range_id
