SELECT arch, dispatches FROM workloads
