SELECT dispatch_id, pid, X_A FROM counters JOIN dispatches USING (workload, dispatch_id, kernel) ORDER BY dispatch_id
