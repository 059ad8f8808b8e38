SELECT dispatch_id, "duration_ns@timestamps" FROM counters ORDER BY ALL
