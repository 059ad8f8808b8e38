SELECT kind, name, device_id, stream, thread, start_ns, end_ns, bytes, direction, pinned, correlation FROM events ORDER BY event_id
