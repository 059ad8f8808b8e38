SELECT tool, arch, device, dispatches, kernels FROM workloads
