SELECT * EXCLUDE (workload, host) FROM events ORDER BY event_id
