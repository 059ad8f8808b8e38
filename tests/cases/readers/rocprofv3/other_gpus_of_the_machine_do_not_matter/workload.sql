SELECT arch, device FROM workloads
