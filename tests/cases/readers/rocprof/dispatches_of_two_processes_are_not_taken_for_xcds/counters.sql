SELECT dispatch_id, pid, SQ_WAVES FROM counters JOIN dispatches USING (workload, dispatch_id) ORDER BY dispatch_id
