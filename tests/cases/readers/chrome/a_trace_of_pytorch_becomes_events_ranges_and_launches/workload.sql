SELECT format, vendor, arch, device, events FROM workloads
