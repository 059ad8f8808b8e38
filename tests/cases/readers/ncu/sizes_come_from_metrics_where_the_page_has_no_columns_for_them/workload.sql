SELECT arch FROM workloads
