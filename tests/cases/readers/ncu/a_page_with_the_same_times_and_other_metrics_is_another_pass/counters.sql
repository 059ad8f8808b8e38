SELECT * EXCLUDE (workload, rank, host) FROM counters ORDER BY dispatch_id
