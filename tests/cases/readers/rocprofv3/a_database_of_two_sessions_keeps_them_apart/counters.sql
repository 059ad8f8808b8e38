SELECT dispatch_id, pid, kernel, SQ_INSTS_VALU FROM counters JOIN dispatches USING (workload, dispatch_id, kernel) ORDER BY dispatch_id
