SELECT name, source, thread, start_ns, end_ns FROM ranges
