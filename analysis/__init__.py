"""Pure analysis over stored profiles: no subprocess, no GPU, no MCP."""
