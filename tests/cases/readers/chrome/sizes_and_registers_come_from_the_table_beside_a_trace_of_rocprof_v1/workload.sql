SELECT format, arch, device FROM workloads
