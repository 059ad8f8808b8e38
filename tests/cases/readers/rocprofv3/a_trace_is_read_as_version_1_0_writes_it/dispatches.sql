SELECT dispatch_id, kernel, device_id, pid, queue_id, grid, workgroup_size, vgpr, agpr, sgpr, lds_bytes, scratch_bytes, start_ns, duration_ns FROM dispatches ORDER BY dispatch_id
