SELECT grid, workgroup_size, vgpr, lds_bytes, duration_ns, range_id, queue_id FROM dispatches
