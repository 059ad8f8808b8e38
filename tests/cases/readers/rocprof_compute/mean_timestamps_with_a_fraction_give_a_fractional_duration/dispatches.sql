SELECT dispatch_id, duration_ns FROM dispatches ORDER BY ALL
