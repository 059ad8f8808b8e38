SELECT dispatch_id, kernel, grid, launch FROM dispatches ORDER BY dispatch_id
