SELECT events, device, rank FROM workloads
