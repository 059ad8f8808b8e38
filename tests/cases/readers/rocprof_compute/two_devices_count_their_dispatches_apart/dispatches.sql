SELECT dispatch_id, device_id, ordinal FROM dispatches ORDER BY ALL
