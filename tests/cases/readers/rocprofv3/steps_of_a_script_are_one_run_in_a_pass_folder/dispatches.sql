SELECT dispatch_id, pid, kernel FROM dispatches ORDER BY dispatch_id
