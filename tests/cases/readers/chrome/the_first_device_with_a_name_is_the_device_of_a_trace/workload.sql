SELECT device, arch FROM workloads
