SELECT kernel, pid, device_id, queue_id, grid, workgroup_size, vgpr, agpr, sgpr, lds_bytes, scratch_bytes, cluster, start_ns, end_ns, duration_ns FROM dispatches
