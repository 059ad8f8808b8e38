SELECT range_id, name, path, thread, start_ns, end_ns, depth, source FROM ranges ORDER BY range_id
