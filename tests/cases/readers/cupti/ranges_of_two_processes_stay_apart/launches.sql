SELECT d.kernel, d.start_ns, r.path FROM dispatches d LEFT JOIN ranges r USING (workload, range_id) ORDER BY d.dispatch_id
