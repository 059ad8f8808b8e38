SELECT samples FROM workloads
