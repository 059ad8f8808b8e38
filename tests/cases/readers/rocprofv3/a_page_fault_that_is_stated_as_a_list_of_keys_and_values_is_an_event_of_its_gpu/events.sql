SELECT kind, category, name, device_id, start_ns, end_ns, pid FROM events WHERE kind = 'driver'
