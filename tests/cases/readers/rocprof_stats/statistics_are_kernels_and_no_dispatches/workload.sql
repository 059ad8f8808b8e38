SELECT tool, format, kernels, dispatches FROM workloads
