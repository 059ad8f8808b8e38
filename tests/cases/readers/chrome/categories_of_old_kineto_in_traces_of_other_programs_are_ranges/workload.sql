SELECT format, dispatches, events FROM workloads
