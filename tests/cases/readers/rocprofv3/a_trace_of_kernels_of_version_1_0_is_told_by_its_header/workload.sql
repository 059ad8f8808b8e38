SELECT format FROM workloads
