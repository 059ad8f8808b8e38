SELECT kernel, SQ_WAVES FROM counters ORDER BY dispatch_id
