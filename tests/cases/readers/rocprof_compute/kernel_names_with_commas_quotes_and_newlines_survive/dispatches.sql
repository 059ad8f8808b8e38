SELECT dispatch_id, kernel FROM dispatches ORDER BY ALL
