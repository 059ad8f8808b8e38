SELECT s.start_ns, f.depth, f.function FROM host_samples s JOIN host_stacks f USING (stack) WHERE s.start_ns = 40000000 ORDER BY f.depth
