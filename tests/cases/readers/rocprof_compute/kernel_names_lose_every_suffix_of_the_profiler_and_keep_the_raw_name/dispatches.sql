SELECT dispatch_id, kernel, kernel_raw, ordinal FROM dispatches ORDER BY dispatch_id
