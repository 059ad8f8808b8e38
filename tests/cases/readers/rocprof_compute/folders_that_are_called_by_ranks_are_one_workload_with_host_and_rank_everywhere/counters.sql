SELECT dispatch_id, rank, host, SQ_WAVES FROM counters ORDER BY dispatch_id
