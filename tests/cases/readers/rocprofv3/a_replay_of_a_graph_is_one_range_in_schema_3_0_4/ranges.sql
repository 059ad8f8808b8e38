SELECT range_id, path, name, source, start_ns, end_ns FROM ranges ORDER BY range_id
