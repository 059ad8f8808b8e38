SELECT dispatch_id, kernel, iteration FROM dispatches ORDER BY dispatch_id
