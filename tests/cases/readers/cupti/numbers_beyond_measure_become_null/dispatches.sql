SELECT grid, start_ns, duration_ns FROM dispatches
