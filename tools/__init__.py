"""One module per MCP tool; the only layer that runs programs or touches a GPU."""
