SELECT arch, device, host FROM workloads
