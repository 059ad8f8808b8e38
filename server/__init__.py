"""The MCP server and the command line over the tools."""
