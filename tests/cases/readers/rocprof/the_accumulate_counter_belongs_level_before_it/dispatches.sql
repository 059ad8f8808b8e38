SELECT dispatch_id, kernel, pid, grid, workgroup_size, vgpr, lds_bytes, start_ns, end_ns, duration_ns
FROM dispatches ORDER BY dispatch_id
