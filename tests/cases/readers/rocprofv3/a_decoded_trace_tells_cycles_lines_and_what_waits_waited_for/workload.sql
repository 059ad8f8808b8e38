SELECT format, dispatches FROM workloads
