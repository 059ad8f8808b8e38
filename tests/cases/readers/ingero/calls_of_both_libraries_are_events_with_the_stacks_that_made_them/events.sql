SELECT kind, name, pid, thread, start_ns, end_ns, stack FROM events ORDER BY event_id
