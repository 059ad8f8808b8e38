SELECT kind, name, category, pid, thread, device_id, correlation FROM events WHERE start_ns > 5150 ORDER BY kind, name
