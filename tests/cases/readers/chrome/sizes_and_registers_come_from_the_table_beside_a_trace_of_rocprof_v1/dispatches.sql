SELECT grid, workgroup_size, vgpr, lds_bytes FROM dispatches ORDER BY dispatch_id
