SELECT left(kernel, 40) AS kernel, length(kernel) AS characters FROM dispatches ORDER BY dispatch_id
