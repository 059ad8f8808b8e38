SELECT kernel, grid, workgroup_size, vgpr, lds_bytes, duration_ns, device_id, queue_id, pid FROM dispatches ORDER BY dispatch_id
