SELECT rank, host, dispatches FROM workloads
