SELECT format, arch, device, host FROM workloads
