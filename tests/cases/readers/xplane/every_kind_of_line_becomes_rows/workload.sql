SELECT format, vendor, arch, device, host, tool FROM workloads
