SELECT pid, device_id FROM dispatches ORDER BY dispatch_id
