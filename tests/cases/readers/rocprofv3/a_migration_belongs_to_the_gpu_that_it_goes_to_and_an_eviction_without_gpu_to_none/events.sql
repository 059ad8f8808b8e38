SELECT category, name, device_id, start_ns, end_ns FROM events WHERE kind = 'driver' ORDER BY start_ns
