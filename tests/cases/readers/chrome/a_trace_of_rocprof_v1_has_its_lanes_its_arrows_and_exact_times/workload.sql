SELECT format, vendor FROM workloads
