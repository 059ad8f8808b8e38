SELECT * EXCLUDE (workload) FROM counters ORDER BY dispatch_id
