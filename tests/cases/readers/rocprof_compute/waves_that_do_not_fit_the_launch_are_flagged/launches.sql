SELECT dispatch_id, grid, workgroup_size, SQ_WAVES FROM counters JOIN dispatches USING (workload, dispatch_id) ORDER BY dispatch_id
