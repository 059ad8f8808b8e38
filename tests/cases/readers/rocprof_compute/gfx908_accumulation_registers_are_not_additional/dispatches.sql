SELECT dispatch_id, vgpr, agpr FROM dispatches ORDER BY ALL
