SELECT dispatch_id, kernel, device_id, pid, queue_id, grid, workgroup_size, lds_bytes, scratch_bytes, vgpr, agpr, sgpr, start_ns, duration_ns FROM dispatches ORDER BY dispatch_id
