SELECT dispatch_id, pid, kernel, X_A FROM counters JOIN dispatches USING (workload, dispatch_id, kernel) ORDER BY dispatch_id
