SELECT tool, tool_version, arch, device, host, command FROM workloads
