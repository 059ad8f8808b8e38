SELECT dispatch_id, X_A FROM counters ORDER BY ALL
