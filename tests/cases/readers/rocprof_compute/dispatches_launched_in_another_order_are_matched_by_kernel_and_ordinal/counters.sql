SELECT dispatch_id, kernel, SQ_LEVEL_WAVES_ACCUM FROM counters ORDER BY dispatch_id
