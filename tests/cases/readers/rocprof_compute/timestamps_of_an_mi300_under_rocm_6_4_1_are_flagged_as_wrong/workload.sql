SELECT arch, tool_version FROM workloads
