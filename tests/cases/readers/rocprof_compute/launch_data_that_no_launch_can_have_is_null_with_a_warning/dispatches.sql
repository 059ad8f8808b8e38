SELECT dispatch_id, vgpr, workgroup_size FROM dispatches ORDER BY ALL
