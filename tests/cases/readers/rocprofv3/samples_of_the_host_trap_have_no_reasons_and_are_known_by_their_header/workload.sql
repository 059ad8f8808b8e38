SELECT dispatches, samples FROM workloads
