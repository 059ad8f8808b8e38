SELECT d.dispatch_id, d.kernel, r.path FROM dispatches d LEFT JOIN ranges r USING (workload, range_id) ORDER BY d.dispatch_id
