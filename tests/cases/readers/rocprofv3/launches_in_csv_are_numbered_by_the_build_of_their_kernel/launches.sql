SELECT dispatch_id, kernel, ordinal, iteration FROM dispatches ORDER BY dispatch_id
