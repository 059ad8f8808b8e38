SELECT dispatch_id, kernel, COLUMNS('^X_') FROM counters ORDER BY dispatch_id
