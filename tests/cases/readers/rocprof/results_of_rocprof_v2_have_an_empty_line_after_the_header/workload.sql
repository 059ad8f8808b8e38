SELECT tool, arch, dispatches, kernels FROM workloads
