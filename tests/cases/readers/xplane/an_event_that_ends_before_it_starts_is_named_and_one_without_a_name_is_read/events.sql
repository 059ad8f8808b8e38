SELECT name, end_ns - start_ns AS lasted_ns FROM events WHERE kind = 'kernel' ORDER BY start_ns
