SELECT format, dispatches, samples FROM workloads
