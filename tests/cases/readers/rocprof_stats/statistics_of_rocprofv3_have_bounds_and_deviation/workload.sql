SELECT tool FROM workloads
