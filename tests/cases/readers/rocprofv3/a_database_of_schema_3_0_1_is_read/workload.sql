SELECT arch, device, dispatches, kernels FROM workloads
