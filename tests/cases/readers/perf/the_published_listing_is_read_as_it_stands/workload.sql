SELECT format, vendor, arch, command, dispatches, kernels FROM workloads
