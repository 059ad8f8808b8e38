SELECT kernel FROM dispatches ORDER BY dispatch_id
