SELECT stack, depth, function, file, line FROM host_stacks ORDER BY stack, depth
