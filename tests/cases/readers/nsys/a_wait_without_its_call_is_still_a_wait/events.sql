SELECT name, start_ns, end_ns FROM events WHERE kind = 'sync'
