SELECT dispatch_id, range_id FROM dispatches ORDER BY dispatch_id
