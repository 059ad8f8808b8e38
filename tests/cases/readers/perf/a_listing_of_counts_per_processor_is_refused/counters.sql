SELECT * EXCLUDE (workload, dispatch_id, rank, host) FROM counters ORDER BY dispatch_id
