SELECT dispatch_id, kernel, duration_ns FROM dispatches ORDER BY dispatch_id
