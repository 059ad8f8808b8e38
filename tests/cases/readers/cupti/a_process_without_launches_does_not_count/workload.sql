SELECT dispatches FROM workloads
