SELECT dispatches, events FROM workloads
