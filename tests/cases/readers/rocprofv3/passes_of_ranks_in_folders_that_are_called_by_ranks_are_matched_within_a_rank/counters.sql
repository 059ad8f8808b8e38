SELECT rank, X_A FROM counters ORDER BY rank, dispatch_id
