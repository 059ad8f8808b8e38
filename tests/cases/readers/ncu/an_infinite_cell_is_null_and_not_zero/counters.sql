SELECT dispatch_id, "sm__inst_executed.sum" FROM counters ORDER BY dispatch_id
