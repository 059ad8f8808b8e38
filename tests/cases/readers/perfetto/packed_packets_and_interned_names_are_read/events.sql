SELECT kind, name, start_ns, end_ns FROM events
