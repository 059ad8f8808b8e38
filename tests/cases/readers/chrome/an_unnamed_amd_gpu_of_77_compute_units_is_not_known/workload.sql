SELECT device, arch, vendor FROM workloads
