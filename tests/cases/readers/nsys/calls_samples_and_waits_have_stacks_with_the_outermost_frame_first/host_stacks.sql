SELECT stack, depth, function, file, line, module FROM host_stacks ORDER BY stack, depth
