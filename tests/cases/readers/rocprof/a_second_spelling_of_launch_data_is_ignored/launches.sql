SELECT dispatch_id, workgroup_size, SQ_WAVES FROM dispatches JOIN counters USING (workload, dispatch_id) ORDER BY dispatch_id
