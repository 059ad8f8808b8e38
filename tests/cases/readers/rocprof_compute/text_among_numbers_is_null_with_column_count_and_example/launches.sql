SELECT dispatch_id, SQ_WAVES, SQ_BUSY_CYCLES, grid FROM counters JOIN dispatches USING (workload, dispatch_id) ORDER BY dispatch_id
