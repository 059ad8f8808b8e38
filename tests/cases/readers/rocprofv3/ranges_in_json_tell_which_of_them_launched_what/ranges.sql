SELECT range_id, path, name, depth, source, call_site, end_ns > start_ns AS has_time FROM ranges ORDER BY range_id
