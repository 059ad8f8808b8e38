SELECT kind, pid, correlation, range_id FROM events ORDER BY event_id
