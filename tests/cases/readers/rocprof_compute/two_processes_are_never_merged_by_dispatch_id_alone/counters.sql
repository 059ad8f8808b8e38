SELECT dispatch_id, pid, SQ_WAVES, SQ_LEVEL_WAVES_ACCUM FROM counters JOIN dispatches USING (workload, dispatch_id) ORDER BY dispatch_id
