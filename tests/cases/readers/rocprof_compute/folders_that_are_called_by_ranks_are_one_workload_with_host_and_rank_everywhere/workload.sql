SELECT format, arch, dispatches FROM workloads
