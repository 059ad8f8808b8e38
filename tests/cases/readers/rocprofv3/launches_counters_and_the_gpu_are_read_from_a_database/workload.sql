SELECT format, arch, device, dispatches, kernels FROM workloads
