SELECT kind, name, device_id, stream, pid, thread, start_ns, end_ns, bytes, correlation, range_id, category, value FROM events ORDER BY event_id
