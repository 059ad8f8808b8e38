SELECT rank FROM workloads
