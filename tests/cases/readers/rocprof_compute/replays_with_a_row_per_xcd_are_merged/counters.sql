SELECT dispatch_id, SQ_WAVES FROM counters ORDER BY dispatch_id
