SELECT X_A FROM counters ORDER BY dispatch_id
