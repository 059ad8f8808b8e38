SELECT name, start_ns FROM ranges
