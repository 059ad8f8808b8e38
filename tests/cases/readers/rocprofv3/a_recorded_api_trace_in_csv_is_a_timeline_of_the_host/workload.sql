SELECT dispatches, kernels, events FROM workloads
