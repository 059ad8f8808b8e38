SELECT kernel, kernel_raw, grid, workgroup_size, vgpr, duration_ns, range_id FROM dispatches ORDER BY dispatch_id
