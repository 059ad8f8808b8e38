SELECT kind, name, device_id, start_ns, end_ns, correlation, range_id FROM events ORDER BY start_ns
