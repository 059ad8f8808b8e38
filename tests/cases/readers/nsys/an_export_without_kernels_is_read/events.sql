SELECT kind, name, device_id, stream, pid, thread, start_ns, end_ns, bytes, direction, pinned, correlation, range_id, category FROM events ORDER BY event_id
