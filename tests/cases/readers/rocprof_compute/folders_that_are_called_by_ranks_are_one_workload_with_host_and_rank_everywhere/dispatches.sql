SELECT dispatch_id, rank, host FROM dispatches ORDER BY dispatch_id
