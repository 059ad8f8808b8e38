SELECT dispatch_id, vgpr, agpr, sgpr, lds_bytes FROM dispatches ORDER BY ALL
