SELECT kind, category, name, stream, end_ns - start_ns AS duration_ns FROM events WHERE kind <> 'kernel' ORDER BY ALL
