SELECT pid, duration_ns FROM dispatches ORDER BY dispatch_id
