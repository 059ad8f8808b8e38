SELECT kind, name, device_id, stream, pid, thread, start_ns, end_ns, bytes, direction
FROM events ORDER BY start_ns, end_ns DESC, name
