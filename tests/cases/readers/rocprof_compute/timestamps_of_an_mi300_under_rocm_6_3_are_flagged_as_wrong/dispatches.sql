SELECT dispatch_id, start_ns, end_ns, duration_ns FROM dispatches ORDER BY dispatch_id
