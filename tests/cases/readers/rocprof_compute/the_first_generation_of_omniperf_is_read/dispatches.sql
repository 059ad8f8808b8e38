SELECT kernel, pid, queue_id, grid, workgroup_size, lds_bytes, scratch_bytes, vgpr, agpr, sgpr, duration_ns FROM dispatches
