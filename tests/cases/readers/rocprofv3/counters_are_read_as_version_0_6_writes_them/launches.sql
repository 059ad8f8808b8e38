SELECT dispatch_id, device_id, agpr, duration_ns FROM dispatches ORDER BY dispatch_id
