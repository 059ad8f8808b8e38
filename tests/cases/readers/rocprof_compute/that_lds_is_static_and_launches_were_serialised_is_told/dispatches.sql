SELECT dispatch_id, lds_bytes, duration_ns FROM dispatches ORDER BY dispatch_id
