SELECT kernel, grid FROM dispatches ORDER BY dispatch_id
