SELECT dispatch_id, grid, workgroup_size, vgpr, lds_bytes, duration_ns FROM dispatches
