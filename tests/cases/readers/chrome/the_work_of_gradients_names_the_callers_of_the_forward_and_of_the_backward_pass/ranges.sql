SELECT name, forward_thread, forward_ns FROM ranges WHERE forward_ns IS NOT NULL
