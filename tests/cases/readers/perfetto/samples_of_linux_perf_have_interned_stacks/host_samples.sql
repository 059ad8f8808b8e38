SELECT thread, function, file, line, own, start_ns, end_ns, samples FROM host_samples JOIN host_stacks USING (stack) WHERE line IS NOT NULL OR depth > 2 ORDER BY start_ns, thread, depth
