SELECT pid, thread, stack, start_ns, end_ns, samples, string_agg(function, ' > ' ORDER BY depth) AS functions FROM host_samples JOIN host_stacks USING (stack) GROUP BY ALL ORDER BY start_ns
